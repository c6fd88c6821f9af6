//! Jobs that are too late to start: the first process that finds them ends them, a claim or the keeper.

use std::time::Duration;

use serde_json::json;
use tokio_postgres::Client;
use uuid::Uuid;
use windlass::keeper::Duty;
use windlass::{DEFAULT_TENANT, Error};
use windlass_testing::{TestQueue, eventually, until_waits_or_ends};

use crate::support::{
    Hand, assert_counts_are_exact, attempts, count, ending, everything, job, keeper, status,
};

const PAST: &str = "deadline => clock_timestamp() - interval '1 s'";

/// No keeper has run yet.
#[tokio::test(flavor = "multi_thread")]
async fn a_claim_fails_jobs_past_their_deadline_and_starts_the_others() {
    let queue = TestQueue::create().await;
    let hand = Hand::new(queue.client().await).await;
    hand.define(json!({"key": "held"})).await;
    hand.define(json!({"key": "hasty", "start_deadline_seconds": 1})).await;
    let late = hand.enqueue(&format!("'held', dedupe_key => 'k', {PAST}")).await;
    let hasty = hand.enqueue("'hasty'").await;
    let good = hand.enqueue("'held', deadline => clock_timestamp() + interval '1 h'").await;
    let after = hand.enqueue(&format!("'held', depends_on => array['{late}'::uuid]")).await;
    let anyway =
        hand.enqueue(&format!("'held', depends_on => array['{late}'::uuid], if_unmet => 'run'")).await;
    let passed = "select count(*) from windlass.expiry where expires_at <= clock_timestamp()";
    eventually("the start deadline passes", async || count(&hand.client, passed).await == 2).await;
    let claimed = hand.claim_all().await;
    assert_eq!(claimed.iter().map(|fence| fence.job).collect::<Vec<_>>(), [good]);
    for id in [late, hasty] {
        let row = job(&hand.client, id).await;
        assert_eq!((&row["status"], &row["reason"]), (&json!("failed"), &json!("expired")));
        assert!(attempts(&hand.client, id).await.is_empty(), "it never started");
    }
    assert_eq!(status(&hand.client, after).await, "canceled", "its dependent is notified");
    assert_eq!(status(&hand.client, anyway).await, "queued");
    hand.enqueue("'held', dedupe_key => 'k'").await;
    assert_eq!(
        count(&hand.client, "select count(*) from windlass.jobs where dedupe_key = 'k'").await,
        2,
        "its key is free"
    );
    assert_counts_are_exact(&hand.client).await;
    assert_eq!(
        keeper(&queue).run_once(Duty::Expire).await.unwrap().moved,
        0,
        "nothing is left for the keeper"
    );
}

/// On an idle queue a single job is claimed by a shorter path.
#[tokio::test(flavor = "multi_thread")]
async fn a_lone_job_that_is_late_is_failed_and_runs_when_an_operator_retries_it() {
    let queue = TestQueue::create().await;
    let hand = Hand::new(queue.client().await).await;
    hand.define(json!({"key": "hasty", "start_deadline_seconds": 1})).await;
    let late = hand.enqueue("'hasty'").await;
    let passed = "select count(*) from windlass.expiry where expires_at <= clock_timestamp()";
    eventually("the start deadline passes", async || count(&hand.client, passed).await == 1).await;
    assert!(hand.claim_all().await.is_empty());
    assert_eq!(status(&hand.client, late).await, "failed");
    assert_eq!(hand.retry(late).await, "queued");
    let fence = hand.claim_one().await;
    assert_eq!(fence.job, late);
    assert!(hand.settle(&fence, None).await);
    assert_counts_are_exact(&hand.client).await;
}

/// A-316: it would end without a run.
#[tokio::test(flavor = "multi_thread")]
async fn a_job_past_its_deadline_is_not_retried() {
    let queue = TestQueue::create().await;
    let hand = Hand::new(queue.client().await).await;
    hand.define(json!({"key": "held"})).await;
    let late = hand.enqueue(&format!("'held', {PAST}")).await;
    let canceled = hand.enqueue(&format!("'held', delay => '1 h', {PAST}")).await;
    hand.cancel(canceled).await;
    assert!(hand.claim_all().await.is_empty());
    for id in [late, canceled] {
        let before = everything(&hand.client).await;
        assert_eq!(hand.retry(id).await, "past_deadline");
        let error = queue.retry(DEFAULT_TENANT, id, "ada").await.unwrap_err();
        assert!(matches!(error, Error::DeadlinePassed { job } if job == id), "{error}");
        let many = "select windlass.retry_many($1, array[$2::uuid], '{}', 'tester')";
        let retried: i64 = hand.client.query_one(many, &[&DEFAULT_TENANT, &id]).await.unwrap().get(0);
        assert_eq!(retried, 0);
        assert_eq!(everything(&hand.client).await, before, "a rejected retry changes nothing");
    }
    let ahead = hand.enqueue("'held', deadline => now() + interval '1 hour'").await;
    hand.cancel(ahead).await;
    assert_eq!(hand.retry(ahead).await, "queued");
}

/// One that started in time may be queued again after its start deadline.
#[tokio::test(flavor = "multi_thread")]
async fn a_claim_restarts_a_job_that_started_in_time() {
    let queue = TestQueue::create().await;
    let hand = Hand::new(queue.client().await).await;
    hand.define(json!({"key": "hasty", "start_deadline_seconds": 1})).await;
    let started = hand.enqueue("'hasty'").await;
    let fence = hand.claim_one().await;
    assert!(hand.settle(&fence, Some(ending::release())).await);
    let passed = "select count(*) from windlass.expiry where expires_at <= clock_timestamp()";
    eventually("the start deadline passes", async || count(&hand.client, passed).await == 1).await;
    assert_eq!(hand.claim_one().await.job, started);
}

/// Chaos 5: deadlines of jobs that ran long ago precede the next real one. A round counts the rows that it processed, so the
/// keeper continues at once while rounds are full, and does not sleep between them.
#[tokio::test(flavor = "multi_thread")]
async fn deadlines_of_started_jobs_do_not_block_the_next_one() {
    let queue = TestQueue::create().await;
    let hand = Hand::new(queue.client().await).await;
    hand.define(json!({"key": "held"})).await;
    let old = "with ran as (
          insert into windlass.expiry (tenant_id, job_id, expires_at, only_unstarted)
            select $1, gen_random_uuid(), clock_timestamp() - interval '1 min', true from generate_series(1, 1200) returning tenant_id, job_id)
        insert into windlass.history (tenant_id, job_id, finished_at, attempt, lane, outcome, job_status)
          select r.tenant_id, r.job_id, clock_timestamp(), 1, 1, 1, 1 from ran r";
    hand.client.execute(old, &[&DEFAULT_TENANT]).await.unwrap();
    let late = hand.enqueue(&format!("'held', delay => '1 h', {PAST}")).await;
    let keeper = keeper(&queue);
    let mut rounds = Vec::new();
    while status(&hand.client, late).await != "failed" {
        let round = keeper.run_once(Duty::Expire).await.unwrap();
        rounds.push((round.moved, round.is_full));
    }
    assert_eq!(rounds, [(500, true), (500, true), (201, false)]);
}

/// A position in the queue without a body has nothing to run: it is deleted, and does not run forever under a worker without the job.
#[tokio::test(flavor = "multi_thread")]
async fn a_position_without_a_body_starts_nothing() {
    let queue = TestQueue::create().await;
    let hand = Hand::new(queue.client().await).await;
    hand.define(json!({"key": "held"})).await;
    for others in [0, 2] {
        let missing = hand.enqueue("'held'").await;
        for _ in 0..others {
            hand.enqueue("'held'").await;
        }
        hand.client.execute("delete from windlass.job where id = $1", &[&missing]).await.unwrap();
        assert_eq!(hand.claim_all().await.len(), others);
        assert_eq!(
            count(&hand.client, &format!("select count(*) from windlass.running where job_id = '{missing}'"))
                .await,
            0
        );
    }
    assert_counts_are_exact(&hand.client).await;
}

/// The deadline of a running job is kept: released after it, the job does not start again.
#[tokio::test(flavor = "multi_thread")]
async fn a_job_released_after_its_deadline_does_not_start_again() {
    let queue = TestQueue::create().await;
    let hand = Hand::new(queue.client().await).await;
    hand.define(json!({"key": "held"})).await;
    let job = hand.enqueue("'held', deadline => now() + interval '1 hour'").await;
    let fence = hand.claim_one().await;
    let pass = "update windlass.expiry set expires_at = clock_timestamp() - interval '1 s';
        update windlass.job set deadline = clock_timestamp() - interval '1 s'";
    hand.client.batch_execute(pass).await.unwrap();
    hand.client.batch_execute("select windlass.expire(500)").await.unwrap();
    let unclaim = "select windlass.unclaim($1, $2, (select array_agg(id) from windlass.lane), 0)";
    hand.client.query(unclaim, &[&hand.worker, &fence.token]).await.unwrap();
    assert_eq!(status(&hand.client, job).await, "queued");
    hand.client.batch_execute("select windlass.expire(500)").await.unwrap();
    assert_eq!(status(&hand.client, job).await, "failed");
    assert_counts_are_exact(&hand.client).await;
}

/// A deletion locks the position in the queue and then the deadline. The keeper must not hold the second while it waits for the first.
#[tokio::test(flavor = "multi_thread")]
async fn the_keeper_skips_a_late_job_that_is_being_deleted() {
    let queue = TestQueue::create().await;
    let hand = Hand::new(queue.client().await).await;
    hand.define(json!({"key": "held"})).await;
    let late = hand.enqueue(&format!("'held', {PAST}")).await;
    let other = hand.enqueue(&format!("'held', {PAST}")).await;
    let deleter = queue.client().await;
    let lock = format!("begin; select from windlass.line where '{late}' = any (ids) for update");
    deleter.batch_execute(&lock).await.unwrap();
    assert_eq!(keeper(&queue).run_once(Duty::Expire).await.unwrap().moved, 1);
    assert_eq!(status(&hand.client, other).await, "failed");
    let deadline = format!("delete from windlass.expiry where job_id = '{late}'");
    assert_eq!(deleter.execute(&deadline, &[]).await.unwrap(), 1);
    deleter.batch_execute("rollback").await.unwrap();
    assert_eq!(count(&hand.client, "select count(*) from windlass.problem").await, 0);
    assert_eq!(keeper(&queue).run_once(Duty::Expire).await.unwrap().moved, 1);
    assert_eq!(status(&hand.client, late).await, "failed");
}

/// The keeper finds the start deadline of a job that runs, and the worker releases the job before the keeper goes on.
#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_started_in_time_and_is_released_meanwhile_does_not_expire() {
    let queue = TestQueue::create().await;
    let hand = Hand::new(queue.client().await).await;
    hand.define(json!({"key": "hasty", "start_deadline_seconds": 1})).await;
    let id = hand.enqueue("'hasty'").await;
    let fence = hand.claim_one().await;
    let passed = "select count(*) from windlass.expiry where expires_at <= clock_timestamp()";
    eventually("the start deadline passes", async || count(&hand.client, passed).await == 1).await;
    let (open, expirer) = (queue.client().await, queue.client().await);
    // Where a keeper that fails jobs has to wait.
    hand.client.batch_execute("alter function windlass.expire set lock_timeout = '60s'").await.unwrap();
    open.batch_execute("begin; lock table windlass.blocked in share mode").await.unwrap();
    let expiring = tokio::spawn(async move { expirer.batch_execute("select windlass.expire(100)").await });
    until_waits_or_ends(&hand.client, &expiring).await;
    assert!(hand.settle(&fence, Some(ending::release())).await);
    open.batch_execute("commit").await.unwrap();
    expiring.await.unwrap().unwrap();
    assert_eq!(status(&hand.client, id).await, "queued");
    assert_eq!(
        count(&hand.client, "select count(*) from windlass.expiry").await,
        0,
        "it has started in time"
    );
    assert_eq!(hand.claim_one().await.attempt, 2);
    assert_counts_are_exact(&hand.client).await;
}

/// A-343: a retry locks the dependencies of the job, which has ended and has no other row.
#[tokio::test(flavor = "multi_thread")]
async fn a_claim_that_fails_a_late_job_waits_for_no_open_retry_of_a_job_behind_it() {
    for (end, is_alone) in [("commit", true), ("rollback", false)] {
        let queue = TestQueue::create().await;
        let hand = Hand::new(queue.client().await).await;
        hand.define(json!({"key": "held"})).await;
        let late = hand.enqueue(&format!("'held', ordering_key => 'k', {PAST}")).await;
        let behind = hand.enqueue("'held', ordering_key => 'k', if_unmet => 'run'").await;
        assert_eq!(hand.cancel(behind).await, "canceled");
        let mut others = Vec::new();
        if !is_alone {
            others.push(hand.enqueue("'held'").await);
        }
        let application = open_retry(&queue, behind).await;
        let claimed =
            tokio::time::timeout(LIMIT, hand.claim_all()).await.expect("the claim waits for the retry");
        assert_eq!(claimed.iter().map(|fence| fence.job).collect::<Vec<_>>(), others);
        assert_eq!(status(&hand.client, late).await, "failed");
        application.batch_execute(end).await.unwrap();
        is_unblocked(&queue, &hand, behind, if end == "commit" { "queued" } else { "canceled" }).await;
    }
}

/// The same for a job that ran.
#[tokio::test(flavor = "multi_thread")]
async fn a_settlement_waits_for_no_open_retry_of_a_job_behind_it() {
    let queue = TestQueue::create().await;
    let hand = Hand::new(queue.client().await).await;
    hand.define(json!({"key": "held"})).await;
    hand.enqueue("'held', ordering_key => 'k'").await;
    let behind = hand.enqueue("'held', ordering_key => 'k'").await;
    assert_eq!(hand.cancel(behind).await, "canceled");
    let fence = hand.claim_one().await;
    let application = open_retry(&queue, behind).await;
    let settled = tokio::time::timeout(LIMIT, hand.settle(&fence, None)).await;
    assert!(settled.expect("the settlement waits for the retry"));
    application.batch_execute("commit").await.unwrap();
    is_unblocked(&queue, &hand, behind, "queued").await;
}

const LIMIT: Duration = Duration::from_secs(30);

/// An application that retries this job and leaves its transaction open.
async fn open_retry(queue: &TestQueue, job: Uuid) -> Client {
    let application = queue.client().await;
    let retry = format!(
        "set role windlass_app; set windlass.tenant_id = '{DEFAULT_TENANT}'; begin;
         select windlass.retry('{DEFAULT_TENANT}', '{job}', 'tester')"
    );
    application.batch_execute(&retry).await.unwrap();
    application
}

/// The keeper decides the dependency that was left, and the job has this status.
async fn is_unblocked(queue: &TestQueue, hand: &Hand, job: Uuid, wanted: &str) {
    let left =
        "select (select count(*) from windlass.dependency) + (select count(*) from windlass.unblock_due)";
    eventually("the keeper decides it", async || {
        keeper(queue).run_once(Duty::Unblock).await.unwrap();
        count(&hand.client, left).await == 0
    })
    .await;
    assert_eq!(status(&hand.client, job).await, wanted);
    assert_counts_are_exact(&hand.client).await;
}

/// A-367: the keeper reads that the job has ended, and its deadline still applies once the retry is committed.
#[tokio::test(flavor = "multi_thread")]
async fn a_deadline_that_passes_during_an_open_retry_applies_after_it() {
    let queue = TestQueue::create().await;
    let hand = Hand::new(queue.client().await).await;
    hand.define(json!({"key": "held"})).await;
    let id = hand.enqueue("'held', deadline => clock_timestamp() + interval '1 h'").await;
    hand.cancel(id).await;
    let other = Hand { client: queue.client().await, worker: hand.worker };
    other.client.batch_execute("begin").await.unwrap();
    assert_eq!(other.retry(id).await, "queued");
    let pass = "update windlass.expiry set expires_at = clock_timestamp() - interval '1 s'";
    hand.client.batch_execute(pass).await.unwrap();
    keeper(&queue).run_once(Duty::Expire).await.unwrap();
    other.client.batch_execute("commit").await.unwrap();
    keeper(&queue).run_once(Duty::Expire).await.unwrap();
    let row = job(&hand.client, id).await;
    assert_eq!((&row["status"], &row["reason"]), (&json!("failed"), &json!("expired")));
    keeper(&queue).run_once(Duty::Expire).await.unwrap();
    assert_eq!(count(&hand.client, "select count(*) from windlass.expiry").await, 0, "it is obsolete now");
    assert_counts_are_exact(&hand.client).await;
}

/// A-371: each of these rows cost a call in every round.
#[tokio::test(flavor = "multi_thread")]
async fn a_round_looks_at_a_part_of_the_late_jobs_that_a_transaction_has_locked() {
    let queue = TestQueue::create().await;
    let hand = Hand::new(queue.client().await).await;
    hand.define(json!({"key": "held", "start_deadline_seconds": 3600})).await;
    let (slow, other) = (queue.tenant("slow").await, queue.tenant("other").await);
    hand.enqueue_many("held", slow, 1000).await;
    let open = queue.client().await;
    let cancel =
        format!("begin; select windlass.cancel_many('{slow}', array(select id from windlass.job), '{{}}')");
    open.batch_execute(&cancel).await.unwrap();
    let late = hand.enqueue(&format!("'held', tenant_id => '{other}'")).await;
    hand.client
        .batch_execute(
            "update windlass.expiry set expires_at = clock_timestamp() - interval '1 s'; set track_functions = 'pl'",
        )
        .await
        .unwrap();
    hand.client.execute("select windlass.expire(20)", &[]).await.unwrap();
    assert_eq!(status(&hand.client, late).await, "failed");
    hand.client.execute("select pg_stat_force_next_flush()", &[]).await.unwrap();
    let calls = "select calls from pg_stat_user_functions where schemaname = 'windlass' and funcname = 'lock_to_expire'";
    let calls = count(&hand.client, calls).await;
    assert!(calls <= 200, "{calls} calls for a round of 20");
    open.batch_execute("rollback").await.unwrap();
    eventually("all of them end", async || {
        hand.client.execute("select windlass.expire(1000)", &[]).await.unwrap();
        count(&hand.client, "select count(*) from windlass.expiry").await == 0
    })
    .await;
}
