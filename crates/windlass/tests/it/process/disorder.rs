//! Concurrent access to the same rows, each in its own order.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rand::seq::{IndexedRandom, SliceRandom};
use tokio::task::JoinSet;
use uuid::Uuid;
use windlass::job::Backoff;
use windlass::keeper::{Duty, Keeper, KeeperSettings};
use windlass::{Context, DEFAULT_TENANT, Definition, Done, Failure, Handler, NewJob, Queue, Worker};
use windlass_testing::TestQueue;

use super::accounting::settle_accounts;
use super::fleet::Fleet;

/// Invariants 5, 8, 13 to 15, 22, 41 and 48, and F-26: settlements, reaps, cancels, purges and batches of keyed jobs use the same
/// jobs, workers and keys concurrently. No caller gets a deadlock.
#[tokio::test(flavor = "multi_thread")]
async fn batches_in_opposite_order_do_not_deadlock() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    let worker = Worker::builder(&queue)
        .handler(Brief)
        .concurrency(100)
        .heartbeat(Duration::from_millis(100))
        .poll_interval(Duration::from_millis(50))
        .start()
        .await
        .unwrap();
    let until = Instant::now() + Duration::from_secs(4);
    let kept = Arc::new(Mutex::new(Vec::new()));
    let mut everybody = JoinSet::new();
    for is_reversed in [false, true] {
        everybody.spawn(enqueue_keyed(queue.queue().clone(), kept.clone(), is_reversed, until));
        everybody.spawn(enqueue_and_purge(queue.queue().clone(), until));
        everybody.spawn(reap(queue.queue().clone(), until));
        everybody.spawn(cancel(queue.queue().clone(), kept.clone(), until));
    }
    let expire = "update windlass.job_workers set lease_expires_at = now() - interval '1 s' where stopped_at is null and random() < 0.02";
    while Instant::now() < until && !everybody.is_empty() {
        client.batch_execute(expire).await.unwrap();
        tokio::task::yield_now().await;
    }
    while let Some(ended) = everybody.join_next().await {
        ended.unwrap();
    }
    let kept = kept.lock().unwrap().clone();
    assert!(kept.len() > 100);
    settle_accounts(&client, &Fleet::new(), &kept, &kept).await;
    worker.stop().await.unwrap();
}

async fn enqueue_keyed(queue: Queue, kept: Arc<Mutex<Vec<Uuid>>>, is_reversed: bool, until: Instant) {
    while Instant::now() < until {
        let mut jobs: Vec<NewJob> =
            (0..40).map(|key| NewJob::new("brief").dedupe_key(format!("key {key:02}"))).collect();
        jobs.extend((0..10).map(|_| NewJob::new("brief")));
        if is_reversed {
            jobs.reverse();
        }
        let results = queue.enqueue_many(&jobs).await.unwrap();
        let new = results.iter().filter(|result| !result.is_duplicate).map(|result| result.id);
        kept.lock().unwrap().extend(new);
    }
}

async fn enqueue_and_purge(queue: Queue, until: Instant) {
    while Instant::now() < until {
        let jobs: Vec<NewJob> = (0..50).map(|_| NewJob::new("brief")).collect();
        let mut ids: Vec<Uuid> =
            queue.enqueue_many(&jobs).await.unwrap().iter().map(|enqueued| enqueued.id).collect();
        ids.shuffle(&mut rand::rng());
        assert_eq!(queue.purge(DEFAULT_TENANT, &ids).await.unwrap(), 50);
    }
}

async fn reap(queue: Queue, until: Instant) {
    let keeper = Keeper::new(queue, KeeperSettings::default());
    while Instant::now() < until {
        for duty in Duty::ALL {
            keeper.run_once(duty).await.unwrap();
        }
    }
}

async fn cancel(queue: Queue, kept: Arc<Mutex<Vec<Uuid>>>, until: Instant) {
    while Instant::now() < until {
        let job = {
            let kept = kept.lock().unwrap();
            kept[kept.len().saturating_sub(100)..].choose(&mut rand::rng()).copied()
        };
        match job {
            Some(job) => drop(queue.cancel(DEFAULT_TENANT, job).await.unwrap()),
            None => tokio::task::yield_now().await,
        }
    }
}

struct Brief;

windlass_testing::payload!(BriefArgs(serde_json::Value) = "brief");

impl Handler for Brief {
    type Args = BriefArgs;

    async fn run(&self, job: &Context, _: BriefArgs) -> Result<Done, Failure> {
        let _ = tokio::time::timeout(Duration::from_millis(rand::random_range(0..5)), job.stopped()).await;
        match rand::random_range(0..4) {
            0 => Err(Failure::retry("by chance")),
            1 if job.attempt() < 5 => Ok(Done::snooze(Duration::from_millis(5))),
            _ => Ok(Done::new()),
        }
    }

    fn definition(&self) -> Definition {
        let backoff = Backoff::fixed(Duration::from_millis(20)).jitter(0.5);
        Definition::of::<BriefArgs>().backoff(backoff).max_attempts(5)
    }
}
