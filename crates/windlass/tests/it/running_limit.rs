//! Invariant 25: of a limited definition, and of a limited tenant, never more jobs run than the limit says, however many
//! workers claim at once; and what comes free is taken.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use uuid::Uuid;
use windlass::admin::Reach;
use windlass::{Context, DEFAULT_TENANT, Definition, Done, Failure, Handler, NewJob, Worker};
use windlass_testing::{TestQueue, eventually};

use crate::support::{Held, assert_counts_are_exact, count, until, worker};

/// Counts how many run at the same time, over all workers that share it.
#[derive(Clone, Default)]
struct Crowd {
    now: Arc<AtomicUsize>,
    most: Arc<AtomicUsize>,
}

windlass_testing::payload!(CrowdArgs(serde_json::Value) = "crowd");

impl Handler for Crowd {
    type Args = CrowdArgs;

    async fn run(&self, _: &Context, _: CrowdArgs) -> Result<Done, Failure> {
        let now = self.now.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(now, Ordering::SeqCst);
        // Long enough for the others to come in, if they were let in.
        for _ in 0..200 {
            tokio::task::yield_now().await;
        }
        self.now.fetch_sub(1, Ordering::SeqCst);
        Ok(Done::new())
    }
}

async fn crowded(queue: &TestQueue, crowd: &Crowd, tenants: &[Uuid]) -> Vec<Worker> {
    let jobs: Vec<NewJob> =
        (0..90).map(|n: usize| NewJob::new("crowd").tenant(tenants[n % tenants.len()])).collect();
    queue.enqueue_many(&jobs).await.unwrap();
    let mut workers = Vec::new();
    for _ in 0..4 {
        workers.push(worker(queue).handler(crowd.clone()).concurrency(10).start().await.unwrap());
    }
    let client = queue.client().await;
    let done = "select count(*) from windlass.jobs where status = 'succeeded'";
    eventually("all have run", async || count(&client, done).await == 90).await;
    workers
}

#[tokio::test(flavor = "multi_thread")]
async fn never_more_of_a_definition_run_than_its_limit_however_many_workers_claim() {
    let queue = TestQueue::create().await;
    queue.define(&Definition::new("crowd").max_running(3)).await.unwrap();
    let tenants = [DEFAULT_TENANT, queue.tenant("a").await, queue.tenant("b").await];
    let crowd = Crowd::default();
    for worker in crowded(&queue, &crowd, &tenants).await {
        worker.stop().await.unwrap();
    }
    assert!(crowd.most.load(Ordering::SeqCst) <= 3, "{} ran at once", crowd.most.load(Ordering::SeqCst));
    assert_counts_are_exact(&queue.client().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn never_more_of_a_tenant_run_than_its_limit() {
    let queue = TestQueue::create().await;
    queue.define(&Definition::new("crowd")).await.unwrap();
    let tenant = queue.tenant("small").await;
    let limit = "update windlass.tenants set max_running = 2 where id = $1";
    queue.client().await.execute(limit, &[&tenant]).await.unwrap();
    let crowd = Crowd::default();
    for worker in crowded(&queue, &crowd, &[tenant]).await {
        worker.stop().await.unwrap();
    }
    assert!(crowd.most.load(Ordering::SeqCst) <= 2, "{} ran at once", crowd.most.load(Ordering::SeqCst));
}

/// It would look by itself once an hour.
#[tokio::test(flavor = "multi_thread")]
async fn a_place_that_comes_free_is_taken_at_once_and_others_are_not_held_back() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    let (held, mut desk) = Held::with(|definition| definition.max_running(1));
    let worker = worker(&queue)
        .handler(held)
        .handler(Crowd::default())
        .poll_interval(Duration::from_secs(3600))
        .start();
    let worker = worker.await.unwrap();
    let [first, second] = [
        queue.enqueue(&NewJob::new("held")).await.unwrap().id,
        queue.enqueue(&NewJob::new("held")).await.unwrap().id,
    ];
    let run = desk.next().await;
    assert_eq!(run.job, first);
    let other = queue.enqueue(&NewJob::new("crowd")).await.unwrap().id;
    until(&client, other, "succeeded").await;
    assert!(desk.is_empty(), "the second waits for the first");
    let looking = queue.look(Reach::Tenant(DEFAULT_TENANT)).await.unwrap();
    let why = looking.why(second).await.unwrap();
    looking.end().await.unwrap();
    assert_eq!(why.reason.code, "limit_reached", "{why:?}");
    run.succeed();
    let run = desk.next().await;
    assert_eq!(run.job, second);
    run.succeed();
    until(&client, second, "succeeded").await;
    worker.stop().await.unwrap();
}
