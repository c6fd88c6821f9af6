//! No tenant's events wait for another's, and no event blocks the rest: turns, bounds, and skipped events.

use serde_json::json;
use tokio_postgres::Client;
use uuid::Uuid;
use windlass::events::{EventFilter, NewEvent};
use windlass::keeper::Duty;
use windlass::schedule::NewTrigger;
use windlass::{DEFAULT_TENANT, Definition};
use windlass_testing::TestQueue;

use super::{event, outcomes};
use crate::schedule::create;
use crate::schedule::large::{expanding, long_label};
use crate::support::{count, keeper};

/// A trigger for all events, without a window, and the given number of copies of it.
async fn triggers(queue: &TestQueue, client: &Client, template: serde_json::Value, copies: i32) {
    queue.define(&Definition::new("held")).await.unwrap();
    let new =
        NewTrigger::event("first", "load.*", "held").payload_template(template).dedupe_window_seconds(0);
    create(queue, &new).await;
    let copy = "insert into windlass.job_triggers select (jsonb_populate_record(t, jsonb_build_object('id', gen_random_uuid()))).*
        from windlass.job_triggers t, generate_series(1, $1)";
    client.execute(copy, &[&copies]).await.unwrap();
}

/// As if this many had been emitted.
async fn emit_many(client: &Client, tenant: Uuid, events: i32) {
    let emit = "with made as (insert into windlass.event (tenant_id, id, name, payload, emitted_at)
          select $1, gen_random_uuid(), 'load.tick', '{}', clock_timestamp() - interval '1 minute' from generate_series(1, $2)
          returning tenant_id, id)
        insert into windlass.event_pending (tenant_id, event_id, bytes) select tenant_id, id, 2 from made";
    client.execute(emit, &[&tenant, &events]).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_single_event_does_not_wait_for_another_tenants_ten_thousand() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    triggers(&queue, &client, json!({}), 0).await;
    let flooded: Vec<Uuid> = {
        let mut tenants = vec![DEFAULT_TENANT];
        for which in 0..24 {
            tenants.push(queue.tenant(&format!("flooded-{which}")).await);
        }
        tenants
    };
    for tenant in &flooded {
        emit_many(&client, *tenant, if *tenant == DEFAULT_TENANT { 10_000 } else { 300 }).await;
    }
    let single = queue.tenant("single").await;
    emit_many(&client, single, 1).await;

    // 26 tenants, twenty of which have a turn in one round.
    let keeper = keeper(&queue);
    let waits = format!("select count(*) from windlass.event_pending where tenant_id = '{single}'");
    let mut rounds = 0;
    while count(&client, &waits).await > 0 {
        keeper.run_once(Duty::Dispatch).await.unwrap();
        rounds += 1;
        assert!(rounds <= 2, "it waits for others");
    }
    let left = count(&client, "select count(*) from windlass.event_pending").await;
    assert!(left > 10_000, "the others are not done: {left}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_for_a_thousand_triggers_takes_several_rounds_and_starts_each_job_once() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    triggers(&queue, &client, json!({}), 1199).await;
    for _ in 0..2 {
        queue.emit(&NewEvent::new("load.tick")).await.unwrap();
    }
    let keeper = keeper(&queue);
    let (mut rounds, mut before) = (0, 0);
    while count(&client, "select count(*) from windlass.event_pending").await > 0 {
        keeper.run_once(Duty::Dispatch).await.unwrap();
        rounds += 1;
        let made = count(&client, "select count(*) from windlass.job").await;
        assert!(made > before && made - before <= 500, "round {rounds} created {}", made - before);
        before = made;
    }
    assert_eq!(before, 2400);
    let pairs = "select count(*) from windlass.event_dispatch d join windlass.job j on j.id = d.job_id
        where d.outcome = 'fired' and j.source_ref = d.event_id::text";
    assert_eq!(count(&client, pairs).await, 2400);
}

/// 200 events of 1 MB at fifty triggers made one statement that no server accepts.
#[tokio::test(flavor = "multi_thread")]
async fn the_bytes_of_one_round_are_bounded() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    triggers(&queue, &client, json!({"blob": "{{event.blob}}"}), 9).await;
    let large = json!({"blob": "x".repeat(900 * 1024)});
    for _ in 0..4 {
        queue.emit(&NewEvent::new("load.tick").payload(&large)).await.unwrap();
    }
    let keeper = keeper(&queue);
    let read = "select coalesce(sum(octet_length(payload::text)), 0)::bigint
        from windlass.pending_events(0, 200, 0, 8388608, 20, '00000000-0000-0000-0000-000000000000')";
    let written = "select coalesce(sum(octet_length(payload::text)), 0)::bigint from windlass.job";
    let mut before = 0;
    while count(&client, "select count(*) from windlass.event_pending").await > 0 {
        assert!(count(&client, read).await <= 9 << 20);
        keeper.run_once(Duty::Dispatch).await.unwrap();
        let bytes = count(&client, written).await;
        assert!(bytes > before && bytes - before <= 9 << 20, "{} bytes in one round", bytes - before);
        before = bytes;
    }
    assert_eq!(count(&client, "select count(*) from windlass.job").await, 40);
}

/// 120 triggers whose templates expand to 720 KB each, six events, and another tenant's only event.
#[tokio::test(flavor = "multi_thread")]
async fn templates_that_expand_are_rendered_up_to_a_tenants_share_and_no_further() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    queue.define(&Definition::new("held")).await.unwrap();
    let large = NewTrigger::event(long_label(), "load.*", "held").payload_template(expanding());
    create(&queue, &large.dedupe_window_seconds(0)).await;
    let copy = "insert into windlass.job_triggers select (jsonb_populate_record(t, jsonb_build_object('id', gen_random_uuid()))).*
        from windlass.job_triggers t, generate_series(1, 119)";
    client.execute(copy, &[]).await.unwrap();
    for _ in 0..6 {
        queue.emit(&NewEvent::new("load.tick")).await.unwrap();
    }
    let quiet = queue.tenant("quiet").await;
    queue.create_trigger(quiet, &NewTrigger::event("own", "load.*", "held"), "tester").await.unwrap();
    emit_many(&client, quiet, 1).await;

    keeper(&queue).run_once(Duty::Dispatch).await.unwrap();
    let of = |tenant: Uuid| format!("select count(*) from windlass.job where tenant_id = '{tenant}'");
    assert_eq!(count(&client, &of(quiet)).await, 1, "it is dispatched in the first round");
    let heavy = count(&client, &of(DEFAULT_TENANT)).await;
    assert!((1..=3).contains(&heavy), "{heavy} payloads of 720 KB in one round");
    let pending = format!("select count(*) from windlass.event_pending where tenant_id = '{DEFAULT_TENANT}'");
    assert_eq!(count(&client, &pending).await, 6, "the outbox contains their progress");
}

/// a payload that the definition refuses took as long to render as one that it accepts.
#[tokio::test(flavor = "multi_thread")]
async fn refused_payloads_use_up_a_tenants_share_of_the_dispatch() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    triggers(&queue, &client, json!({"z": "{{event.z}}"}), 29).await;
    let refusing = json!({"properties": {"z": {"maxLength": 10}}});
    queue.define(&Definition::new("held").arg_schema(refusing)).await.unwrap();
    let large = json!({"z": "x".repeat(720_000)});
    queue.emit(&NewEvent::new("load.tick").payload(&large)).await.unwrap();

    let keeper = keeper(&queue);
    keeper.run_once(Duty::Dispatch).await.unwrap();
    let refused = "select count(*) from windlass.event_dispatch where outcome = 'failed'";
    let first = count(&client, refused).await;
    assert!((1..=3).contains(&first), "{first} payloads of 720 KB in one round");
    while count(&client, "select count(*) from windlass.event_pending").await > 0 {
        keeper.run_once(Duty::Dispatch).await.unwrap();
    }
    assert_eq!(count(&client, refused).await, 30, "each one is recorded");
}

/// thirty triggers with long conditions, and events that match none of them.
#[tokio::test(flavor = "multi_thread")]
async fn conditions_that_do_not_match_use_up_a_tenants_share_too() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    triggers(&queue, &client, json!({}), 29).await;
    let long = json!({"x": {"in": vec![1_000_000; 3_700]}});
    client.execute("update windlass.job_triggers set conditions = $1", &[&long]).await.unwrap();
    emit_many(&client, DEFAULT_TENANT, 12).await;
    let quiet = queue.tenant("quiet").await;
    queue.create_trigger(quiet, &NewTrigger::event("own", "load.*", "held"), "tester").await.unwrap();
    emit_many(&client, quiet, 1).await;

    let keeper = keeper(&queue);
    keeper.run_once(Duty::Dispatch).await.unwrap();
    assert_eq!(count(&client, "select count(*) from windlass.job").await, 1, "that of the other tenant");
    let pending = "select count(*) from windlass.event_pending";
    let left = count(&client, pending).await;
    assert!(
        (9..12).contains(&left),
        "1.8 MB of conditions for each event, 2 MiB in a round: {left} are left"
    );
    let mut rounds = 0;
    while count(&client, pending).await > 0 {
        keeper.run_once(Duty::Dispatch).await.unwrap();
        rounds += 1;
        assert!(rounds <= 12, "each round makes progress");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rejected_event_is_skipped_and_the_rest_continues() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    triggers(&queue, &client, json!({"n": "{{event.n}}"}), 2).await;
    // Unforeseen errors of the server, for one trigger, one event and its removal.
    let refuse = "create function refuse() returns trigger language plpgsql as $$
        begin
          if tg_op = 'INSERT' then
            if new.payload::text like '%poison%' then
              raise exception 'poison' using errcode = 'XX000';
            end if;
          elsif exists (select from windlass.event e where e.id = old.event_id and e.payload ->> 'n' = 'stuck') then
            raise exception 'stuck' using errcode = 'XX000';
          end if;
          return coalesce(new, old);
        end $$;
        create trigger refuse before insert on windlass.job for each row execute function refuse();
        create trigger refuse before delete on windlass.event_pending for each row execute function refuse();";
    client.batch_execute(refuse).await.unwrap();
    let mut ids = Vec::new();
    for n in ["one", "poison", "two", "stuck", "three"] {
        ids.push(queue.emit(&NewEvent::new("load.tick").payload(&json!({"n": n}))).await.unwrap().id);
    }
    let keeper = keeper(&queue);
    keeper.run_once(Duty::Dispatch).await.unwrap();

    for index in [0, 2, 4] {
        let good = event(&queue, ids[index]).await;
        assert_eq!(outcomes(&good), [("fired", None); 3]);
        assert!(!good.is_pending && good.problem.is_none());
    }
    let poison = event(&queue, ids[1]).await;
    assert_eq!(poison.triggers.len(), 3);
    assert!(!poison.is_pending);
    for one in &poison.triggers {
        assert!(one.outcome == "failed" && one.reason.as_ref().unwrap().contains("poison"), "{one:?}");
    }
    let stuck = event(&queue, ids[3]).await;
    assert!(stuck.is_pending && stuck.problem.as_ref().unwrap().contains("stuck"), "{stuck:?}");
    let failed = EventFilter::default().only_failed(true);
    let mut listed: Vec<Uuid> =
        queue.events(DEFAULT_TENANT, &failed).await.unwrap().iter().map(|event| event.id).collect();
    listed.sort_unstable();
    assert_eq!(listed, [ids[1], ids[3]]);

    // Once the cause is fixed, one is retried by hand and the other automatically.
    client.batch_execute("drop function refuse() cascade").await.unwrap();
    keeper.run_once(Duty::Dispatch).await.unwrap();
    assert!(event(&queue, ids[3]).await.is_pending, "it waits a while");
    client.execute("update windlass.event_pending set retry_at = clock_timestamp()", &[]).await.unwrap();
    keeper.run_once(Duty::Dispatch).await.unwrap();
    assert_eq!(outcomes(&event(&queue, ids[3]).await), [("fired", None); 3]);
    for one in &poison.triggers {
        let retried =
            queue.retry_event(DEFAULT_TENANT, ids[1], one.trigger_id, "ada").await.unwrap().unwrap();
        assert_eq!(retried.outcome, "fired");
    }
}

/// Written past our checks, as by a restore or by hand.
#[tokio::test(flavor = "multi_thread")]
async fn an_unreadable_event_is_skipped() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    triggers(&queue, &client, json!({}), 0).await;
    let bad = queue.emit(&NewEvent::new("load.tick")).await.unwrap().id;
    let good = queue.emit(&NewEvent::new("load.tick")).await.unwrap().id;
    client
        .execute("update windlass.event set payload = '{\"n\": 1e400}' where id = $1", &[&bad])
        .await
        .unwrap();
    keeper(&queue).run_once(Duty::Dispatch).await.unwrap();
    assert_eq!(outcomes(&event(&queue, good).await), [("fired", None)]);
    let problem = "select count(*) from windlass.event_pending where problem like '%cannot read%' and retry_at > clock_timestamp()";
    assert_eq!(count(&client, problem).await, 1);
}

/// Under a quota, each job of a round is counted with a lock on the tenant's row, and the event of another tenant waits for the end of
/// the round. So a tenant alone gets a quarter of a round, and the tenants with few jobs are written first.
#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_under_a_quota_gets_a_quarter_of_a_round() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    triggers(&queue, &client, json!({}), 499).await;
    client.batch_execute("update windlass.tenants set max_queued = 100000").await.unwrap();
    queue.emit(&NewEvent::new("load.tick")).await.unwrap();
    let light = queue.tenant("light").await;
    queue.create_trigger(light, &NewTrigger::event("own", "load.*", "held"), "tester").await.unwrap();
    emit_many(&client, light, 1).await;

    keeper(&queue).run_once(Duty::Dispatch).await.unwrap();
    let of = |tenant: Uuid| format!("select count(*) from windlass.job where tenant_id = '{tenant}'");
    assert_eq!(count(&client, &of(light)).await, 1);
    assert_eq!(count(&client, &of(DEFAULT_TENANT)).await, 125, "a quarter of 500");
    // The transaction of the light tenant committed first.
    let order =
        "select bool_and(l.xmin::text::bigint < h.xmin::text::bigint) from windlass.job l, windlass.job h
        where l.tenant_id = $1 and h.tenant_id = $2";
    let is_first: bool = client.query_one(order, &[&light, &DEFAULT_TENANT]).await.unwrap().get(0);
    assert!(is_first, "the light tenant waited for the heavy one");
}
