//! Jobs that wait for other jobs: named ones, and earlier ones with the same ordering key.

mod batch;
mod canceled;
mod circle;
mod purged;
mod retried;
mod snapshot;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::Mutex;
use uuid::Uuid;
use windlass::job::{IfUnmet, State};
use windlass::keeper::Duty;
use windlass::{Context, DEFAULT_TENANT, Definition, Done, Failure, Handler, NewJob};
use windlass_testing::{TestQueue, eventually};

use crate::support::{Hand, assert_counts_are_exact, count, ending, job, keeper, start, status, worker};

#[tokio::test(flavor = "multi_thread")]
async fn a_job_starts_only_when_all_its_dependencies_have_succeeded() {
    let (queue, hand) = start().await;
    let first = hand.enqueue("'held'").await;
    let second = hand.enqueue("'held'").await;
    let fences = hand.claim_all().await;
    let last = queue.enqueue(&NewJob::new("held").depends_on(first).depends_on(second)).await.unwrap();
    assert_eq!(last.state, Some(State::Blocked));
    assert!(hand.settle(&fences[0], None).await);
    assert_eq!(status(&hand.client, last.id).await, "blocked");
    assert!(hand.settle(&fences[1], None).await);
    assert_eq!(status(&hand.client, last.id).await, "queued");
    let done = queue.enqueue(&NewJob::new("held").depends_on(first)).await.unwrap();
    assert_eq!(done.state, Some(State::Queued), "its dependency had ended before");
    let missing = queue.enqueue(&NewJob::new("held").depends_on(Uuid::new_v4())).await.unwrap_err();
    assert!(missing.to_string().contains("depends_on"), "{missing}");
    assert_counts_are_exact(&hand.client).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_dependency_cancels_unblocks_or_keeps_the_job_by_policy() {
    let (queue, hand) = start().await;
    let needed = hand.enqueue("'held'").await;
    let fence = hand.claim_one().await;
    let mut waiting = Vec::new();
    for policy in [IfUnmet::Cancel, IfUnmet::Run, IfUnmet::Wait] {
        waiting
            .push(queue.enqueue(&NewJob::new("held").depends_on(needed).if_unmet(policy)).await.unwrap().id);
    }
    let after_canceled = queue.enqueue(&NewJob::new("held").depends_on(waiting[0])).await.unwrap().id;
    assert!(hand.settle(&fence, Some(ending::dead_letter())).await);
    let seen = [status(&hand.client, waiting[0]).await, status(&hand.client, waiting[1]).await];
    assert_eq!(seen, ["canceled", "queued"]);
    assert_eq!(job(&hand.client, waiting[0]).await["reason"], "dependency");
    assert_eq!(status(&hand.client, waiting[2]).await, "blocked");
    assert_eq!(status(&hand.client, after_canceled).await, "canceled", "it continues down the chain");

    assert_eq!(hand.retry(needed).await, "queued");
    assert_eq!(status(&hand.client, waiting[2]).await, "blocked");
    for fence in hand.claim_all().await {
        assert!(hand.settle(&fence, None).await);
    }
    assert_eq!(status(&hand.client, waiting[2]).await, "queued", "the retry of the dead letter unblocks it");
    assert_counts_are_exact(&hand.client).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unblocked_job_waits_for_its_own_start_time() {
    let (queue, hand) = start().await;
    let needed = hand.enqueue("'held'").await;
    let later = NewJob::new("held").depends_on(needed).delay(Duration::from_secs(3600));
    let later = queue.enqueue(&later).await.unwrap().id;
    let fence = hand.claim_one().await;
    assert!(hand.settle(&fence, None).await);
    assert_eq!(status(&hand.client, later).await, "scheduled");
    assert_counts_are_exact(&hand.client).await;
}

/// Two dependencies that end in two transactions at the same time: neither may consider the other still open.
#[tokio::test(flavor = "multi_thread")]
async fn a_job_whose_two_dependencies_end_at_once_is_queued_once() {
    let (queue, hand) = start().await;
    let other = Hand { client: queue.client().await, worker: hand.worker };
    for _ in 0..25 {
        let needs = [hand.enqueue("'held'").await, hand.enqueue("'held'").await];
        let fences = hand.claim_all().await;
        let waits = NewJob::new("held").depends_on(needs[0]).depends_on(needs[1]);
        let waits = queue.enqueue(&waits).await.unwrap().id;
        let (a, b) = tokio::join!(hand.settle(&fences[0], None), other.settle(&fences[1], None));
        assert!(a && b);
        assert_eq!(status(&hand.client, waits).await, "queued");
        let fence = hand.claim_one().await;
        assert!(hand.settle(&fence, None).await);
    }
    assert_counts_are_exact(&hand.client).await;
}

/// The dependency ends between the check and the commit of its dependent: the keeper recovers the missed hand-over.
#[tokio::test(flavor = "multi_thread")]
async fn a_missed_hand_over_is_recovered_by_the_keeper() {
    let (queue, hand) = start().await;
    let needed = hand.enqueue("'held'").await;
    let fence = hand.claim_one().await;
    let mut client = queue.client().await;
    let transaction = client.transaction().await.unwrap();
    let waits = windlass::enqueue_in(&transaction, &NewJob::new("held").depends_on(needed)).await.unwrap().id;
    assert!(hand.settle(&fence, None).await);
    transaction.commit().await.unwrap();
    assert_eq!(status(&hand.client, waits).await, "blocked");
    assert_eq!(keeper(&queue).run_once(Duty::Unblock).await.unwrap().moved, 1);
    assert_eq!(status(&hand.client, waits).await, "queued");
    assert_eq!(keeper(&queue).run_once(Duty::Unblock).await.unwrap().moved, 0);
}

struct OneByOne {
    now: Arc<AtomicUsize>,
    most: Arc<AtomicUsize>,
    order: Arc<Mutex<Vec<u64>>>,
}

windlass_testing::payload!(OneByOneArgs(u64) = "one_by_one");

impl Handler for OneByOne {
    type Args = OneByOneArgs;

    async fn run(&self, job: &Context, OneByOneArgs(number): OneByOneArgs) -> Result<Done, Failure> {
        let running = self.now.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(running, Ordering::SeqCst);
        tokio::task::yield_now().await;
        if job.attempt() == 1 {
            self.order.lock().await.push(number);
        }
        self.now.fetch_sub(1, Ordering::SeqCst);
        if number % 10 == 3 && job.attempt() == 1 {
            return Err(Failure::retry_after(Duration::ZERO, "once"));
        }
        Ok(Done::new())
    }
}

/// Invariant 31, with four workers and with attempts that fail in between.
#[tokio::test(flavor = "multi_thread")]
async fn jobs_with_one_ordering_key_run_one_at_a_time_in_order() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    queue.define(&Definition::new("one_by_one")).await.unwrap();
    for number in 0..50_u64 {
        queue.enqueue(&NewJob::new("one_by_one").payload(&number).ordering_key("account 7")).await.unwrap();
    }
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let order = Arc::new(Mutex::new(Vec::new()));
    let handler = || OneByOne { now: now.clone(), most: most.clone(), order: order.clone() };
    let mut workers = Vec::new();
    for _ in 0..4 {
        workers.push(worker(&queue).handler(handler()).concurrency(5).start().await.unwrap());
    }
    let done = "select count(*) from windlass.jobs where status = 'succeeded'";
    eventually("all ran", async || count(&client, done).await == 50).await;
    assert_eq!(*order.lock().await, (0..50).collect::<Vec<_>>());
    assert_eq!(most.load(Ordering::SeqCst), 1);
    let overlaps = "select count(*) from windlass.history a join windlass.history b on a.job_id < b.job_id
        where a.started_at < b.finished_at and b.started_at < a.finished_at
          and least(a.finished_at, b.finished_at) - greatest(a.started_at, b.started_at) > interval '2 ms'";
    assert_eq!(count(&client, overlaps).await, 0, "two of one key were running at once");
    for worker in workers {
        worker.stop().await.unwrap();
    }
    assert_counts_are_exact(&client).await;
}

/// Creates a chain of one ordering key of which the first job is running.
async fn chain(hand: &Hand, length: usize, policy: &str) -> (Vec<Uuid>, windlass::job::Fence) {
    let mut ids = vec![hand.enqueue("'held', ordering_key => 'k'").await];
    let fence = hand.claim_one().await;
    for _ in 1..length {
        ids.push(hand.enqueue(&format!("'held', ordering_key => 'k', if_unmet => {policy}")).await);
    }
    (ids, fence)
}

async fn statuses(hand: &Hand, ids: &[Uuid]) -> Vec<String> {
    let mut all = Vec::new();
    for id in ids {
        all.push(status(&hand.client, *id).await);
    }
    all
}

/// Invariant 31: however the links in the middle end, the next one does not start beside the first.
#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_middle_job_does_not_let_the_next_overlap_the_first() {
    let (queue, hand) = start().await;
    for way in ["cancel one", "cancel both", "purge one", "purge both", "purge both at once", "expire both"] {
        // An expired one has failed, which blocks its key unless the policy is run.
        let policy = if way == "expire both" { "'run'" } else { "null" };
        let (ids, fence) = chain(&hand, 4, policy).await;
        match way {
            "cancel one" => assert_eq!(hand.cancel(ids[1]).await, "canceled"),
            "cancel both" => {
                assert_eq!(hand.cancel(ids[2]).await, "canceled");
                assert_eq!(hand.cancel(ids[1]).await, "canceled");
            }
            "purge one" => assert_eq!(queue.purge(DEFAULT_TENANT, &ids[1..2]).await.unwrap(), 1),
            "purge both" => {
                assert_eq!(queue.purge(DEFAULT_TENANT, &ids[1..2]).await.unwrap(), 1);
                assert_eq!(queue.purge(DEFAULT_TENANT, &ids[2..3]).await.unwrap(), 1);
            }
            "purge both at once" => assert_eq!(queue.purge(DEFAULT_TENANT, &ids[1..3]).await.unwrap(), 2),
            _ => {
                let expiry =
                    "insert into windlass.expiry select tenant_id, job_id, now() - interval '1 s', false
                    from windlass.blocked where job_id = any ($1)";
                hand.client.execute(expiry, &[&&ids[1..3]]).await.unwrap();
                assert_eq!(keeper(&queue).run_once(Duty::Expire).await.unwrap().moved, 2);
            }
        }
        assert_eq!(status(&hand.client, ids[3]).await, "blocked", "{way}");
        assert!(hand.claim_all().await.is_empty(), "{way}: another started beside the first");
        assert!(hand.settle(&fence, None).await);
        let next = if way.ends_with("one") { ids[2] } else { ids[3] };
        let fence = hand.claim_one().await;
        assert_eq!(fence.job, next, "{way}");
        assert!(hand.settle(&fence, None).await);
        for fence in hand.claim_all().await {
            assert!(hand.settle(&fence, None).await);
        }
    }
    assert_counts_are_exact(&hand.client).await;
}

/// Invariant 31: a dead letter blocks its key until it is retried or dismissed.
#[tokio::test(flavor = "multi_thread")]
async fn a_dead_letter_blocks_its_key_until_it_is_retried() {
    let (queue, hand) = start().await;
    let (ids, fence) = chain(&hand, 3, "'wait'").await;
    assert!(hand.settle(&fence, Some(ending::dead_letter())).await);
    assert_eq!(statuses(&hand, &ids).await, ["dead_letter", "blocked", "blocked"]);
    let new = queue.enqueue(&NewJob::new("held").ordering_key("k")).await.unwrap();
    assert_eq!(new.state, Some(State::Blocked));
    assert_eq!(hand.retry(ids[0]).await, "queued");
    for id in ids.iter().chain([&new.id]) {
        let fence = hand.claim_one().await;
        assert_eq!(fence.job, *id);
        assert!(hand.settle(&fence, None).await);
    }
    assert_counts_are_exact(&hand.client).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_letter_is_skipped_if_the_policy_is_run() {
    let (queue, hand) = start().await;
    let (ids, fence) = chain(&hand, 3, "'run'").await;
    assert!(hand.settle(&fence, Some(ending::dead_letter())).await);
    assert_eq!(statuses(&hand, &ids).await, ["dead_letter", "queued", "blocked"]);
    let second = hand.claim_one().await;

    // The retried one must not start beside those that passed it: it is queued at the end.
    let waits = NewJob::new("held").depends_on(ids[0]).if_unmet(IfUnmet::Wait);
    let waits = queue.enqueue(&waits).await.unwrap().id;
    assert_eq!(queue.retry(DEFAULT_TENANT, ids[0], "ada").await.unwrap(), State::Blocked);
    assert!(hand.claim_all().await.is_empty());
    assert!(hand.settle(&second, None).await);
    for id in [ids[2], ids[0], waits] {
        let fence = hand.claim_one().await;
        assert_eq!(fence.job, id);
        assert!(hand.settle(&fence, None).await);
    }
    assert_counts_are_exact(&hand.client).await;
}

/// The row with the sequence of a key is deleted with the last of its jobs, and the key starts again.
#[tokio::test(flavor = "multi_thread")]
async fn a_key_leaves_no_rows_once_its_jobs_are_purged() {
    let (queue, hand) = start().await;
    let keys = async || count(&hand.client, "select count(*) from windlass.ordering").await;
    let (ids, fence) = chain(&hand, 2, "'wait'").await;
    queue.purge(DEFAULT_TENANT, &ids[1..]).await.unwrap();
    assert_eq!(keys().await, 1, "the first still runs, and the next must wait for it");
    let next = queue.enqueue(&NewJob::new("held").ordering_key("k")).await.unwrap();
    assert_eq!(next.state, Some(State::Blocked));
    assert!(hand.settle(&fence, None).await);
    let last = hand.claim_one().await;
    assert!(hand.settle(&last, Some(ending::dead_letter())).await);
    queue.purge(DEFAULT_TENANT, &ids[..1]).await.unwrap();
    assert_eq!(keys().await, 1, "the last job of the key still exists");
    queue.purge(DEFAULT_TENANT, &[next.id]).await.unwrap();
    assert_eq!(keys().await, 0);

    // A retry of a remaining one uses the key again: later jobs wait.
    let (ids, fence) = chain(&hand, 2, "'run'").await;
    assert!(hand.settle(&fence, Some(ending::dead_letter())).await);
    let second = hand.claim_one().await;
    assert!(hand.settle(&second, None).await);
    queue.purge(DEFAULT_TENANT, &ids[1..]).await.unwrap();
    assert_eq!((keys().await, hand.retry(ids[0]).await.as_str()), (0, "queued"));
    assert_eq!(keys().await, 1);
    let after = queue.enqueue(&NewJob::new("held").ordering_key("k")).await.unwrap();
    assert_eq!(after.state, Some(State::Blocked));
    assert_counts_are_exact(&hand.client).await;
}
