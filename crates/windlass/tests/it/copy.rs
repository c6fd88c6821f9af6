//! Large batches.

use windlass::{Definition, NewJob};
use windlass_testing::TestQueue;

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_of_thousands_is_enqueued() {
    let queue = TestQueue::create().await;
    queue.define(&Definition::new("count")).await.unwrap();
    let jobs: Vec<_> = (0..6000)
        .map(|n| {
            let job = NewJob::new("count").payload(&serde_json::json!({"n": n}));
            if n % 1000 == 7 { job.tag("seventh").subject("post", n.to_string()) } else { job }
        })
        .collect();
    for _ in 0..2 {
        let results = queue.enqueue_many(&jobs).await.unwrap();
        assert_eq!(results.len(), 6000);
    }
    let client = queue.client().await;
    let row = client.query_one("select count(*), count(*) filter (where tags = '{seventh}' and subject_type = 'post' and subject_id = payload->>'n') from windlass.jobs where status = 'queued'", &[]).await.unwrap();
    assert_eq!((row.get::<_, i64>(0), row.get::<_, i64>(1)), (12_000, 12));
}
