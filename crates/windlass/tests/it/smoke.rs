use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use windlass::{Context, Done, Failure, Handler, NewJob, Worker};
use windlass_testing::{TestQueue, eventually};

struct Count(Arc<AtomicUsize>);

impl Handler for Count {
    const KEY: &'static str = "count";
    type Args = serde_json::Value;

    async fn run(&self, _: &Context, _: Self::Args) -> Result<Done, Failure> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Ok(Done::new())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_run() {
    let queue = TestQueue::create().await;
    let count = Arc::new(AtomicUsize::new(0));
    let worker =
        Worker::builder(&queue).handler(Count(count.clone())).concurrency(1000).start().await.unwrap();
    for _ in 0..10 {
        queue.enqueue(&NewJob::new("count")).await.unwrap();
    }
    let jobs: Vec<_> =
        (0..20000).map(|i| NewJob::new("count").payload(&serde_json::json!({"n": i}))).collect();
    let t = std::time::Instant::now();
    for chunk in jobs.chunks(1000) {
        queue.enqueue_many(chunk).await.unwrap();
    }
    eprintln!("enqueued in {:?}", t.elapsed());
    eventually("all ran", async || count.load(Ordering::Relaxed) >= 20010).await;
    eprintln!("ran in {:?}", t.elapsed());
    worker.stop().await.unwrap();
    let client = queue.client().await;
    for row in client.query("select status, count(*) from windlass.jobs group by 1", &[]).await.unwrap() {
        eprintln!("{} {}", row.get::<_, String>(0), row.get::<_, i64>(1));
    }
    for row in client
        .query("select queued::text, running::text, succeeded::text from windlass.job_counts", &[])
        .await
        .unwrap()
    {
        eprintln!("{} {} {}", row.get::<_, String>(0), row.get::<_, String>(1), row.get::<_, String>(2));
    }
}
