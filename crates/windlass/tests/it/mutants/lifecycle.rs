//! The guards against late messages and earlier decisions.

use serde_json::json;
use tokio_postgres::Client;
use uuid::Uuid;
use windlass::DEFAULT_TENANT;
use windlass::keeper::Duty;
use windlass_testing::{TestQueue, until_waits_or_ends};

use super::{Reported, catches, holds, mutate};
use crate::support::{Hand, count, ending, keeper, status};

async fn an_abandoned_claim(_: &TestQueue, hand: &Hand) -> Reported {
    hand.enqueue("'held'").await;
    let give_up = "select windlass.unclaim($1, $2, array(select id from windlass.lane), 0)";
    hand.client.execute(give_up, &[&hand.worker, &Uuid::new_v4()]).await.unwrap();
    holds(hand.claim_all().await.is_empty(), "an abandoned claim takes a job")
}

#[tokio::test]
async fn a_claim_that_does_not_check_its_epoch_is_detected() {
    let expected = "an abandoned claim takes a job";
    catches("claim", "and w.epoch <= in_epoch", "", expected, an_abandoned_claim).await;
}

#[tokio::test]
async fn abandoning_a_claim_without_ending_its_epoch_is_detected() {
    let (guard, instead) = ("set epoch = of_epoch + 1", "set epoch = epoch");
    catches("end_epoch", guard, instead, "an abandoned claim takes a job", an_abandoned_claim).await;
}

async fn an_expired_worker_that_waits(queue: &TestQueue, hand: &Hand) -> Reported {
    hand.miss_heartbeats().await;
    keeper(queue).run_once(Duty::Reap).await.unwrap();
    hand.client.execute("select windlass.set_waiting($1, true)", &[&hand.worker]).await.unwrap();
    let rows = count(&hand.client, "select count(*) from windlass.waiting").await;
    holds(rows == 0, "a row is left that makes every enqueue notify")
}

#[tokio::test]
async fn a_wait_that_does_not_check_the_lease_is_detected() {
    let guard = "and w.stopped_at is null and w.lease_expires_at > clock_timestamp()";
    let expected = "a row is left that makes every enqueue notify";
    catches("set_waiting", guard, "", expected, an_expired_worker_that_waits).await;
}

async fn a_cycle_by_retry(_: &TestQueue, hand: &Hand) -> Reported {
    let first = hand.enqueue("'held', ordering_key => 'k'").await;
    let fence = hand.claim_one().await;
    hand.settle(&fence, Some(ending::failed())).await;
    let between =
        hand.enqueue(&format!("'held', depends_on => array['{first}']::uuid[], if_unmet => 'wait'")).await;
    hand.enqueue(&format!(
        "'held', depends_on => array['{between}']::uuid[], if_unmet => 'run', ordering_key => 'k'"
    ))
    .await;
    holds(hand.retry(first).await == "queued", "they wait for each other")
}

#[tokio::test]
async fn a_retry_that_does_not_check_dependents_is_detected() {
    let (guard, instead) = ("behind := windlass.lock_behind(tenant, array[job])", "behind := '{}'");
    catches("retry_unaudited", guard, instead, "they wait for each other", a_cycle_by_retry).await;
}

/// A failed job that is past its retention.
async fn old_failure(hand: &Hand) -> Uuid {
    hand.define(json!({"key": "held", "retention": {"failed": 86400}})).await;
    let id = hand.enqueue("'held'").await;
    let fence = hand.claim_one().await;
    hand.settle(&fence, Some(ending::failed())).await;
    hand.client
        .execute("update windlass.history set finished_at = finished_at - interval '2 days'", &[])
        .await
        .unwrap();
    id
}

async fn a_dependency_past_its_retention(queue: &TestQueue, hand: &Hand) -> Reported {
    let need = old_failure(hand).await;
    let waits =
        hand.enqueue(&format!("'held', depends_on => array['{need}']::uuid[], if_unmet => 'wait'")).await;
    keeper(queue).run_once(Duty::Prune).await.unwrap();
    holds(status(&hand.client, waits).await == "blocked", "a failed need counts as met")
}

#[tokio::test]
async fn a_retention_purge_that_does_not_check_dependents_is_detected() {
    catches(
        "needed_jobs",
        "and d.needs_job_id = any (jobs)",
        "and false",
        "a failed need counts as met",
        a_dependency_past_its_retention,
    )
    .await;
}

async fn a_wait_for_a_job_that_is_being_pruned(queue: &TestQueue, hand: &Hand) -> Reported {
    let need = old_failure(hand).await;
    hand.client.batch_execute("begin").await.unwrap();
    let waits =
        hand.enqueue(&format!("'held', depends_on => array['{need}']::uuid[], if_unmet => 'wait'")).await;
    let other = queue.client().await;
    let pruning =
        tokio::spawn(async move { other.execute("select windlass.prune(100)", &[]).await.unwrap() });
    until_waits_or_ends(&queue.client().await, &pruning).await;
    hand.client.batch_execute("commit").await.unwrap();
    pruning.await.unwrap();
    unblock(&hand.client).await;
    holds(status(&hand.client, need).await == "failed", "a job with dependents is deleted")?;
    holds(status(&hand.client, waits).await == "blocked", "a failed need counts as met")
}

async fn unblock(client: &Client) {
    client.execute("select windlass.unblock_all(100)", &[]).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_enqueue_that_does_not_lock_its_dependencies_is_detected() {
    let guard = "perform from windlass.job b where b.tenant_id = tenant and b.id = any (needs) order by b.id for key share;";
    let expected = "a job with dependents is deleted";
    catches("depend_on", guard, "", expected, a_wait_for_a_job_that_is_being_pruned).await;
}

async fn a_retried_job_whose_clean_up_is_done(queue: &TestQueue, hand: &Hand) -> Reported {
    hand.define(json!({"key": "held", "retention": {"succeeded": 86400}, "on_purge": "clean"})).await;
    hand.define(json!({"key": "clean"})).await;
    let id = hand.enqueue("'held'").await;
    let fence = hand.claim_one().await;
    let with =
        json!({"outcome": 1, "next": 1, "failures": 0, "lost": 0, "snoozes": 0, "artifact": {"path": "a"}});
    hand.settle(&fence, Some(with)).await;
    hand.client
        .execute("update windlass.history set finished_at = finished_at - interval '2 days'", &[])
        .await
        .unwrap();
    let keeper = keeper(queue);
    keeper.run_once(Duty::Prune).await.unwrap();
    let clean_up = hand.claim_one().await;
    hand.settle(&clean_up, None).await;
    // The retry removes the deletion, and an earlier release may not have: the deletion checks too.
    let kept = "create table public.kept as select * from windlass.purge_wait";
    hand.client.batch_execute(kept).await.unwrap();
    hand.retry(id).await;
    let forgotten = count(&hand.client, "select count(*) from windlass.purge_wait").await == 0;
    let again = "insert into windlass.purge_wait select * from public.kept on conflict do nothing";
    hand.client.batch_execute(again).await.unwrap();
    keeper.run_once(Duty::Prune).await.unwrap();
    holds(status(&hand.client, id).await == "queued", "retention deletes a job that was just retried")?;
    holds(forgotten, "a retried job still waits for its deletion")
}

/// The two guards of a deletion by retention: either of them is enough.
const CLEAN_UP: (&str, &str, &str) =
    ("finish_clean_ups", "unnest(batch.done) j where j = any (ended)", "unnest(batch.done) j");
const DELETION: (&str, &str, &str) = (
    "purge_unaudited",
    "h.job_id = any (jobs) and h.job_status is not null order by h.job_id for update skip locked",
    "h.job_id = any (jobs) order by h.job_id for update skip locked",
);

#[tokio::test]
async fn a_deletion_that_does_not_recheck_the_state_is_detected() {
    for ((function, guard, instead), other) in [(CLEAN_UP, DELETION), (DELETION, CLEAN_UP)] {
        let story = async |queue: &TestQueue, hand: &Hand| {
            mutate(&hand.client, other.0, other.1, other.2).await;
            a_retried_job_whose_clean_up_is_done(queue, hand).await
        };
        let expected = "retention deletes a job that was just retried";
        catches(function, guard, instead, expected, story).await;
    }
}

#[tokio::test]
async fn a_retry_that_keeps_the_pending_deletion_is_detected() {
    let guard = "delete from windlass.purge_wait w where w.tenant_id = tenant and w.job_id = job returning w.cleanup_job_id into clean_up;";
    let expected = "a retried job still waits for its deletion";
    catches(
        "retry_unaudited",
        guard,
        "perform from windlass.tenants where false;",
        expected,
        a_retried_job_whose_clean_up_is_done,
    )
    .await;
}

async fn a_barrier_of_another_cluster(queue: &TestQueue, hand: &Hand) -> Reported {
    let tenant = queue.tenant("leaving").await;
    assert_ne!(tenant, DEFAULT_TENANT);
    let restored = "update windlass.tenants set status = 'deleting', purge_barrier = '9000000000' where slug = 'leaving'";
    hand.client.batch_execute(restored).await.unwrap();
    // There is always a transaction that started before the round, as in a busy cluster; none of them before the deletion.
    // The last step waits for transactions of other databases, so a few rounds may pass.
    let mut open = queue.client().await;
    let mut left = 1;
    for _ in 0..500 {
        let next = queue.client().await;
        next.batch_execute("begin; select pg_current_xact_id()").await.unwrap();
        // A snapshot lists running transactions only up to the last one that has ended.
        hand.client.batch_execute("select pg_current_xact_id()").await.unwrap();
        open = next;
        keeper(queue).run_once(Duty::PurgeTenants).await.unwrap();
        left = count(&hand.client, "select count(*) from windlass.tenants where slug = 'leaving'").await;
        if left == 0 {
            break;
        }
    }
    drop(open);
    holds(left == 0, "a deletion waits forever")
}

#[tokio::test]
async fn a_barrier_that_is_trusted_after_a_restore_is_detected() {
    let (guard, instead) = ("least(t.purge_barrier,", "coalesce(t.purge_barrier,");
    catches("purge_step", guard, instead, "a deletion waits forever", a_barrier_of_another_cluster).await;
}
