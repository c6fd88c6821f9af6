//! Pages of large jobs.

use serde_json::json;
use uuid::Uuid;
use windlass::job::{Filter, State};
use windlass::{DEFAULT_TENANT, Definition, NewJob};
use windlass_testing::TestQueue;

/// Newest first, and queued jobs in their order: both continue after the last job of the page before.
#[tokio::test]
async fn a_page_of_large_jobs_ends_early_and_the_next_one_continues() {
    let queue = TestQueue::create().await;
    queue.define(&Definition::new("large")).await.unwrap();
    let payload = json!({"text": "x".repeat(100_000)});
    let job = NewJob::new("large").payload(&payload);
    let all = queue.enqueue_many(&vec![job; 120]).await.unwrap();
    for filter in [Filter::new(DEFAULT_TENANT), Filter::new(DEFAULT_TENANT).state(State::Queued)] {
        let (mut seen, mut pages) = (Vec::<Uuid>::new(), Vec::new());
        let mut filter = filter.limit(1000);
        loop {
            let page = queue.list(&filter).await.unwrap();
            seen.extend(page.jobs.iter().map(|job| job.id));
            pages.push(page.jobs.len());
            let Some(next) = page.next else { break };
            filter = filter.older_than(next);
        }
        // 42 of them are more than 4 MiB.
        assert_eq!(pages, [42, 42, 36]);
        let mut once = seen.clone();
        once.sort_unstable();
        once.dedup();
        assert_eq!((seen.len(), once.len()), (all.len(), all.len()));
    }
}
