//! Guards of the statements, removed one at a time. Each scenario below passes while its guard is present, and must detect its
//! absence: a scenario that cannot fail proves nothing.

mod blocks;
mod claim;
mod gates;
mod lifecycle;
mod order;
mod retire;

use std::pin::pin;

use jiff::SignedDuration;
use serde_json::json;
use tokio::task::JoinHandle;
use tokio_postgres::Client;
use uuid::Uuid;
use windlass::admin::Reach;
use windlass::job::{Fence, Filter};
use windlass::{Definition, NewJob, Queue};
use windlass_testing::{TestQueue, eventually, settings, until_a_session_waits, waiting_for_locks};

use crate::schedule;
use crate::support::{Hand, assert_counts_are_exact, count, ending, job, keeper, lose_worker};

/// The error that a scenario found.
type Reported = Result<(), String>;

fn holds(is_so: bool, otherwise: &str) -> Reported {
    if is_so { Ok(()) } else { Err(otherwise.to_owned()) }
}

/// A separate queue whose function has lost a part.
async fn with_mutant(function: &str, guard: &str, instead: &str) -> (TestQueue, Hand) {
    let queue = TestQueue::create().await;
    let hand = Hand::new(queue.client().await).await;
    hand.define(json!({"key": "held"})).await;
    mutate(&hand.client, function, guard, instead).await;
    (queue, hand)
}

async fn mutate(client: &Client, function: &str, guard: &str, instead: &str) {
    let find = "select pg_get_functiondef(p.oid) from pg_proc p where p.pronamespace = 'windlass'::regnamespace and p.proname = $1";
    let source: String = client.query_one(find, &[&function]).await.unwrap().get(0);
    assert!(source.contains(guard), "{function} no longer has the guard {guard:?}: fix the mutant");
    client.batch_execute(&source.replace(guard, instead)).await.unwrap();
}

/// The scenario passes without the mutant, and detects the mutant.
async fn catches(
    function: &str,
    guard: &str,
    instead: &str,
    expected: &str,
    story: impl AsyncFn(&TestQueue, &Hand) -> Reported,
) {
    let (queue, hand) = with_mutant(function, guard, guard).await;
    assert_eq!(story(&queue, &hand).await, Ok(()), "without the mutant");
    let (queue, hand) = with_mutant(function, guard, instead).await;
    assert_eq!(story(&queue, &hand).await, Err(expected.to_owned()), "{function} without {guard:?}");
}

async fn a_write_with_a_wrong_fence(_: &TestQueue, hand: &Hand) -> Reported {
    hand.enqueue("'held'").await;
    let right = hand.claim_one().await;
    let of_another_attempt = Fence { attempt: right.attempt + 1, ..right };
    holds(!hand.settle(&of_another_attempt, None).await, "another attempt's word counts")?;
    let of_another_claim = Fence { token: Uuid::new_v4(), ..right };
    holds(!hand.settle(&of_another_claim, None).await, "another claim's word counts")?;
    holds(hand.settle(&right, None).await, "the holder's word does not count")
}

#[tokio::test]
async fn an_end_that_does_not_check_the_attempt_is_detected() {
    catches(
        "settle_blocks",
        "and l.attempt = g.attempt",
        "",
        "another attempt's word counts",
        a_write_with_a_wrong_fence,
    )
    .await;
}

#[tokio::test]
async fn an_end_that_does_not_check_the_token_is_detected() {
    let guard = "and l.token = g.token";
    catches("settle_blocks", guard, "", "another claim's word counts", a_write_with_a_wrong_fence).await;
}

async fn a_reap_during_a_heartbeat(_: &TestQueue, hand: &Hand) -> Reported {
    hand.enqueue("'held'").await;
    let fence = hand.claim_one().await;
    // The reaper has read that the worker is overdue; a heartbeat arrives before the reaper acts.
    hand.miss_heartbeats().await;
    holds(hand.heartbeat().await, "an overdue worker that was not reaped is rejected")?;
    let reap = "select settled from windlass.reap(array[$1::integer], array[$2::uuid], array[$3::uuid], array[$4::integer],
        array[$5::uuid], array[$6::jsonb])";
    let params: [&(dyn tokio_postgres::types::ToSql + Sync); 6] =
        [&hand.worker, &fence.tenant, &fence.job, &fence.attempt, &fence.token, &ending::retry()];
    let reaped: Option<Vec<i32>> = hand.client.query_one(reap, &params).await.unwrap().get(0);
    holds(reaped.is_none(), "a job is taken from a worker that lives")
}

#[tokio::test]
async fn a_reap_that_does_not_recheck_the_lease_is_detected() {
    let guard = "and w.lease_expires_at <= clock_timestamp()";
    catches("reap", guard, "", "a job is taken from a worker that lives", a_reap_during_a_heartbeat).await;
}

async fn a_job_that_keeps_losing_its_worker(queue: &TestQueue, hand: &Hand) -> Reported {
    hand.define(json!({"key": "held", "max_lost": 2})).await;
    let (id, keeper) = (hand.enqueue("'held'").await, keeper(queue));
    for _ in 0..2 {
        lose_worker(queue, &keeper).await;
    }
    holds(job(&hand.client, id).await["status"] == "dead_letter", "a job that kills its workers continues")
}

#[tokio::test]
async fn a_reap_that_does_not_count_lost_attempts_is_detected() {
    let (guard, instead) = ("l.failures, l.lost, l.snoozes", "l.failures, 0::smallint, l.snoozes");
    let expected = "a job that kills its workers continues";
    catches("lost_jobs", guard, instead, expected, a_job_that_keeps_losing_its_worker).await;
}

async fn an_enqueue_on_a_lax_connection(_: &TestQueue, hand: &Hand) -> Reported {
    hand.client.batch_execute("begin; set local synchronous_commit = off").await.unwrap();
    hand.enqueue("'held'").await;
    let setting: String = hand.client.query_one("show synchronous_commit", &[]).await.unwrap().get(0);
    hand.client.batch_execute("commit").await.unwrap();
    holds(setting != "off", "an acknowledged job may be lost")
}

#[tokio::test]
async fn an_enqueue_that_leaves_durability_to_its_caller_is_detected() {
    let guard = "current_setting('synchronous_commit') = 'off'";
    catches(
        "stay_durable",
        guard,
        "false",
        "an acknowledged job may be lost",
        an_enqueue_on_a_lax_connection,
    )
    .await;
}

async fn two_claims_under_a_limit_of_one(queue: &TestQueue, hand: &Hand) -> Reported {
    hand.define(json!({"key": "held", "max_running": 1})).await;
    hand.enqueue("'held'").await;
    hand.enqueue("'held'").await;
    hand.client.batch_execute("begin").await.unwrap();
    holds(hand.claim_all().await.len() == 1, "the first claim does not keep to the limit")?;
    let other = Hand::new(queue.client().await).await;
    let second = commit_beside(queue, &hand.client, other.claim_all()).await;
    holds(second.is_empty(), "two claims that do not see each other go past the limit")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_that_counts_running_jobs_without_a_lock_is_detected() {
    let (guard, instead) =
        ("if windlass.try_lock_gate(limited[n], 'running', not has_waited) then", "if true then");
    let expected = "two claims that do not see each other go past the limit";
    catches("limit_to_running", guard, instead, expected, two_claims_under_a_limit_of_one).await;
}

/// The scheduler was set back before an instant that it has fired, as by a restored backup.
async fn an_instant_that_is_due_again(queue: &TestQueue, hand: &Hand) -> Reported {
    let trigger = schedule::create(queue, &schedule::every_minute()).await;
    let due = schedule::look_back(&hand.client, &trigger, SignedDuration::from_secs(60)).await;
    let keeper = keeper(queue);
    schedule::fire_all(&keeper).await;
    let again = "update windlass.job_triggers set next_due_at = $2 where id = $1";
    hand.client.execute(again, &[&trigger.id, &due]).await.unwrap();
    schedule::fire_all(&keeper).await;
    let jobs = format!("select count(*) from windlass.jobs where source_ref = '{}'", trigger.id);
    holds(count(&hand.client, &jobs).await == 1, "an instant fires twice")
}

#[tokio::test(flavor = "multi_thread")]
async fn fires_without_their_key_are_detected() {
    let drop_key = "alter table windlass.fire drop constraint fire_pkey";
    for (mutation, wanted) in [("", Ok(())), (drop_key, Err("an instant fires twice".to_owned()))] {
        let (queue, hand) = with_mutant("fire_triggers", "", "").await;
        hand.client.batch_execute(mutation).await.unwrap();
        assert_eq!(an_instant_that_is_due_again(&queue, &hand).await, wanted, "{mutation}");
    }
}

async fn a_cancel_of_a_running_job(_: &TestQueue, hand: &Hand) -> Reported {
    let id = hand.enqueue("'held', dedupe_key => 'k'").await;
    let fence = hand.claim_one().await;
    hand.cancel(id).await;
    holds(job(&hand.client, id).await["status"] == "running", "it counts as ended while it runs")?;
    let again = hand.enqueue("'held', dedupe_key => 'k'").await;
    holds(again == id, "its key is free while it runs")?;
    holds(hand.settle(&fence, None).await, "its holder cannot acknowledge")?;
    holds(job(&hand.client, id).await["status"] == "canceled", "the cancel is lost")
}

#[tokio::test]
async fn a_cancel_that_does_not_wait_for_the_holder_is_detected() {
    let guard = "update windlass.live l set cancel_requested_at[array_position(l.ids, job)]
        = coalesce(l.cancel_requested_at[array_position(l.ids, job)], at)";
    let instead = "delete from windlass.live l";
    catches(
        "cancel_unaudited",
        guard,
        instead,
        "it counts as ended while it runs",
        a_cancel_of_a_running_job,
    )
    .await;
}

/// Runs `second` while the other transaction is open, which commits once `second` waits for it or has ended.
pub(crate) async fn commit_beside<T>(queue: &TestQueue, open: &Client, second: impl Future<Output = T>) -> T {
    let probe = queue.client().await;
    let mut second = pin!(second);
    let ended = tokio::select! {
        ended = &mut second => Some(ended),
        () = until_a_session_waits(&probe) => None,
    };
    open.batch_execute("commit").await.unwrap();
    match ended {
        Some(ended) => ended,
        None => second.await,
    }
}

async fn two_dependencies_that_end_at_once(queue: &TestQueue, hand: &Hand) -> Reported {
    // Each in its own block: the ends of one block wait for each other.
    hand.enqueue("'held'").await;
    let first = &hand.claim_one().await;
    hand.enqueue("'held'").await;
    let second = &hand.claim_one().await;
    let waits = hand
        .enqueue(&format!("'held', depends_on => array['{}', '{}']::uuid[]", first.job, second.job))
        .await;
    let open = queue.client().await;
    open.batch_execute("begin").await.unwrap();
    let settle = "select settled from windlass.settle(array[$1::uuid], array[$2::uuid], array[$3::integer], array[$4::uuid], array[1], array[null::jsonb])";
    let params: [&(dyn tokio_postgres::types::ToSql + Sync); 4] =
        [&first.tenant, &first.job, &first.attempt, &first.token];
    open.execute(settle, &params).await.unwrap();
    let settled = commit_beside(queue, &open, hand.settle(second, None)).await;
    holds(settled, "the second end does not count")?;
    // One that had to wait for too long leaves it to the keeper.
    hand.client.execute("select windlass.unblock_rest(100)", &[]).await.unwrap();
    holds(
        job(&hand.client, waits).await["status"] == "queued",
        "the job that depended on both is not started",
    )
}

/// Not one of the plan's fourteen: the lock without which two hand-overs miss each other.
#[tokio::test(flavor = "multi_thread")]
async fn a_hand_over_that_does_not_lock_dependents_is_detected() {
    let guard = "order by b.job_id for update skip locked)";
    let expected = "the job that depended on both is not started";
    catches("lock_blocked", guard, "order by b.job_id)", expected, two_dependencies_that_end_at_once).await;
}

/// Two failures that meet: `upper` and `lower` are reached by both, from the left in one order and from the right in the other.
async fn a_diamond_that_fails_from_both_ends(queue: &TestQueue, hand: &Hand) -> Reported {
    let id = |n: u128| Uuid::from_u128(0x0190_0000_0000_7000_8000_0000_0000_0000 | n);
    let place = async |n: u128, needs: &[u128]| {
        let needs: Vec<String> = needs.iter().map(|need| format!("'{}'", id(*need))).collect();
        let needs = needs.join(", ");
        hand.enqueue(&format!("'held', job_id => '{}', depends_on => array[{needs}]::uuid[]", id(n))).await;
    };
    let (left, right, lower, upper, aside) = (1, 2, 10, 20, 30);
    let mut fences = Vec::new();
    for (n, needs) in
        [(left, &[][..]), (right, &[]), (aside, &[right]), (upper, &[left, aside]), (lower, &[upper, right])]
    {
        place(n, needs).await;
        fences.extend(hand.claim_all().await); // each in its own block
    }
    // Both are in progress at once: the one from the right is blocked in the middle until the other cannot continue.
    let mut holder = queue.client().await;
    let held = holder.transaction().await.unwrap();
    held.execute("select from windlass.blocked where job_id = $1 for update", &[&id(aside)]).await.unwrap();
    let mut failing = Vec::new();
    for (waiting, n) in [(1, right), (2, left)] {
        let fence = *fences.iter().find(|fence| fence.job == id(n)).unwrap();
        let client = queue.client().await;
        failing.push(tokio::spawn(async move {
            let settle = "select from windlass.settle(array[$1::uuid], array[$2::uuid], array[$3::integer], array[$4::uuid], array[1], array[$5::jsonb])";
            let params: [&(dyn tokio_postgres::types::ToSql + Sync); 5] =
                [&fence.tenant, &fence.job, &fence.attempt, &fence.token, &ending::dead_letter()];
            client.execute(settle, &params).await.is_ok()
        }));
        eventually("it waits, or leaves it to the keeper", async || {
            waiting_for_locks(&hand.client).await == waiting || failing.iter().any(JoinHandle::is_finished)
        })
        .await;
    }
    held.rollback().await.unwrap();
    for failed in failing {
        holds(failed.await.unwrap(), "one of the two is broken off")?;
    }
    for _ in 0..3 {
        hand.client.execute("select windlass.unblock_rest(100)", &[]).await.unwrap();
    }
    for n in [upper, lower, aside] {
        holds(job(&hand.client, id(n)).await["status"] == "canceled", "something behind them still waits")?;
    }
    assert_counts_are_exact(&hand.client).await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_diamond_that_fails_from_both_ends_does_not_deadlock() {
    let guard = "busy := windlass.lock_blocked(tenant, reached[:most]);";
    let expected = "one of the two is broken off";
    catches("unblock", guard, "busy := '{}';", expected, a_diamond_that_fails_from_both_ends).await;
}

/// A tenant is current for one transaction: with `set` instead of `set local` the next user of the connection would act for it.
#[tokio::test]
async fn the_tenant_of_one_call_is_not_current_in_the_next() {
    let queue = TestQueue::create().await;
    queue.define(&Definition::new("held")).await.unwrap();
    let (acme, other) = (queue.tenant("acme").await, queue.tenant("other").await);
    let shared = Queue::connect(settings(queue.url()).connections(1)).await.unwrap();
    for tenant in [acme, other, acme] {
        shared.list(&Filter::new(tenant)).await.unwrap();
        let reading = shared.read(Reach::Tenant(tenant)).await.unwrap();
        reading.end().await.unwrap();
        let neighbour = if tenant == acme { other } else { acme };
        shared.enqueue(&NewJob::new("held").tenant(neighbour)).await.unwrap();
    }
}
