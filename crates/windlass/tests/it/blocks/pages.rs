//! Lists of running jobs, page by page.

use std::collections::BTreeSet;

use serde_json::json;
use uuid::Uuid;
use windlass::job::{Filter, State};
use windlass::{DEFAULT_TENANT, NewJob};
use windlass_testing::TestQueue;

use super::queued;
use crate::support::Hand;

/// Claims up to this many jobs of every lane.
pub(crate) async fn claim(hand: &Hand, most: i32) {
    let claim = "select count(*) from
        (select array_agg(id) as lanes, array_agg(0::bigint) as seqs, array_agg($2::integer) as counts from windlass.lane) l,
        windlass.claim($1, gen_random_uuid(), l.lanes, l.seqs, l.counts)";
    hand.client.execute(claim, &[&hand.worker, &most]).await.unwrap();
}

/// The ids of all pages of this many jobs.
pub(crate) async fn listed(queue: &TestQueue, filter: Filter, page: u16) -> Vec<Uuid> {
    let mut filter = filter.limit(page);
    let mut seen = Vec::new();
    loop {
        let page = queue.list(&filter).await.unwrap();
        seen.extend(page.jobs.iter().map(|job| job.id));
        match page.next {
            Some(next) => filter = filter.older_than(next),
            None => return seen,
        }
    }
}

/// Two lanes, of which one has a row that was claimed in part, and rows of single jobs on both sides of those of the
/// other. All of them are running then.
pub(crate) async fn interleaved(queue: &TestQueue, hand: &Hand) -> Vec<Uuid> {
    hand.define(json!({"key": "other"})).await;
    let batch = queue.enqueue_many(&vec![NewJob::new("held"); 64]).await.unwrap();
    let mut jobs: Vec<Uuid> = batch.iter().map(|job| job.id).collect();
    claim(hand, 60).await;
    for key in ["other", "held", "held", "other", "held", "held", "held", "other"] {
        jobs.push(queue.enqueue(&NewJob::new(key)).await.unwrap().id);
    }
    claim(hand, 1000).await;
    jobs
}

#[tokio::test]
async fn pages_of_running_jobs_follow_each_other_without_gap_or_repeat() {
    let (queue, hand) = queued(0).await;
    let jobs = interleaved(&queue, &hand).await;
    let worker = "select worker_id from windlass.job_workers where id = $1";
    let worker: String = hand.client.query_one(worker, &[&hand.worker]).await.unwrap().get(0);
    let running = Filter::new(DEFAULT_TENANT).state(State::Running);
    for filter in [running, Filter::new(DEFAULT_TENANT).held_by(worker)] {
        for page in [1, 7, 100] {
            let seen = listed(&queue, filter.clone(), page).await;
            assert_eq!(seen.len(), jobs.len(), "{filter:?}: pages of {page}");
            assert_eq!(BTreeSet::from_iter(seen), jobs.iter().copied().collect::<BTreeSet<_>>());
        }
    }
}

/// The next page continues after the last shown job, also if that one and others of its block have ended meanwhile.
#[tokio::test]
async fn an_end_between_two_pages_moves_no_other_job() {
    let (queue, hand) = queued(20).await;
    let jobs = super::Block::claim(&hand).await;
    let filter = Filter::new(DEFAULT_TENANT).state(State::Running).limit(5);
    let first = queue.list(&filter).await.unwrap();
    let shown: Vec<Uuid> = first.jobs.iter().map(|job| job.id).collect();
    assert_eq!(shown, jobs.jobs.iter().rev().take(5).copied().collect::<Vec<_>>(), "the last ones first");
    jobs.succeed(&hand.client, &[15, 14, 2, 19]).await.unwrap();
    let rest = listed(&queue, filter.older_than(first.next.unwrap()), 5).await;
    let left = (0..15).rev().filter(|position| ![14, 2].contains(position));
    assert_eq!(rest, left.map(|position| jobs.jobs[position]).collect::<Vec<_>>());
}
