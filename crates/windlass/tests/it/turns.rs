//! One tenant's backlog in each duty of the keeper, with one item of another tenant behind it: that one is processed within two rounds.

use serde_json::json;
use windlass::admin::Reach;
use windlass::events::NewEvent;
use windlass::keeper::Duty;
use windlass::schedule::NewTrigger;
use windlass::{DEFAULT_TENANT, Definition, Error};
use windlass_testing::TestQueue;

use crate::schedule::create;
use crate::support::{Hand, count, keeper, status};

/// The first tenant's id is the lower one and all its rows are older, so in every order its items come first.
const LOUD: &str = "0a000000-0000-4000-8000-000000000000";
const QUIET: &str = "0b000000-0000-4000-8000-000000000000";
/// An id without its last digit.
const LOUD_JOB: &str = "0a000000-0000-4000-8000-00000000000";

/// The work of both tenants, and whether the quiet one's item is done.
struct Backlog {
    setup: &'static str,
    is_done: &'static str,
}

const PROMOTE: Backlog = Backlog {
    setup: "select windlass.enqueue('held', tenant_id => :loud, delay => '1 h'), windlass.enqueue('held', tenant_id => :quiet, delay => '1 h');
        update windlass.deferred set due_at = now() - interval '1 s';
        insert into windlass.deferred (tenant_id, job_id, due_at, lane, max_attempts)
          select tenant_id, gen_random_uuid(), now() - interval '1 h', lane, max_attempts
            from windlass.deferred cross join generate_series(1, 5000) where tenant_id = :loud",
    is_done: "select not exists (select from windlass.deferred where tenant_id = :quiet)",
};

const EXPIRE: Backlog = Backlog {
    setup: "insert into windlass.expiry (tenant_id, job_id, expires_at, only_unstarted)
          select :loud, gen_random_uuid(), now() - interval '1 h', false from generate_series(1, 5000);
        select windlass.enqueue('held', tenant_id => :quiet, deadline => now() - interval '1 s')",
    is_done: "select not exists (select from windlass.expiry where tenant_id = :quiet)",
};

const SCHEDULE: Backlog = Backlog {
    setup: "insert into windlass.job_triggers (tenant_id, label, trigger_type, cron_expr, timezone, definition_id, next_due_at)
          select :loud, 'l', 'schedule', '* * * * *', 'UTC', d.id, date_trunc('minute', now()) - interval '1 h'
            from windlass.job_definitions d cross join generate_series(1, 5000)
          union all
          select :quiet, 'q', 'schedule', '* * * * *', 'UTC', d.id, date_trunc('minute', now()) from windlass.job_definitions d",
    is_done: "select exists (select from windlass.fire where tenant_id = :quiet)",
};

const DISPATCH: Backlog = Backlog {
    setup: "select windlass.emit('a.b', '{}', tenant_id => :loud) from generate_series(1, 5000);
        select windlass.emit('a.b', '{}', tenant_id => :quiet)",
    is_done: "select not exists (select from windlass.event_pending where tenant_id = :quiet)",
};

/// Both jobs are claimed by a worker that misses its heartbeats.
const REAP: Backlog = Backlog {
    setup: "insert into windlass.live select (jsonb_populate_record(l, jsonb_build_object('seq', -n.n, 'ids', array[n.id]))).*
          from windlass.live l cross join (select n, gen_random_uuid() as id from generate_series(1, 5000) n) n where l.tenant_id = :loud;
        update windlass.live set ids = array['ffffffff-ffff-4fff-8fff-ffffffffffff'::uuid] where tenant_id = :quiet;
        update windlass.job set id = 'ffffffff-ffff-4fff-8fff-ffffffffffff' where tenant_id = :quiet",
    is_done: "select not exists (select from windlass.live where tenant_id = :quiet)",
};

/// The quiet tenant's job depends on a deleted one.
const UNBLOCK: Backlog = Backlog {
    setup: "select windlass.enqueue('held', tenant_id => :loud);
        insert into windlass.blocked (tenant_id, job_id, lane, max_attempts)
          select :loud, gen_random_uuid(), l.id, 1 from windlass.lane l cross join generate_series(1, 5000) where l.tenant_id = :loud;
        insert into windlass.dependency (tenant_id, needs_job_id, job_id, if_unmet)
          select :loud, n.id, b.job_id, 'run' from windlass.job n join windlass.blocked b on b.tenant_id = n.tenant_id where n.tenant_id = :loud;
        insert into windlass.unblock_due (tenant_id, needs_job_id, since)
          select :loud, gen_random_uuid(), now() - interval '1 h' from generate_series(1, 5000);
        with gone as (select id from windlass.enqueue('held', tenant_id => :quiet))
          select windlass.enqueue('held', tenant_id => :quiet, depends_on => array[g.id]) from gone g;
        insert into windlass.unblock_due (tenant_id, needs_job_id) select tenant_id, needs_job_id from windlass.dependency where tenant_id = :quiet;
        delete from windlass.line where tenant_id = :quiet;
        delete from windlass.job where id in (select needs_job_id from windlass.dependency where tenant_id = :quiet)",
    is_done: "select not exists (select from windlass.blocked where tenant_id = :quiet)",
};

const FOLD: Backlog = Backlog {
    setup: "select windlass.enqueue('held', tenant_id => :loud);
        insert into windlass.tally (tenant_id, lane, queued) select tenant_id, lane, 0 from windlass.tally cross join generate_series(1, 5000);
        select windlass.enqueue('held', tenant_id => :quiet)",
    is_done: "select not exists (select from windlass.tally where tenant_id = :quiet)",
};

/// Each has its own rule. Jobs under one rule of a definition are deleted by age, of all tenants.
const PRUNE: Backlog = Backlog {
    setup: "select windlass.enqueue('held', tenant_id => :loud), windlass.enqueue('held', tenant_id => :quiet);
        insert into windlass.history (tenant_id, job_id, finished_at, attempt, lane, outcome, job_status)
          select :loud, gen_random_uuid(), now() - interval '10 days', 1, l.id, 1, 1
            from windlass.lane l cross join generate_series(1, 5000) where l.tenant_id = :loud
          union all
          select :quiet, gen_random_uuid(), now() - interval '9 days', 1, l.id, 1, 1 from windlass.lane l where l.tenant_id = :quiet;
        select windlass.set_retention(:loud, 'held', 'succeeded', 86400, false), windlass.set_retention(:quiet, 'held', 'succeeded', 86400, false)",
    is_done: "select not exists (select from windlass.history where tenant_id = :quiet)",
};

const PURGE_TENANTS: Backlog = Backlog {
    setup: "select windlass.enqueue('held', tenant_id => :loud) from generate_series(1, 5000);
        select windlass.enqueue('held', tenant_id => :quiet);
        select windlass.mark_tenant_deleting(:loud), windlass.mark_tenant_deleting(:quiet)",
    is_done: "select not exists (select from windlass.job where tenant_id = :quiet)",
};

/// The work of a duty for each tenant, or why it has no turns.
enum Turns {
    Of(Backlog),
    None(&'static str),
}

/// A duty without a row panics here: add one.
fn turns(duty: Duty) -> Turns {
    match duty {
        Duty::Promote => Turns::Of(PROMOTE),
        Duty::Expire => Turns::Of(EXPIRE),
        Duty::Schedule => Turns::Of(SCHEDULE),
        Duty::Dispatch => Turns::Of(DISPATCH),
        Duty::Reap => Turns::Of(REAP),
        Duty::Unblock => Turns::Of(UNBLOCK),
        Duty::Fold => Turns::Of(FOLD),
        Duty::Prune => Turns::Of(PRUNE),
        Duty::PurgeTenants => Turns::Of(PURGE_TENANTS),
        Duty::Seal => {
            Turns::None("rows are chained in the order of their transactions, and nothing waits for it")
        }
        Duty::Retire => Turns::None("replaces a partition with the jobs of all tenants"),
        Duty::Partition => Turns::None("creates and drops partitions, which belong to no tenant"),
        Duty::Sample => Turns::None("adds up all tenants in one statement"),
        _ => panic!("{duty:?} has no row"),
    }
}

fn named(text: &str) -> String {
    text.replace(":loud", &format!("'{LOUD}'::uuid")).replace(":quiet", &format!("'{QUIET}'::uuid"))
}

async fn two_tenants(queue: &TestQueue) -> Hand {
    let hand = Hand::new(queue.client().await).await;
    hand.define(json!({"key": "held"})).await;
    let tenants = "insert into windlass.tenants (id, slug, name) values (:loud, 'loud', 'Loud'), (:quiet, 'quiet', 'Quiet')";
    hand.client.batch_execute(&named(tenants)).await.unwrap();
    hand
}

#[tokio::test(flavor = "multi_thread")]
async fn no_backlog_of_a_tenant_blocks_another_in_any_duty() {
    for duty in Duty::ALL {
        let backlog = match turns(duty) {
            Turns::Of(backlog) => backlog,
            Turns::None(reason) => {
                assert!(!reason.is_empty());
                continue;
            }
        };
        let queue = TestQueue::create().await;
        let hand = two_tenants(&queue).await;
        if duty == Duty::Reap {
            for tenant in [LOUD, QUIET] {
                hand.enqueue(&format!("'held', tenant_id => '{tenant}'")).await;
            }
            hand.claim_all().await;
            hand.miss_heartbeats().await;
        }
        hand.client.batch_execute(&named(backlog.setup)).await.unwrap();
        let keeper = keeper(&queue);
        for _ in 0..2 {
            keeper.run_once(duty).await.unwrap();
        }
        let is_done: bool = hand.client.query_one(&named(backlog.is_done), &[]).await.unwrap().get(0);
        assert!(is_done, "{}: the quiet tenant waits for the loud one", duty.as_str());
    }
}

/// As when the id of a deleted job is used again while others depend on it: two jobs of one ordering key that wait for each other.
#[tokio::test(flavor = "multi_thread")]
async fn a_dependency_cycle_ends_and_blocks_no_other_tenant() {
    let queue = TestQueue::create().await;
    let hand = two_tenants(&queue).await;
    let late = "deadline => clock_timestamp() - interval '1 s'";
    for name in ["a", "b"] {
        let arguments =
            format!("tenant_id => '{LOUD}', job_id => '{LOUD_JOB}{name}', ordering_key => 'k', {late}");
        hand.enqueue(&format!("'held', {arguments}")).await;
    }
    let circle = format!(
        "insert into windlass.dependency (tenant_id, needs_job_id, job_id, if_unmet) values (:loud, '{LOUD_JOB}b', '{LOUD_JOB}a', 'wait')"
    );
    hand.client.batch_execute(&named(&circle)).await.unwrap();
    let waiting = hand
        .enqueue(&format!(
            "'held', tenant_id => '{LOUD}', if_unmet => 'run', depends_on => array['{LOUD_JOB}a'::uuid]"
        ))
        .await;
    let quiet = hand.enqueue(&format!("'held', tenant_id => '{QUIET}', {late}")).await;
    // If it loops forever, the limit ends the test instead.
    hand.client.batch_execute("set statement_timeout = '20 s'; select windlass.expire(500)").await.unwrap();
    assert_eq!(status(&hand.client, waiting).await, "queued");
    assert_eq!(status(&hand.client, quiet).await, "failed");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_id_of_a_deleted_dependency_is_rejected() {
    let queue = TestQueue::create().await;
    let hand = two_tenants(&queue).await;
    let need = hand.enqueue("'held'").await;
    for _ in 0..101 {
        hand.enqueue(&format!("'held', depends_on => array['{need}'::uuid], if_unmet => 'wait'")).await;
    }
    hand.client
        .execute("select windlass.purge($1, array[$2::uuid])", &[&DEFAULT_TENANT, &need])
        .await
        .unwrap();
    assert_eq!(
        count(&hand.client, "select count(*) from windlass.dependency").await,
        1,
        "one is left for the keeper"
    );
    let again = format!("select id from windlass.enqueue('held', job_id => '{need}')");
    let error = hand.client.query_one(&again, &[]).await.unwrap_err();
    let refused = error.as_db_error().unwrap();
    assert_eq!((refused.code().code(), refused.column()), ("WL007", Some("job_id")));
    keeper(&queue).run_once(Duty::Unblock).await.unwrap();
    hand.client.query_one(&again, &[]).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_suspended_tenant_gets_no_job_by_the_fast_path() {
    let queue = TestQueue::create().await;
    let hand = two_tenants(&queue).await;
    hand.enqueue(&format!("'held', tenant_id => '{LOUD}'")).await;
    let call = named(
        "select windlass.enqueue_routed(:loud, gen_random_uuid(), l.id, 1::smallint, '{}', null) from windlass.lane l where l.tenant_id = :loud",
    );
    hand.client.query_one(&call, &[]).await.unwrap();
    let lane: i32 = hand
        .client
        .query_one(&named("select id from windlass.lane where tenant_id = :loud"), &[])
        .await
        .unwrap()
        .get(0);
    let suspend = named("select windlass.change_tenant(:loud, '{\"status\": \"suspended\"}')");
    hand.client.query_one(&suspend, &[]).await.unwrap();
    let refused = hand.client.query_one(&call, &[]).await.unwrap_err();
    assert_eq!(
        refused.code().map(|code| code.code()),
        Some("WL003"),
        "our processes may have cached the lane"
    );

    // Later our own processes are trusted again, since they have checked again. An application never is.
    let later = "update windlass.tenants set updated_at = now() - interval '1 h' where status = 'suspended'; select windlass.unwatch_tenants()";
    hand.client.batch_execute(later).await.unwrap();
    assert_eq!(count(&hand.client, "select last_value from windlass.tenants_watched").await, 0);
    let as_application = format!("set role windlass_app; set windlass.tenant_id = '{LOUD}'");
    hand.client.batch_execute(&as_application).await.unwrap();
    let call = named("select windlass.enqueue_routed(:loud, gen_random_uuid(), $1, 1::smallint, '{}', null)");
    let refused = hand.client.query_one(&call, &[&lane]).await.unwrap_err();
    assert_eq!(refused.code().map(|code| code.code()), Some("WL003"), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_number_of_triggers_of_a_tenant_is_limited() {
    let queue = TestQueue::create().await;
    let hand = two_tenants(&queue).await;
    let limit = "update windlass.tenants set max_triggers = 1 where id = $1";
    hand.client.execute(limit, &[&DEFAULT_TENANT]).await.unwrap();
    let new = NewTrigger::event("first", "load.*", "held");
    let first = queue.create_trigger(DEFAULT_TENANT, &new, "tester").await.unwrap();
    let refused = queue.create_trigger(DEFAULT_TENANT, &new, "tester").await.unwrap_err();
    assert!(matches!(&refused, Error::TooManyTriggers { most } if most == "1"), "{refused}");
    queue.delete_trigger(DEFAULT_TENANT, first.id, None, "tester").await.unwrap();
    queue.create_trigger(DEFAULT_TENANT, &new, "tester").await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dry_run_is_bounded_like_a_dispatch_and_one_at_a_time_per_tenant() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    queue.define(&Definition::new("held")).await.unwrap();
    let template = json!({"all": "{{event.b}}".repeat(400)});
    create(&queue, &NewTrigger::event("first", "load.*", "held").payload_template(template)).await;
    let copy = "insert into windlass.job_triggers select (jsonb_populate_record(t, jsonb_build_object('id', gen_random_uuid()))).*
        from windlass.job_triggers t, generate_series(1, 59)";
    client.execute(copy, &[]).await.unwrap();
    let event = NewEvent::new("load.tick").payload(&json!({"b": "x".repeat(2000)}));
    let (one, other) = (
        queue.read(Reach::Tenant(DEFAULT_TENANT)).await.unwrap(),
        queue.read(Reach::Tenant(DEFAULT_TENANT)).await.unwrap(),
    );
    let (would, refused) = tokio::join!(one.dry_run(&event), other.dry_run(&event));
    let refused = refused.unwrap_err();
    assert!(matches!(refused, Error::Busy { .. }));
    assert!(refused.to_string().contains("repeat the dry run"), "the limit is named: {refused}");
    let would = would.unwrap();
    let bytes: usize =
        would.iter().filter_map(|one| one.payload.as_ref()).map(|payload| payload.to_string().len()).sum();
    assert_eq!(would.len(), 60, "each one is named");
    assert!((7 << 20..=8 << 20).contains(&bytes), "{bytes}");
    assert!(would.last().unwrap().reason.as_deref().unwrap().starts_with("not rendered"));
    assert_eq!(other.dry_run(&event).await.unwrap().len(), 60, "the first one is over");
}

/// a payload that the definition refuses is shown too, so it counts.
#[tokio::test(flavor = "multi_thread")]
async fn a_dry_run_counts_the_payloads_that_the_definition_refuses() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    queue.define(&Definition::new("held")).await.unwrap();
    let template = json!({"all": "{{event.b}}"});
    create(&queue, &NewTrigger::event("first", "load.*", "held").payload_template(template)).await;
    let copy = "insert into windlass.job_triggers select (jsonb_populate_record(t, jsonb_build_object('id', gen_random_uuid()))).*
        from windlass.job_triggers t, generate_series(1, 39)";
    client.execute(copy, &[]).await.unwrap();
    let refusing = json!({"properties": {"all": {"maxLength": 10}}});
    queue.define(&Definition::new("held").arg_schema(refusing)).await.unwrap();
    let event = NewEvent::new("load.tick").payload(&json!({"b": "x".repeat(900_000)}));
    let would = queue.read(Reach::Tenant(DEFAULT_TENANT)).await.unwrap().dry_run(&event).await.unwrap();
    assert_eq!(would.len(), 40, "each one is named");
    assert!(would.iter().all(|one| one.reason.is_some()), "all are refused");
    let bytes: usize =
        would.iter().filter_map(|one| one.payload.as_ref()).map(|payload| payload.to_string().len()).sum();
    assert!((7 << 20..=8 << 20).contains(&bytes), "{bytes}");
    assert!(would.last().unwrap().reason.as_deref().unwrap().starts_with("not rendered"));
}

/// The definition keeps jobs for a day; the loud tenant held one that is older, and the quiet tenant has its own rule.
#[tokio::test(flavor = "multi_thread")]
async fn a_released_hold_resets_no_other_tenants_rule() {
    let queue = TestQueue::create().await;
    let hand = two_tenants(&queue).await;
    hand.define(json!({"key": "held", "retention": {"succeeded": 86400}})).await;
    let keep = "select windlass.set_retention(:quiet, 'held', 'succeeded', 86400, false)";
    hand.client.batch_execute(&named(&format!("{ENDED_LONG_AGO}; {keep}"))).await.unwrap();
    let hold = "select windlass.place_hold(:loud, null, null, null, 'a case', 'tester')::text";
    let hold: String = hand.client.query_one(&named(hold), &[]).await.unwrap().get(0);
    let keeper = keeper(&queue);
    let marks = "select coalesce(jsonb_object_agg(duty, reached), '{}')::text from windlass.keeper_mark
        where duty like 'prune %' and duty not like '%' || :loud";
    let left = "select count(*) from windlass.history";
    keeper.run_once(Duty::Prune).await.unwrap();
    assert_eq!(count(&hand.client, left).await, 1, "the held one");
    // No transaction is open, so the marks have reached their final position.
    hand.client
        .batch_execute("update windlass.keeper_mark set reached = now() where duty like 'prune %'")
        .await
        .unwrap();
    let before: String = hand.client.query_one(&named(marks), &[]).await.unwrap().get(0);
    hand.client
        .batch_execute(&named(&format!("select windlass.release_hold(:loud, '{hold}')")))
        .await
        .unwrap();
    keeper.run_once(Duty::Prune).await.unwrap();
    assert_eq!(count(&hand.client, left).await, 0, "it is deleted now");
    let after: String = hand.client.query_one(&named(marks), &[]).await.unwrap().get(0);
    assert_eq!(after, before);
}

const ENDED_LONG_AGO: &str =
    "select windlass.enqueue('held', tenant_id => :loud), windlass.enqueue('held', tenant_id => :quiet);
    delete from windlass.line;
    insert into windlass.history (tenant_id, job_id, finished_at, attempt, lane, outcome, job_status)
      select tenant_id, id, now() - interval '10 days', 1, lane, 1, 1 from windlass.job";

#[tokio::test(flavor = "multi_thread")]
async fn old_keys_are_deleted_in_batches() {
    let queue = TestQueue::create().await;
    let hand = two_tenants(&queue).await;
    let keys = "insert into windlass.idempotency (tenant_id, idempotency_key, job_id, body_hash, created_at)
          select :loud, 'k' || n, gen_random_uuid(), '', now() - interval '8 days' from generate_series(1, 1500) n";
    hand.client.batch_execute(&named(keys)).await.unwrap();
    let round = keeper(&queue).run_once(Duty::Prune).await.unwrap();
    assert!(round.is_full, "there are more");
    assert_eq!(count(&hand.client, "select count(*) from windlass.idempotency").await, 500);
}
