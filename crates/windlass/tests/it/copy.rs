//! Large batches come in by COPY through a temporary table.

use windlass::{Definition, NewJob};
use windlass_testing::TestQueue;

#[tokio::test(flavor = "multi_thread")]
async fn a_large_batch_comes_in_by_copy() {
    let queue = TestQueue::create().await;
    queue.define(&Definition::new("count")).await.unwrap();
    let jobs: Vec<_> = (0..6000)
        .map(|n| {
            let job = NewJob::new("count").payload(&serde_json::json!({"n": n}));
            if n % 1000 == 7 { job.tag("seventh").subject("post", n.to_string()) } else { job }
        })
        .collect();
    for _ in 0..2 {
        let answers = queue.enqueue_many(&jobs).await.unwrap();
        assert_eq!(answers.len(), 6000);
    }
    let client = queue.client().await;
    let row = client.query_one("select count(*), count(*) filter (where tags = '{seventh}' and subject_type = 'post' and subject_id = payload->>'n') from windlass.jobs where status = 'queued'", &[]).await.unwrap();
    assert_eq!((row.get::<_, i64>(0), row.get::<_, i64>(1)), (12_000, 12));
}

#[tokio::test]
async fn an_inbox_that_could_run_the_callers_code_is_refused() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    let view = "create temp view windlass_inbox as select null::uuid tenant, null::uuid job, 1 lane, 1::smallint max_attempts, \
                '{}'::json payload, null::jsonb extra";
    let policed = "create temp table windlass_inbox (tenant uuid); alter table windlass_inbox enable row level security";
    for inbox in [view, policed] {
        client.batch_execute(inbox).await.unwrap();
        let error = client.query("select windlass.enqueue_copied()", &[]).await.unwrap_err();
        assert_eq!(error.code().map(|code| code.code().to_owned()), Some("WL007".to_owned()));
        client.batch_execute("discard temp").await.unwrap();
    }
}
