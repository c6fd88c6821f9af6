//! Claims that are limited in bytes.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::json;
use uuid::Uuid;
use windlass::pull::Pull;
use windlass::{Definition, NewJob};
use windlass_testing::TestQueue;

use super::{anyone, claim, start};

const JOBS: usize = 12;
/// About a page of bytes and one job.
const MAX_AT_ONCE: usize = 6;

async fn enqueue_large(queue: &TestQueue) -> BTreeSet<Uuid> {
    let payload = json!({"text": "x".repeat(900_000)});
    let mut jobs = BTreeSet::new();
    for _ in 0..JOBS {
        jobs.insert(queue.enqueue(&NewJob::new("pulled").payload(&payload)).await.unwrap().id);
    }
    jobs
}

/// All jobs of claims, one after another.
async fn take_all(pull: &Pull) -> BTreeSet<Uuid> {
    let mut taken = BTreeSet::new();
    while taken.len() < JOBS {
        let claim = claim(&["pulled"]).limit(100).wait(Duration::from_secs(10));
        let jobs = pull.claim(&anyone(), claim).await.unwrap();
        assert!(!jobs.is_empty(), "{} jobs have no holder", JOBS - taken.len());
        assert!(jobs.len() <= MAX_AT_ONCE, "{} large jobs at once", jobs.len());
        for job in jobs {
            assert_eq!(job.failures, 0);
            assert!(taken.insert(job.id), "handed out twice");
        }
    }
    taken
}

/// The kept jobs are released with the rest, and claimed again.
#[tokio::test(flavor = "multi_thread")]
async fn a_claim_whose_rest_cannot_be_released_at_first_loses_no_job() {
    let (queue, pull) = start().await;
    let jobs = enqueue_large(&queue).await;
    let fail_once = "create sequence public.calls; grant usage on sequence public.calls to public;
        alter function windlass.pull_unclaim(integer, uuid[], integer) rename to pull_unclaim_in_truth;
        create function windlass.pull_unclaim(by_worker integer, tokens uuid[], of_epoch integer) returns integer
        language plpgsql security definer as $$
        begin
          if nextval('public.calls') = 1 then
            raise exception 'as the test requested' using errcode = '57P01';
          end if;
          return windlass.pull_unclaim_in_truth(by_worker, tokens, of_epoch);
        end $$";
    queue.client().await.batch_execute(fail_once).await.unwrap();
    assert_eq!(take_all(&pull).await, jobs);
    let client = queue.client().await;
    let calls: i64 = client.query_one("select last_value from public.calls", &[]).await.unwrap().get(0);
    assert!(calls > 1, "it has failed and was called again");
    pull.stop().await;
}

/// With unusual defaults a statement has its own transaction, and the same limit.
#[tokio::test(flavor = "multi_thread")]
async fn a_claim_is_limited_in_bytes_under_any_database_defaults() {
    let queue = TestQueue::create_under(&[("default_transaction_isolation", "'repeatable read'")]).await;
    queue.define(&Definition::new("pulled")).await.unwrap();
    let pull = Pull::start(queue.queue()).await.unwrap();
    let jobs = enqueue_large(&queue).await;
    assert_eq!(take_all(&pull).await, jobs);
    pull.stop().await;
}
