//! The claims of one tenant do not delay those of another.

use std::time::Duration;

use serde_json::json;
use tokio::task::JoinSet;
use uuid::Uuid;
use windlass::job::State;
use windlass::pull::{Heartbeat, Held, Pull, Puller};
use windlass::{Definition, Done, Error, NewJob};
use windlass_testing::{TestQueue, eventually, until_a_session_waits};

use super::{claim, start};
use crate::support::{count, register};

fn of(tenant: Uuid) -> Puller {
    Puller::new("own").tenant(tenant)
}

async fn two_tenants() -> (TestQueue, Pull, Uuid, Uuid) {
    let (queue, pull) = start().await;
    let (loud, quiet) = (queue.tenant("loud").await, queue.tenant("quiet").await);
    (queue, pull, loud, quiet)
}

#[tokio::test(flavor = "multi_thread")]
async fn thousands_of_invalid_jobs_delay_no_claim_of_another_tenant() {
    let (queue, pull, loud, quiet) = two_tenants().await;
    let client = queue.client().await;
    queue.define(&Definition::new("strict")).await.unwrap();
    let bad: Vec<NewJob> =
        (0..3000).map(|_| NewJob::new("strict").tenant(loud).payload(&json!({"n": "bad"}))).collect();
    queue.enqueue_many(&bad).await.unwrap();
    // The schema is stored after the jobs, so that none of them is valid.
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
    queue.define(&Definition::new("strict").arg_schema(schema)).await.unwrap();
    let asking = tokio::spawn({
        let pull = pull.clone();
        async move { pull.claim(&of(loud), claim(&["strict"]).limit(100)).await.unwrap() }
    });
    let refused = "select count(distinct job_id) from windlass.history";
    eventually("the first is rejected", async || count(&client, refused).await > 0).await;

    let id = queue.enqueue(&NewJob::new("pulled").tenant(quiet)).await.unwrap().id;
    let given = pull.claim(&of(quiet), claim(&["pulled"])).await.unwrap();
    assert_eq!(given.iter().map(|job| job.id).collect::<Vec<_>>(), [id]);
    let left = 3000 - count(&client, refused).await;
    assert!(left > 0, "the other tenant's jobs were all rejected first");
    eventually("every one is rejected in the end", async || count(&client, refused).await == 3000).await;
    asking.abort();
    pull.stop().await;
}

/// A-173: as many different lists of made-up names as a tenant can have, and callers that hang up all the time.
#[tokio::test(flavor = "multi_thread")]
async fn invented_names_and_disconnects_of_one_tenant_delay_no_claim_of_another() {
    let (queue, pull, loud, quiet) = two_tenants().await;
    let made_up = |list: usize| {
        let names: Vec<String> = (0..150).map(|name| format!("made up {list} {name}")).collect();
        claim(&names.iter().map(String::as_str).collect::<Vec<_>>())
    };
    let mut waiting = JoinSet::new();
    for list in 0..200 {
        let (pull, claim) = (pull.clone(), made_up(list));
        let mut claiming = Box::pin(async move { pull.claim(&of(loud), claim).await });
        // It has its place as soon as it is polled.
        tokio::select! {
            biased;
            claimed = &mut claiming => panic!("there is nothing to claim: {claimed:?}"),
            () = std::future::ready(()) => {}
        }
        waiting.spawn(claiming);
    }
    let hasty = |list: usize| made_up(list).wait(Duration::ZERO);
    let refused = pull.claim(&of(loud), hasty(200)).await.unwrap_err();
    assert!(matches!(&refused, Error::Refused { field, .. } if field == "definition_keys"), "{refused}");
    assert!(refused.to_string().contains("use the same list in every worker"), "{refused}");
    assert!(pull.claim(&of(loud), hasty(7)).await.unwrap().is_empty(), "a list that is known goes on");

    let hanging_up = tokio::spawn({
        let pull = pull.clone();
        async move {
            for n in 0.. {
                let names: Vec<String> = (0..150).map(|name| format!("made up {} {name}", n % 200)).collect();
                let claim = claim(&names.iter().map(String::as_str).collect::<Vec<_>>());
                let _ = tokio::time::timeout(Duration::from_millis(1), pull.claim(&of(loud), claim)).await;
                tokio::task::yield_now().await;
            }
        }
    });
    for _ in 0..20 {
        let id = queue.enqueue(&NewJob::new("pulled").tenant(quiet)).await.unwrap().id;
        let given = pull.claim(&of(quiet), claim(&["pulled"])).await.unwrap().deliver();
        assert_eq!(given.iter().map(|job| job.id).collect::<Vec<_>>(), [id]);
    }
    assert!(!hanging_up.is_finished(), "it went on all the time");
    hanging_up.abort();
    waiting.abort_all();
    eventually("the places are free again", async || pull.claim(&of(loud), hasty(200)).await.is_ok()).await;
    pull.stop().await;
}

/// A-185: a thousand new names a minute.
#[tokio::test(flavor = "multi_thread")]
async fn the_closed_workers_of_a_tenant_are_limited_and_the_oldest_are_deleted() {
    let (queue, pull, loud, quiet) = two_tenants().await;
    let client = queue.client().await;
    for tenant in [loud, quiet] {
        let fill = format!(
            "insert into windlass.job_workers (worker_id, hostname, lease_seconds, lease_expires_at, stopped_at)
             select 'w' || n || '@{tenant}', '', 60, now(), now() - n * interval '1 s' from generate_series(1, 5050) n"
        );
        client.execute(&fill, &[]).await.unwrap();
    }
    let closed = |tenant: Uuid| {
        format!(
            "select count(*) from windlass.job_workers where worker_id like '%@{tenant}' and stopped_at is not null"
        )
    };
    let hasty = claim(&["pulled"]).wait(Duration::ZERO);
    let again = hasty.clone().worker_id(Some("w7".to_owned()));
    assert!(pull.claim(&of(loud), again).await.unwrap().is_empty());
    assert_eq!(count(&client, &closed(loud)).await, 5049, "a name that is used again adds no row");
    assert!(pull.claim(&of(loud), hasty.worker_id(Some("new".to_owned()))).await.unwrap().is_empty());
    assert_eq!((count(&client, &closed(loud)).await, count(&client, &closed(quiet)).await), (5000, 5050));
    let oldest = format!("select count(*) from windlass.job_workers where worker_id = 'w5050@{loud}'");
    assert_eq!(count(&client, &oldest).await, 0);
    pull.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_workers_of_a_tenant_are_limited() {
    let (queue, pull, loud, quiet) = two_tenants().await;
    let client = queue.client().await;
    let fill = format!(
        "insert into windlass.job_workers (worker_id, hostname, lease_seconds, lease_expires_at)
         select 'w' || n || '@{loud}', '', 60, now() + interval '1 h' from generate_series(1, 1000) n"
    );
    client.execute(&fill, &[]).await.unwrap();
    let hasty = claim(&["pulled"]).wait(Duration::ZERO);
    let refused = pull.claim(&of(loud), hasty.clone()).await.unwrap_err();
    assert!(matches!(&refused, Error::Refused { field, .. } if field == "worker_id"), "{refused}");
    let known = hasty.clone().worker_id(Some("w7".to_owned()));
    assert!(pull.claim(&of(loud), known).await.unwrap().is_empty(), "existing ones continue");
    assert!(pull.claim(&of(quiet), hasty).await.unwrap().is_empty(), "another tenant has its own");
    pull.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_heartbeat_with_too_much_text_is_rejected_by_field() {
    let (_queue, pull, loud, _) = two_tenants().await;
    for (field, beat) in [
        ("log", Heartbeat::default().log(vec!["x".repeat(1024); 1025])),
        ("progress/message", Heartbeat::default().message(Some("x".repeat(64 * 1024 + 1)))),
    ] {
        let refused = pull.heartbeat(&of(loud), Uuid::nil(), "x", &beat).await.unwrap_err();
        assert!(matches!(&refused, Error::Refused { field: named, .. } if named == field), "{refused}");
    }
    pull.stop().await;
}

/// The row of a worker of one tenant is locked by a transaction that stays open. Whoever waited would be told by the
/// timeout.
#[tokio::test]
async fn a_locked_worker_delays_no_worker_of_another_tenant() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    queue.define(&Definition::new("pulled")).await.unwrap();
    let dispatcher = register(&client).await;
    let mut workers = Vec::new();
    let tenants = [queue.tenant("loud").await, queue.tenant("quiet").await];
    for tenant in tenants {
        for _ in 0..2 {
            queue.enqueue(&NewJob::new("pulled").tenant(tenant)).await.unwrap();
        }
        let register = "select id from windlass.pull_register($1, 'h', '', '{}', '{}', 60, '{}')";
        let row = client.query_one(register, &[&format!("own@{tenant}")]).await.unwrap();
        workers.push(row.get::<_, i32>(0));
    }
    // One job of each tenant, in the order of the slots.
    let claim = "select c.slot, c.tenant_id from (select array_agg(n.id order by array_position($2::uuid[], n.tenant_id)) as lanes
          from windlass.lane n) l, windlass.pull_claim($1, gen_random_uuid(), l.lanes, array[0, 0]::bigint[], array[1, 1], $3,
          array[60, 60], array[gen_random_uuid(), gen_random_uuid()], 60) c";
    let given = client.query(claim, &[&dispatcher, &&tenants[..], &workers]).await.unwrap();
    assert_eq!(given.len(), 2);
    client.batch_execute("update windlass.pull_lease set expires_at = now() - interval '1 s'").await.unwrap();

    let operator = queue.client().await;
    let lock =
        format!("begin; select from windlass.job_workers where worker_id = 'own@{}' for update", tenants[0]);
    operator.batch_execute(&lock).await.unwrap();
    client.batch_execute("set lock_timeout = '5s'").await.unwrap();
    let reap = "select coalesce(r.settled, '{}'), l.tenants from (select array_agg(l.tenant_id) as tenants, array_agg(l.job_id) as jobs,
            array_agg(l.attempt) as attempts, array_agg(l.token) as tokens, array_agg($1::jsonb) as details
          from windlass.pull_lost_jobs(10) l) l, windlass.pull_reap(l.tenants, l.jobs, l.attempts, l.tokens, l.details) r";
    let lost = json!({"outcome": 5, "next": 7, "delay_ms": 0, "failures": 1, "lost": 1, "snoozes": 0});
    let row = client.query_one(reap, &[&lost]).await.unwrap();
    let (settled, of) = (row.get::<_, Vec<i32>>(0), row.get::<_, Vec<Uuid>>(1));
    let settled: Vec<Uuid> = settled.iter().map(|&ord| of[usize::try_from(ord).unwrap() - 1]).collect();
    assert_eq!((of.len(), settled), (2, vec![tenants[1]]));

    let touched = client.query("select worker from windlass.pull_touch($1, 60)", &[&workers]).await.unwrap();
    assert_eq!(touched.len(), 2, "both exist");
    let given = client.query(claim, &[&dispatcher, &&tenants[..], &workers]).await.unwrap();
    let given: Vec<i32> = given.iter().map(|row| row.get(0)).collect();
    assert_eq!(given, [2], "the slot of the locked worker stays empty");
    let holders = format!("select count(*) from windlass.running where worker = {}", workers[1]);
    assert_eq!(count(&client, &holders).await, 1);

    operator.batch_execute("commit").await.unwrap();
    let row = client.query_one(reap, &[&lost]).await.unwrap();
    assert_eq!(row.get::<_, Vec<i32>>(0), [1], "the other one is reaped in the next round");
}

/// A-341: each call would wait for the key with a connection of the tenant, and the heartbeats behind them.
#[tokio::test(flavor = "multi_thread")]
async fn completions_whose_next_jobs_wait_for_a_key_leave_a_connection_to_heartbeats() {
    let (queue, pull, _, tenant) = two_tenants().await;
    queue.enqueue_many(&vec![NewJob::new("pulled").tenant(tenant); 41]).await.unwrap();
    let jobs = pull.claim(&of(tenant), claim(&["pulled"]).limit(41)).await.unwrap().deliver();
    let (ending, [running]) = jobs.split_at(40) else { panic!("{} jobs", jobs.len()) };
    let open = queue.client().await;
    let key = format!("begin; select windlass.enqueue('pulled', tenant_id => '{tenant}', dedupe_key => 'k')");
    open.batch_execute(&key).await.unwrap();
    let complete = |job: &windlass::pull::PulledJob| {
        let (pull, id, fence) = (pull.clone(), job.id, job.fence.clone());
        let done = Done::new().then(NewJob::new("pulled").tenant(tenant).dedupe_key("k"));
        async move { pull.complete(&of(tenant), id, &fence, done).await }
    };
    let mut completions: JoinSet<_> = ending.iter().map(complete).collect();
    until_a_session_waits(&queue.client().await).await;
    let mut beats = 0;
    while let Some(ended) = completions.join_next().await {
        let error = ended.unwrap().unwrap_err();
        assert!(matches!(&error, Error::Locked { what } if what.contains("next jobs")), "{error}");
        let beat = pull.heartbeat(&of(tenant), running.id, &running.fence, &Heartbeat::default()).await;
        assert!(matches!(beat.unwrap(), Held::Held(_)));
        beats += 1;
    }
    assert_eq!(beats, 40);
    open.batch_execute("rollback").await.unwrap();
    assert_eq!(complete(&ending[0]).await.unwrap(), Held::Held(State::Succeeded));
    pull.stop().await;
}
