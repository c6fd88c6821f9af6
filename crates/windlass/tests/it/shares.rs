//! The share that one tenant may use of a worker that others use too.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::Value;
use uuid::Uuid;
use windlass::{Context, Definition, Done, Failure, Handler, NewJob, Worker};
use windlass_testing::{TestQueue, eventually};

use crate::support::{Desk, Held, Run, count, until, worker};

async fn enqueue(queue: &TestQueue, tenant: Uuid, jobs: usize) -> Vec<Uuid> {
    let jobs: Vec<NewJob> = (0..jobs).map(|_| NewJob::new("held").tenant(tenant)).collect();
    queue.enqueue_many(&jobs).await.unwrap().into_iter().map(|job| job.id).collect()
}

async fn start(concurrency: usize) -> (TestQueue, Worker, Desk) {
    let queue = TestQueue::create().await;
    let (held, desk) = Held::new();
    let worker = worker(&queue).handler(held).concurrency(concurrency).start().await.unwrap();
    (queue, worker, desk)
}

async fn take(desk: &mut Desk, runs: usize) -> Vec<Run> {
    let mut taken = Vec::new();
    for _ in 0..runs {
        taken.push(desk.next().await);
    }
    taken
}

/// The other tenant's first job arrives when the long ones have already run for a while.
#[tokio::test(flavor = "multi_thread")]
async fn long_jobs_of_one_tenant_leave_a_slot_to_another() {
    let (queue, worker, mut desk) = start(4).await;
    let client = queue.client().await;
    let (loud, quiet) = (queue.tenant("loud").await, queue.tenant("quiet").await);
    // Both have used the definition before.
    enqueue(&queue, quiet, 1).await;
    desk.next().await.succeed();
    let long = enqueue(&queue, loud, 10).await;
    let mut running = take(&mut desk, 3).await;
    for _ in 0..3 {
        let other = enqueue(&queue, quiet, 1).await[0];
        let run = desk.next().await;
        assert_eq!(run.job, other, "the fourth slot is not given to the loud one");
        run.succeed();
        until(&client, other, "succeeded").await;
    }
    // A freed slot of its own is taken at once.
    for _ in 3..10 {
        running.remove(0).succeed();
        running.push(desk.next().await);
    }
    running.into_iter().for_each(Run::succeed);
    for job in long {
        until(&client, job, "succeeded").await;
    }
    worker.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_with_its_own_worker_uses_all_slots() {
    let (queue, worker, mut desk) = start(4).await;
    let alone = queue.tenant("alone").await;
    queue.tenant("idle").await;
    enqueue(&queue, alone, 4).await;
    take(&mut desk, 4).await.into_iter().for_each(Run::succeed);
    worker.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_with_one_slot_serves_every_tenant() {
    let (queue, worker, mut desk) = start(1).await;
    for tenant in [queue.tenant("one").await, queue.tenant("two").await] {
        enqueue(&queue, tenant, 2).await;
    }
    for _ in 0..4 {
        desk.next().await.succeed();
    }
    worker.stop().await.unwrap();
}

/// Ends with a job that must wait for its tenant's quota.
struct Chaining(Arc<AtomicUsize>);

windlass_testing::payload!(ChainingArgs(Value) = "held");

impl Handler for Chaining {
    type Args = ChainingArgs;

    async fn run(&self, _: &Context, _: ChainingArgs) -> Result<Done, Failure> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Ok(Done::new().then(NewJob::new("next")))
    }
}

/// Each end that waits for an open transaction is kept in memory, with its job.
#[tokio::test(flavor = "multi_thread")]
async fn blocked_settlements_keep_their_slots_when_too_many_wait() {
    const SLOTS: usize = 40;
    const MAX: usize = 1000;
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    queue.define(&Definition::new("next")).await.unwrap();
    let ran = Arc::new(AtomicUsize::new(0));
    let (loud, quiet) = (queue.tenant("loud").await, queue.tenant("quiet").await);
    queue.define(&Definition::new("held")).await.unwrap();
    enqueue(&queue, quiet, 1).await;
    let jobs = enqueue(&queue, loud, MAX + 3 * SLOTS).await.len() as i64;
    let limit = "update windlass.tenants set max_queued = 100000 where slug = 'loud'";
    client.batch_execute(limit).await.unwrap();
    let application = queue.client().await;
    let hold = format!("begin; select from windlass.tenants where id = '{loud}' for update");
    application.batch_execute(&hold).await.unwrap();
    let worker = worker(&queue).handler(Chaining(ran.clone())).concurrency(SLOTS).start().await.unwrap();
    eventually("the bound is reached", async || ran.load(Ordering::Relaxed) >= MAX).await;
    for _ in 0..3 {
        let other = enqueue(&queue, quiet, 1).await[0];
        until(&client, other, "succeeded").await;
    }
    let ran_meanwhile = ran.load(Ordering::Relaxed);
    assert!(ran_meanwhile <= MAX + SLOTS + 4, "{ran_meanwhile} ends are held in memory");
    application.batch_execute("commit").await.unwrap();
    let ended =
        format!("select count(*) from windlass.jobs where status = 'succeeded' and tenant_id = '{loud}'");
    eventually("they end", async || count(&client, &ended).await == jobs).await;
    assert_eq!(count(&client, "select count(*) from windlass.live").await, 0);
    worker.stop().await.unwrap();
}
