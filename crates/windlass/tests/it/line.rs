//! Jobs that share a row of the line: each is claimed, canceled, deleted and listed separately.

use std::collections::BTreeSet;

use tokio::task::JoinSet;
use tokio_postgres::Client;
use uuid::Uuid;
use windlass::job::{Fence, Filter, State};
use windlass::{DEFAULT_TENANT, Definition, NewJob};
use windlass_testing::TestQueue;

use crate::support::{Hand, assert_counts_are_exact, count, ending, register};

const ROWS: &str = "select count(*) from windlass.line";

async fn queue_with(jobs: usize) -> (TestQueue, Hand, Vec<Uuid>) {
    let queue = TestQueue::create().await;
    queue.define(&Definition::new("held")).await.unwrap();
    let new: Vec<NewJob> = (0..jobs).map(|_| NewJob::new("held")).collect();
    let ids = queue.enqueue_many(&new).await.unwrap().iter().map(|job| job.id).collect();
    let hand = Hand::new(queue.client().await).await;
    (queue, hand, ids)
}

/// Claims this many from the only lane that has work.
async fn claim(client: &Client, worker: i32, most: i32) -> Vec<Uuid> {
    let claim = "select job_id from (select distinct lane from windlass.line) l,
                   windlass.claim($1, gen_random_uuid(), array[l.lane], array[0::bigint], array[$2::integer])";
    client.query(claim, &[&worker, &most]).await.unwrap().iter().map(|row| row.get(0)).collect()
}

/// The invariants of every snapshot, and exact counters.
async fn assert_sound(client: &Client) {
    let wrong = client.query(include_str!("model/sound.sql"), &[]).await.unwrap();
    let wrong: Vec<String> = wrong.iter().map(|row| row.get(0)).collect();
    assert_eq!(wrong, Vec::<String>::new());
    assert_counts_are_exact(client).await;
}

#[tokio::test]
async fn jobs_of_one_batch_share_rows_and_are_claimed_in_order() {
    let (_queue, hand, ids) = queue_with(150).await;
    assert_eq!(count(&hand.client, ROWS).await, 3, "64, 64 and 22");
    let mut taken = Vec::new();
    for most in [1, 10, 53, 70] {
        taken.extend(claim(&hand.client, hand.worker, most).await);
        assert_sound(&hand.client).await;
    }
    assert_eq!(taken, ids[..134]);
    assert_eq!(count(&hand.client, ROWS).await, 1);
    assert_eq!(claim(&hand.client, hand.worker, 1000).await, ids[134..]);
    assert_eq!(count(&hand.client, ROWS).await, 0);
    assert_sound(&hand.client).await;
}

#[tokio::test]
async fn a_claim_takes_jobs_from_rows_of_every_size() {
    let (queue, hand, mut ids) = queue_with(70).await;
    for _ in 0..30 {
        ids.push(queue.enqueue(&NewJob::new("held")).await.unwrap().id);
    }
    let new: Vec<NewJob> = (0..100).map(|_| NewJob::new("held")).collect();
    ids.extend(queue.enqueue_many(&new).await.unwrap().iter().map(|job| job.id));
    assert_eq!(claim(&hand.client, hand.worker, 150).await, ids[..150]);
    assert_eq!(claim(&hand.client, hand.worker, 150).await, ids[150..]);
    assert_sound(&hand.client).await;
}

#[tokio::test]
async fn one_job_leaves_its_row_and_the_others_stay() {
    let (queue, hand, ids) = queue_with(100).await;
    assert_eq!(hand.cancel(ids[3]).await, "canceled");
    assert_eq!(queue.purge(DEFAULT_TENANT, &[ids[5], ids[70]]).await.unwrap(), 2);
    assert_eq!(claim(&hand.client, hand.worker, 2).await, ids[..2]);
    assert_eq!(hand.cancel(ids[2]).await, "canceled", "the first remaining job of a row");
    assert_eq!(hand.cancel(ids[0]).await, "requested", "a job that was removed from the row runs");
    assert_sound(&hand.client).await;
    let state = async |id: Uuid| queue.job(DEFAULT_TENANT, id).await.unwrap().map(|job| job.status);
    assert_eq!((state(ids[1]).await, state(ids[4]).await), (Some(State::Running), Some(State::Queued)));
    assert_eq!((state(ids[3]).await, state(ids[5]).await), (Some(State::Canceled), None));
    let removed = BTreeSet::from([0, 1, 2, 3, 5, 70]);
    let left: Vec<Uuid> = (0..100).filter(|n| !removed.contains(n)).map(|n| ids[n]).collect();
    assert_eq!(claim(&hand.client, hand.worker, 1000).await, left);
    assert_sound(&hand.client).await;
}

#[tokio::test]
async fn a_released_job_is_queued_in_its_own_row_at_the_end() {
    let (_queue, hand, ids) = queue_with(5).await;
    let token = Uuid::new_v4();
    let claim_two = "select job_id, attempt from (select distinct lane from windlass.line) l,
                       windlass.claim($1, $2, array[l.lane], array[0::bigint], array[2])";
    hand.client.query(claim_two, &[&hand.worker, &token]).await.unwrap();
    let fence = Fence { tenant: DEFAULT_TENANT, job: ids[0], attempt: 1, token };
    assert!(hand.settle(&fence, Some(ending::release())).await);
    assert_sound(&hand.client).await;
    assert_eq!(hand.cancel(ids[0]).await, "canceled", "found by its own id");
    assert_eq!(claim(&hand.client, hand.worker, 1000).await, ids[2..]);
    assert_sound(&hand.client).await;
}

#[tokio::test]
async fn a_mixed_batch_keeps_the_order_of_each_lane() {
    let queue = TestQueue::create().await;
    queue.define(&Definition::new("held")).await.unwrap();
    let new: Vec<NewJob> = (0..200)
        .map(|n| {
            let job = NewJob::new("held").priority(if n % 2 == 0 { 5 } else { 6 });
            if n % 14 == 0 { job.max_attempts(9) } else { job }
        })
        .collect();
    let ids: Vec<Uuid> = queue.enqueue_many(&new).await.unwrap().iter().map(|job| job.id).collect();
    let hand = Hand::new(queue.client().await).await;
    assert_sound(&hand.client).await;
    let in_line = "select array_agg(s.job_id order by s.position) from windlass.queued s join windlass.lane n on n.id = s.lane
                    where n.priority = $1";
    for (priority, odd) in [(5_i16, 0), (6, 1)] {
        let stands: Vec<Uuid> = hand.client.query_one(in_line, &[&priority]).await.unwrap().get(0);
        let expected: Vec<Uuid> = ids.iter().skip(odd).step_by(2).copied().collect();
        assert_eq!(stands, expected);
    }
}

/// In any order of access to the row, each job is either claimed once or canceled once, and none is left out.
#[tokio::test(flavor = "multi_thread")]
async fn concurrent_claims_and_cancels_of_one_row_lose_no_job() {
    let (queue, hand, ids) = queue_with(256).await;
    let mut taking = JoinSet::new();
    for most in [1, 3, 7, 20] {
        let client = queue.client().await;
        taking.spawn(async move {
            let worker = register(&client).await;
            let mut taken = Vec::new();
            while count(&client, ROWS).await > 0 {
                taken.extend(claim(&client, worker, most).await);
            }
            taken
        });
    }
    let mut canceled = BTreeSet::new();
    for id in ids.iter().rev().step_by(3) {
        if hand.cancel(*id).await == "canceled" {
            canceled.insert(*id);
        }
    }
    let taken: Vec<Uuid> = taking.join_all().await.concat();
    let once: BTreeSet<Uuid> = taken.iter().copied().collect();
    assert_eq!(once.len(), taken.len(), "a job was claimed twice");
    assert!(once.is_disjoint(&canceled));
    assert_eq!(once.len() + canceled.len(), ids.len());
    assert_sound(&hand.client).await;
}

#[tokio::test]
async fn pages_of_queued_jobs_continue_though_jobs_leave() {
    let (queue, hand, ids) = queue_with(200).await;
    let filter = Filter::new(DEFAULT_TENANT).state(State::Queued).limit(30);
    let first = queue.list(&filter).await.unwrap();
    let mut seen: Vec<Uuid> = first.jobs.iter().map(|job| job.id).collect();
    // From the front, from the middle, and the last listed one.
    claim(&hand.client, hand.worker, 10).await;
    hand.cancel(ids[100]).await;
    hand.cancel(ids[170]).await;
    let mut next = first.next;
    while let Some(cursor) = next {
        let page = queue.list(&filter.clone().older_than(cursor)).await.unwrap();
        seen.extend(page.jobs.iter().map(|job| job.id));
        next = page.next;
    }
    let expected: Vec<Uuid> = (10..200).rev().filter(|n| *n != 100).map(|n| ids[n]).collect();
    assert_eq!(seen, expected);
    let canceled = queue.cancel_matching(&Filter::new(DEFAULT_TENANT).state(State::Queued)).await.unwrap();
    assert_eq!(canceled, 188);
    assert_sound(&hand.client).await;
}
