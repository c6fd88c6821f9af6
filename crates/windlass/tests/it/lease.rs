//! The lease of a live worker: renewed, lost, and acquired again.

use std::time::Duration;

use windlass::NewJob;
use windlass::keeper::Duty;
use windlass_testing::{TestQueue, eventually, waiting_for_locks};

use crate::documents::Heard;
use crate::support::{Hand, Held, attempts, count, everything, job, keeper, start, status, until, worker};

#[tokio::test(flavor = "multi_thread")]
async fn a_heartbeat_renews_the_lease_and_lists_the_running_jobs() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    let (held, mut desk) = Held::new();
    let beats =
        worker(&queue).handler(held).lease(Duration::from_secs(30)).heartbeat(Duration::from_millis(100));
    let worker = beats.queues(["default"]).metadata(serde_json::json!({"zone": "a"})).start().await.unwrap();
    let id = queue.enqueue(&NewJob::new("held")).await.unwrap().id;
    let run = desk.next().await;
    let first = job(&client, id).await["lease_expires_at"].clone();
    eventually("the lease is renewed", async || {
        job(&client, id).await["lease_expires_at"].as_str() > first.as_str()
    })
    .await;
    let row = "select count(*) from windlass.job_workers where running_count = 1 and hostname <> '' and version <> ''
        and queues = '{default}' and definition_keys = '{held}' and last_seen_at > started_at and metadata ->> 'zone' = 'a'";
    eventually("its row shows it", async || count(&client, row).await == 1).await;
    let split: Vec<&str> = worker.id().split(':').collect();
    assert_eq!(split.len(), 3, "hostname:pid:boot-uuid");
    run.succeed();
    until(&client, id, "succeeded").await;
    worker.stop().await.unwrap();
    let closed = "select count(*) from windlass.job_workers where lease_expires_at <= clock_timestamp() and running_count = 0";
    assert_eq!(count(&client, closed).await, 1);
}

/// Invariant 19: a worker that gets no renewal stops its runs before another one may start them.
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_cut_off_from_its_lease_stops_its_runs_in_time() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    let (held, mut desk) = Held::new();
    let short = worker(&queue).handler(held).lease(Duration::from_secs(6)).without_keeper();
    let worker = short.start().await.unwrap();
    let id = queue.enqueue(&NewJob::new("held")).await.unwrap().id;
    let run = desk.next().await;
    let mut other = queue.client().await;
    let cut = other.transaction().await.unwrap();
    let row =
        cut.query_one("select lease_expires_at from windlass.job_workers for update", &[]).await.unwrap();
    let expires: jiff::Timestamp = row.get(0);
    tokio::time::timeout(Duration::from_secs(30), run.stop.cancelled())
        .await
        .expect("it runs without a lease");
    let now: jiff::Timestamp = client.query_one("select clock_timestamp()", &[]).await.unwrap().get(0);
    assert!(now < expires, "it stopped at {now}, its lease expired at {expires}");
    cut.rollback().await.unwrap();
    // The connection works again: it continues under its old name, and the released job runs again without a counted failure.
    let again = desk.next().await;
    assert_eq!((again.job, again.attempt), (id, 2));
    again.succeed();
    until(&client, id, "succeeded").await;
    assert_eq!(attempts(&client, id).await, ["released", "succeeded"]);
    assert_eq!(count(&client, "select count(*) from windlass.job_workers").await, 1);
    worker.stop().await.unwrap();
}

/// Invariants 5 and 18: the writes of a worker after its lease expired have no effect, and it continues under a new name.
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_with_an_expired_lease_stops_its_runs_and_registers_again() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    let (held, mut desk) = Held::new();
    let alive = worker(&queue).handler(held).without_keeper().heartbeat(Duration::from_millis(200));
    let worker = alive.start().await.unwrap();
    let id = queue.enqueue(&NewJob::new("held")).await.unwrap().id;
    let run = desk.next().await;
    let keeper = keeper(&queue);
    let silent = "update windlass.job_workers set lease_expires_at = clock_timestamp() - interval '1 s'
        where id = (select min(id) from windlass.job_workers)";
    let closed = "select count(*) from windlass.job_workers where stopped_at is not null";
    eventually("its lease has expired", async || {
        client.execute(silent, &[]).await.unwrap();
        keeper.run_once(Duty::Reap).await.unwrap();
        count(&client, closed).await == 1
    })
    .await;
    tokio::time::timeout(Duration::from_secs(30), run.stop.cancelled()).await.expect("it was not stopped");
    run.succeed();
    assert_eq!(status(&client, id).await, "scheduled", "the late success does not count");
    eventually("it is queued again", async || {
        keeper.run_once(Duty::Promote).await.unwrap();
        !desk.is_empty()
    })
    .await;
    let again = desk.next().await;
    assert_eq!((again.job, again.attempt), (id, 2));
    again.succeed();
    until(&client, id, "succeeded").await;
    assert_eq!(attempts(&client, id).await, ["lost", "succeeded"]);
    assert_eq!(count(&client, "select count(distinct worker) from windlass.history").await, 2);
    worker.stop().await.unwrap();
}

/// An operator may drain a worker: it claims no more.
#[tokio::test(flavor = "multi_thread")]
async fn a_drained_worker_claims_no_jobs() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    let (held, mut desk) = Held::new();
    let beats = worker(&queue).handler(held).heartbeat(Duration::from_millis(50));
    let worker = beats.start().await.unwrap();
    let first = queue.enqueue(&NewJob::new("held")).await.unwrap().id;
    let run = desk.next().await;
    client
        .execute("insert into windlass.drain_request select id, worker_id from windlass.job_workers", &[])
        .await
        .unwrap();
    let seen = "select count(*) from windlass.job_workers where last_seen_at > $1";
    // It has processed the response to one heartbeat when it sends the next.
    for _ in 0..2 {
        let now: jiff::Timestamp = client.query_one("select clock_timestamp()", &[]).await.unwrap().get(0);
        eventually("it sends a heartbeat", async || {
            client.query_one(seen, &[&now]).await.unwrap().get::<_, i64>(0) == 1
        })
        .await;
    }
    let second = queue.enqueue(&NewJob::new("held")).await.unwrap().id;
    run.succeed();
    until(&client, first, "succeeded").await;
    assert_eq!(status(&client, second).await, "queued");
    client.execute("delete from windlass.drain_request", &[]).await.unwrap();
    let run = desk.next().await;
    assert_eq!(run.job, second);
    run.succeed();
    worker.stop().await.unwrap();
}

/// Its keeper continues: it may be the only one.
#[tokio::test(flavor = "multi_thread")]
async fn the_keeper_of_a_drained_worker_continues_until_it_stops() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    let (held, _desk) = Held::new();
    let worker = worker(&queue).handler(held).start().await.unwrap();
    worker.drain();
    // Twice: a duty may have been running when it was drained.
    for _ in 0..2 {
        let id = queue.enqueue(&NewJob::new("held").delay(Duration::from_millis(200))).await.unwrap().id;
        assert_eq!(status(&client, id).await, "scheduled");
        until(&client, id, "queued").await;
    }
    worker.stop().await.unwrap();
}

/// Invariants 7 and 8: a heartbeat between the reaper's read and its write keeps the job.
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_sends_a_heartbeat_while_reaped_keeps_its_jobs() {
    let queue = TestQueue::create().await;
    let hand = Hand::new(queue.client().await).await;
    hand.define(serde_json::json!({"key": "held"})).await;
    hand.enqueue("'held'").await;
    let fence = hand.claim_one().await;
    hand.miss_heartbeats().await;
    let seen = hand.client.query("select job_id from windlass.lost_jobs(10)", &[]).await.unwrap();
    assert_eq!(seen.len(), 1, "the reaper has seen it");
    assert!(hand.heartbeat().await);
    let before = everything(&hand.client).await;
    let reap = "select settled from windlass.reap(array[$1::integer], array[$2::uuid], array[$3::uuid], array[$4::integer],
        array[$5::uuid], array[$6::jsonb])";
    let lost =
        serde_json::json!({"outcome": 5, "next": 7, "delay_ms": 0, "failures": 1, "lost": 1, "snoozes": 0});
    let params: [&(dyn tokio_postgres::types::ToSql + Sync); 6] =
        [&hand.worker, &fence.tenant, &fence.job, &fence.attempt, &fence.token, &lost];
    let settled = hand.client.query_one(reap, &params).await.unwrap();
    assert_eq!(settled.get::<_, Option<Vec<i32>>>(0), None);
    assert_eq!(everything(&hand.client).await, before);
    assert!(hand.settle(&fence, None).await);
}

/// The second one waits for the first, and changes nothing.
#[tokio::test(flavor = "multi_thread")]
async fn two_operators_who_drain_a_worker_at_once_record_it_once() {
    let queue = TestQueue::create().await;
    let (first, second, watch) = (queue.client().await, queue.client().await, queue.client().await);
    let register = "select windlass.register_worker('w', 'h', '', '{}', '{}', 60, '{}')";
    watch.query_one(register, &[]).await.unwrap();
    for is_draining in [true, false] {
        let set = format!("select windlass.set_draining('w', {is_draining})");
        first.batch_execute(&format!("begin; {set}")).await.unwrap();
        let committing = async {
            eventually("it waits", async || waiting_for_locks(&watch).await == 1).await;
            first.batch_execute("commit").await.unwrap();
        };
        let (found, ()) = tokio::join!(second.query_one(&set, &[]), committing);
        assert!(found.unwrap().get::<_, bool>(0), "the worker exists");
    }
    let recorded = "select count(*) from windlass.audit where action in ('worker.drain', 'worker.resume')";
    assert_eq!(count(&watch, recorded).await, 2, "one row for each change");
    assert_eq!(count(&watch, "select count(*) from windlass.drain_request").await, 0);
}

/// Its lease would expire while the transaction is open.
#[tokio::test]
async fn a_heartbeat_does_not_wait_for_an_operator_who_drains_the_worker() {
    let queue = TestQueue::create().await;
    let (client, operator) = (queue.client().await, queue.client().await);
    client.batch_execute("set lock_timeout = '5s'").await.unwrap();
    let register = "select windlass.register_worker('w', 'h', '', '{}', '{}', 60, '{}')";
    let worker: i32 = client.query_one(register, &[]).await.unwrap().get(0);
    let beat = async || -> bool {
        client
            .query_one("select is_draining from windlass.heartbeat($1, 0)", &[&worker])
            .await
            .unwrap()
            .get(0)
    };
    for is_draining in [true, false] {
        operator
            .batch_execute(&format!("begin; select windlass.set_draining('w', {is_draining})"))
            .await
            .unwrap();
        assert_eq!(beat().await, !is_draining, "not committed yet");
        operator.batch_execute("commit").await.unwrap();
        assert_eq!(beat().await, is_draining);
    }
}

/// each lost lease was a warning, so one tenant filled the log of all. On one thread, so that only the subscriber of this test
/// receives it.
#[tokio::test(flavor = "current_thread")]
async fn lost_leases_are_one_warning_for_each_round() {
    let heard = Heard::default();
    let writer = heard.clone();
    let subscriber = tracing_subscriber::fmt()
        .json()
        .flatten_event(true)
        .with_max_level(tracing_subscriber::filter::LevelFilter::DEBUG)
        .with_writer(move || writer.clone())
        .finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    let (queue, hand) = start().await;
    let (loud, quiet) = (queue.tenant("loud").await, queue.tenant("quiet").await);
    for tenant in [loud, loud, loud, quiet] {
        hand.enqueue(&format!("'held', tenant_id => '{tenant}'")).await;
    }
    while !hand.claim_all().await.is_empty() {}
    hand.miss_heartbeats().await;
    keeper(&queue).run_once(Duty::Reap).await.unwrap();
    let lines = heard.lines();
    let of = |level: &str, words: &str| {
        let is_meant = |line: &&serde_json::Value| {
            line["level"] == level && line["message"].as_str().is_some_and(|text| text.contains(words))
        };
        lines.iter().filter(is_meant).cloned().collect::<Vec<_>>()
    };
    let warned = of("WARN", "lost worker");
    assert_eq!(warned.len(), 1, "{warned:#?}");
    assert_eq!((&warned[0]["jobs"], &warned[0]["tenants"]), (&4.into(), &2.into()));
    assert_eq!((&warned[0]["tenant_id"], &warned[0]["of_tenant"]), (&loud.to_string().into(), &3.into()));
    assert_eq!(of("DEBUG", "recovered a job").len(), 4, "with the details");
}
