//! The keeper's duties.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::json;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;
use windlass::admin::Reach;
use windlass::job::{State, Unique};
use windlass::keeper::{Duty, Keeper, KeeperSettings};
use windlass::{DEFAULT_TENANT, Definition, NewJob, Queue};
use windlass_testing::{TestQueue, eventually, settings, until_waits_or_ends};

use crate::support::{
    Acting, Hand, assert_counts_are_exact, attempts, count, ending, job, keeper, status, worker,
};

/// Invariant 32.
#[tokio::test(flavor = "multi_thread")]
async fn a_scheduled_job_is_queued_when_due_and_not_before() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    queue.define(&Definition::new("held")).await.unwrap();
    let keeper = keeper(&queue);
    let soon = queue.enqueue(&NewJob::new("held").delay(Duration::from_millis(400))).await.unwrap();
    let later = NewJob::new("held").scheduled_for(Timestamp::now() + Duration::from_secs(3600));
    let later = queue.enqueue(&later).await.unwrap();
    assert_eq!((soon.state, later.state), (Some(State::Scheduled), Some(State::Scheduled)));
    let round = keeper.run_once(Duty::Promote).await.unwrap();
    assert_eq!(round.moved, 0);
    assert!(
        round.next.is_some_and(|next| next <= Duration::from_millis(400)),
        "it returns when to check again"
    );
    eventually("it is due", async || keeper.run_once(Duty::Promote).await.unwrap().moved == 1).await;
    let early =
        "select count(*) from windlass.jobs where status = 'queued' and scheduled_for > clock_timestamp()";
    assert_eq!(count(&client, early).await, 0);
    assert_eq!(status(&client, soon.id).await, "queued");
    assert_eq!(status(&client, later.id).await, "scheduled");
    let past = NewJob::new("held").scheduled_for(Timestamp::now() - Duration::from_secs(60));
    assert_eq!(queue.enqueue(&past).await.unwrap().state, Some(State::Queued));
    assert_counts_are_exact(&client).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_waits_past_its_deadline_fails_and_one_that_runs_does_not() {
    let queue = TestQueue::create().await;
    let hand = Hand::new(queue.client().await).await;
    hand.define(json!({"key": "held"})).await;
    hand.define(json!({"key": "hasty", "start_deadline_seconds": 1})).await;
    let past = "deadline => clock_timestamp() - interval '1 s'";
    hand.enqueue("'held', deadline => clock_timestamp() + interval '1 h'").await;
    let running = hand.claim_one().await;
    let passes = "update windlass.expiry set expires_at = clock_timestamp() - interval '1 s'";
    hand.client.execute(passes, &[]).await.unwrap();
    let queued = hand.enqueue(&format!("'held', {past}")).await;
    let scheduled = hand.enqueue(&format!("'held', delay => '1 h', {past}")).await;
    let blocked =
        hand.enqueue(&format!("'held', depends_on => array['{}'::uuid], {past}", running.job)).await;
    let after = hand.enqueue(&format!("'held', depends_on => array['{blocked}'::uuid]")).await;
    let free =
        hand.enqueue("'held', deadline => clock_timestamp() + interval '1 h', delay => '10 min'").await;
    let hasty = hand.enqueue("'hasty'").await;
    let keeper = keeper(&queue);
    assert_eq!(keeper.run_once(Duty::Expire).await.unwrap().moved, 3, "the running one keeps its instant");
    for id in [queued, scheduled, blocked] {
        let row = job(&hand.client, id).await;
        assert_eq!((&row["status"], &row["reason"]), (&json!("failed"), &json!("expired")));
        assert!(attempts(&hand.client, id).await.is_empty());
    }
    assert_eq!(status(&hand.client, running.job).await, "running");
    assert_eq!(status(&hand.client, free).await, "scheduled");
    assert_eq!(status(&hand.client, after).await, "canceled", "the dependent of an expired job is notified");
    eventually("the start deadline passes", async || {
        keeper.run_once(Duty::Expire).await.unwrap();
        status(&hand.client, hasty).await == "failed"
    })
    .await;
    assert_counts_are_exact(&hand.client).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_deadline_does_not_end_a_started_job() {
    let queue = TestQueue::create().await;
    let hand = Hand::new(queue.client().await).await;
    hand.define(json!({"key": "hasty", "start_deadline_seconds": 1})).await;
    let running = hand.enqueue("'hasty'").await;
    let fence = hand.claim_one().await;
    let witness = hand.enqueue("'hasty'").await;
    assert!(hand.settle(&fence, Some(ending::release())).await);
    let keeper = keeper(&queue);
    eventually("the deadline passes", async || {
        keeper.run_once(Duty::Expire).await.unwrap();
        status(&hand.client, witness).await == "failed"
    })
    .await;
    assert_eq!(status(&hand.client, running).await, "queued", "it had started in time");
}

async fn finish(hand: &Hand, arguments: &str, detail: Option<serde_json::Value>, days_ago: i32) -> Uuid {
    let id = hand.enqueue(arguments).await;
    let fence = hand.claim_one().await;
    assert!(hand.settle(&fence, detail).await);
    let age =
        "update windlass.history set finished_at = finished_at - make_interval(days => $2) where job_id = $1";
    hand.client.execute(age, &[&id, &days_ago]).await.unwrap();
    id
}

#[tokio::test(flavor = "multi_thread")]
async fn finished_jobs_are_deleted_by_definition_and_status() {
    let queue = TestQueue::create().await;
    let hand = Hand::new(queue.client().await).await;
    let day = Duration::from_secs(86_400);
    let kept = Definition::new("kept").uniqueness(Unique::Forever);
    queue
        .define(&kept.retention(State::Succeeded, day * 7).retention(State::Failed, day * 30))
        .await
        .unwrap();
    queue.define(&Definition::new("held")).await.unwrap();
    let old = finish(&hand, "'kept', dedupe_key => 'post 1', idempotency_key => 'i'", None, 8).await;
    let young = finish(&hand, "'kept'", None, 6).await;
    let failed = finish(&hand, "'kept'", Some(ending::failed()), 8).await;
    let old_failed = finish(&hand, "'kept'", Some(ending::failed()), 31).await;
    let unruled = finish(&hand, "'kept'", Some(ending::dead_letter()), 400).await;
    let other = finish(&hand, "'held'", None, 400).await;
    let waiting = hand.enqueue("'kept', delay => '1 h'").await;
    let keeper = keeper(&queue);
    assert_eq!(keeper.run_once(Duty::Prune).await.unwrap().moved, 2);
    for gone in [old, old_failed] {
        assert_eq!(status(&hand.client, gone).await, "missing");
    }
    let left = [
        (young, "succeeded"),
        (failed, "failed"),
        (unruled, "dead_letter"),
        (other, "succeeded"),
        (waiting, "scheduled"),
    ];
    for (id, wanted) in left {
        assert_eq!(status(&hand.client, id).await, wanted);
    }
    let again = queue.enqueue(&NewJob::new("kept").dedupe_key("post 1")).await.unwrap();
    assert_eq!((again.id, again.is_duplicate), (old, true), "a key forever outlives its job's retention");
    assert_eq!(count(&hand.client, "select count(*) from windlass.keeper_mark").await, 2);
    assert_eq!(keeper.run_once(Duty::Prune).await.unwrap().moved, 0);

    // The mark does not hide jobs that become due later: two days pass.
    let two_days = "update windlass.history set finished_at = finished_at - interval '2 days';
        update windlass.keeper_mark set reached = reached - interval '2 days'";
    hand.client.batch_execute(two_days).await.unwrap();
    assert_eq!(keeper.run_once(Duty::Prune).await.unwrap().moved, 1);
    assert_counts_are_exact(&hand.client).await;
}

/// A full round stops at its position, and the next continues there.
#[tokio::test(flavor = "multi_thread")]
async fn pruning_continues_where_a_full_round_ended() {
    let queue = TestQueue::create().await;
    let hand = Hand::new(queue.client().await).await;
    let ruled = Definition::new("held").retention(State::Canceled, Duration::from_secs(60));
    queue.define(&ruled).await.unwrap();
    for _ in 0..7 {
        let id = hand.enqueue("'held'").await;
        hand.cancel(id).await;
    }
    hand.client
        .execute("update windlass.history set finished_at = finished_at - interval '1 hour'", &[])
        .await
        .unwrap();
    let mut rounds = Vec::new();
    for _ in 0..4 {
        rounds.push(
            hand.client.query_one("select moved from windlass.prune(3)", &[]).await.unwrap().get::<_, i32>(0),
        );
    }
    assert_eq!(rounds, [3, 3, 1, 0]);
    assert_counts_are_exact(&hand.client).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn partitions_are_created_ahead_and_dropped_when_past_and_empty() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    queue.define(&Definition::new("held")).await.unwrap();
    let parts = "select count(*) from windlass.partitions()";
    let fresh = count(&client, parts).await;
    assert_eq!(fresh, 4 * 3, "of four tables, today and the next two days");
    for day in ["2024-03-05", "2024-03-06"] {
        let make = format!(
            "set role windlass_owner; select windlass.make_partition(p, '{day}') from unnest(windlass.partitioned()) p; reset role"
        );
        client.batch_execute(&make).await.unwrap();
    }
    let low: Uuid =
        client.query_one("select windlass.uuid7_floor('2024-03-05 00:00Z')", &[]).await.unwrap().get(0);
    queue.enqueue(&NewJob::new("held").id(low)).await.unwrap();
    let keeper = keeper(&queue);
    assert_eq!(keeper.run_once(Duty::Partition).await.unwrap().moved, 1, "the day that is empty");
    assert_eq!(status(&client, low).await, "queued");
    queue.purge(DEFAULT_TENANT, &[low]).await.unwrap();
    assert_eq!(keeper.run_once(Duty::Partition).await.unwrap().moved, 1);
    assert_eq!(count(&client, parts).await, fresh);
}

/// Invariant 9: a job that commits while its empty old partition is about to be dropped keeps the partition.
#[tokio::test(flavor = "multi_thread")]
async fn a_partition_is_not_dropped_under_a_job_that_is_committing() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    queue.define(&Definition::new("held")).await.unwrap();
    let low: Uuid =
        client.query_one("select windlass.uuid7_floor('2024-03-04 00:00Z')", &[]).await.unwrap().get(0);
    let make = "set role windlass_owner; select windlass.make_partition(p, '2024-03-04') from unnest(windlass.partitioned()) p; reset role";
    client.batch_execute(make).await.unwrap();
    let mut other = queue.client().await;
    let transaction = other.transaction().await.unwrap();
    windlass::enqueue_in(&transaction, &NewJob::new("held").id(low)).await.unwrap();
    let keeper = keeper(&queue);
    let dropping = tokio::spawn(async move { keeper.run_once(Duty::Partition).await });
    until_waits_or_ends(&client, &dropping).await;
    transaction.commit().await.unwrap();
    dropping.await.unwrap().unwrap();
    assert_eq!(status(&client, low).await, "queued", "an acknowledged job was lost");
}

/// Invariants 2, 44 and 48, at rest: every job is in one place and every row under its job's tenant; the counters are what the rows say, whatever happened, before and after folding.
#[tokio::test(flavor = "multi_thread")]
async fn counters_equal_the_rows_after_a_mixed_load() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    queue.define(&Definition::new("acting")).await.unwrap();
    let tenants = [DEFAULT_TENANT, queue.tenant("a").await, queue.tenant("b").await];
    let acts = ["succeed", "fail", "fail_once", "permanent", "snooze_once", "panic"];
    let mut seed = 7_u32;
    let mut random = |below: usize| {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (seed >> 16) as usize % below
    };
    let mut jobs = Vec::new();
    for n in 0..300 {
        let new = NewJob::new("acting")
            .tenant(tenants[random(3)])
            .payload(&json!({"act": acts[random(6)]}))
            .max_attempts(2);
        jobs.push(match random(6) {
            0 => new.delay(Duration::from_millis(50)),
            1 => new.delay(Duration::from_secs(3600)),
            2 => new.dedupe_key(format!("{}", random(20))),
            3 => new.ordering_key(format!("{}", random(3))),
            4 => new.queue("unserved").priority(i32::from(n % 5 == 0)),
            _ => new,
        });
    }
    let served = worker(&queue).handler(Acting).queues(["default"]).concurrency(8).start().await.unwrap();
    let mut ids = Vec::new();
    for chunk in jobs.chunks(50) {
        ids.extend(queue.enqueue_many(chunk).await.unwrap().into_iter().map(|result| result.id));
    }
    for id in ids.iter().step_by(9) {
        for tenant in tenants {
            let _ = queue.cancel(tenant, *id).await;
            let _ = queue.retry(tenant, *id, "tester").await;
        }
    }
    let busy =
        "select count(*) from (select lane from windlass.line union all select lane from windlass.live) l
                  join windlass.lane n on n.id = l.lane where n.queue = 'default'";
    eventually("it is drained", async || count(&client, busy).await == 0).await;
    for id in ids.iter().step_by(11) {
        for tenant in tenants {
            queue.purge(tenant, &[*id]).await.unwrap();
            let _ = queue.retry(tenant, ids[5], "tester").await;
        }
    }
    served.stop().await.unwrap();
    assert_counts_are_exact(&client).await;
    while keeper(&queue).run_once(Duty::Fold).await.unwrap().moved > 0 {}
    assert_eq!(count(&client, "select count(*) from windlass.tally").await, 0);
    assert_counts_are_exact(&client).await;
    let shapes = "select count(*) from windlass.job b where 1 <>
        (select count(*) from windlass.line x where b.id = any (x.ids)) + (select count(*) from windlass.running x where x.job_id = b.id)
        + (select count(*) from windlass.deferred x where x.job_id = b.id)
        + (select count(*) from windlass.blocked x where x.job_id = b.id)
        + (select count(*) from windlass.history x where x.job_id = b.id and x.job_status is not null)";
    assert_eq!(count(&client, shapes).await, 0, "a job is in exactly one place");
    // A dependency may outlive its job: the dependencies of a link of an ordering key are kept for its successors.
    for child in ["queued", "running", "deferred", "blocked", "history", "expiry", "progress"] {
        let strays = format!(
            "select count(*) from windlass.{child} c where not exists
                (select from windlass.job b where b.tenant_id = c.tenant_id and b.id = c.job_id)"
        );
        assert_eq!(count(&client, &strays).await, 0, "a row of {child} without its job");
    }
}

/// The application holds the only connection of its pool, and due jobs are queued anyway.
#[tokio::test(flavor = "multi_thread")]
async fn a_keeper_works_while_its_application_uses_all_connections() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    queue.define(&Definition::new("held")).await.unwrap();
    let soon = queue.enqueue(&NewJob::new("held").delay(Duration::from_millis(1))).await.unwrap();
    let narrow = Queue::connect(settings(queue.url()).connections(1)).await.unwrap();
    let taken = narrow.read(Reach::Tenant(DEFAULT_TENANT)).await.unwrap();
    let stop = CancellationToken::new();
    let keeping = tokio::spawn(Keeper::new(narrow, KeeperSettings::default()).run(stop.clone()));
    eventually("it is queued", async || status(&client, soon.id).await == "queued").await;
    stop.cancel();
    keeping.await.unwrap();
    taken.end().await.unwrap();
}

/// While every duty waits for the database, each of them uses its own connection.
#[tokio::test(flavor = "multi_thread")]
async fn every_task_of_a_keeper_has_a_connection_of_its_own() {
    let queue = TestQueue::create().await;
    let (client, holder) = (queue.client().await, queue.client().await);
    let often = Duration::from_millis(1);
    let settings = KeeperSettings::default()
        .promote(often)
        .schedule(often)
        .dispatch(often)
        .reap(often)
        .expire(often)
        .unblock(often)
        .fold(often)
        .prune(often)
        .seal(often)
        .purge_tenants(often)
        .partition(often)
        .sample(often);
    let lock_all = "begin; do $$ declare t text; begin
        for t in select format('windlass.%I', tablename) from pg_tables where schemaname = 'windlass' order by 1 loop
          execute 'lock table ' || t || ' in access exclusive mode';
        end loop; end $$";
    holder.batch_execute(lock_all).await.unwrap();
    let stop = CancellationToken::new();
    let running = tokio::spawn(Keeper::new(queue.queue().clone(), settings).run(stop.clone()));
    let waits = "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()";
    eventually("all seven wait at the same time", async || count(&client, waits).await >= 7).await;
    holder.batch_execute("rollback").await.unwrap();
    stop.cancel();
    running.await.unwrap();
}
