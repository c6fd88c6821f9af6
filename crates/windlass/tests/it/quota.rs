//! Invariant 27: a tenant never has more jobs that have not ended than it may, however many add at once.

use std::time::Duration;

use tokio::task::JoinSet;
use uuid::Uuid;
use windlass::{Actor, Definition, Error, NewJob, Reach};
use windlass_testing::TestQueue;

async fn limited(queue: &TestQueue, most: i64) -> Uuid {
    queue.define(&Definition::new("a")).await.unwrap();
    let tenant = queue.tenant("limited").await;
    let statement = "update windlass.tenants set max_queued = $2 where id = $1";
    queue.client().await.execute(statement, &[&tenant, &most]).await.unwrap();
    tenant
}

async fn unended(queue: &TestQueue, tenant: Uuid) -> i64 {
    let counts = queue.counts(Some(tenant)).await.unwrap();
    counts.iter().map(|count| count.queued + count.scheduled + count.blocked + count.running).sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_quota_is_exact_while_many_enqueue_at_once() {
    let queue = TestQueue::create().await;
    let tenant = limited(&queue, 50).await;
    let mut tasks = JoinSet::new();
    for task in 0..8_u64 {
        let queue = queue.queue().clone();
        tasks.spawn(async move {
            let mut accepted = 0;
            for number in 0..12_u64 {
                let job = NewJob::new("a").tenant(tenant);
                let answer = match (task + number) % 3 {
                    0 => queue.enqueue(&job.delay(Duration::from_secs(3600))).await.map(|_| 1),
                    1 => queue.enqueue_many(&[job.clone(), job]).await.map(|both| both.len()),
                    _ => queue.enqueue(&job).await.map(|_| 1),
                };
                match answer {
                    Ok(added) => accepted += added,
                    Err(Error::QuotaReached { .. }) => {}
                    Err(error) => panic!("{error}"),
                }
            }
            accepted
        });
    }
    let accepted: usize = tasks.join_all().await.into_iter().sum();
    assert!((49..=50).contains(&accepted), "{accepted}: a pair may not fit where one would");
    assert_eq!(unended(&queue, tenant).await, i64::try_from(accepted).unwrap());
    // Another tenant is not held to it.
    queue.enqueue(&NewJob::new("a")).await.unwrap();
}

#[tokio::test]
async fn a_place_that_comes_free_can_be_taken_and_a_retry_needs_one() {
    let queue = TestQueue::create().await;
    let tenant = limited(&queue, 2).await;
    let new = || NewJob::new("a").tenant(tenant);
    let first = queue.enqueue(&new().dedupe_key("d")).await.unwrap();
    queue.enqueue(&new()).await.unwrap();
    assert!(matches!(queue.enqueue(&new()).await, Err(Error::QuotaReached { .. })));
    let again = queue.enqueue(&new().dedupe_key("d")).await.unwrap();
    assert!(again.is_duplicate && again.id == first.id, "a duplicate adds nothing");
    queue.cancel(tenant, first.id).await.unwrap();
    queue.enqueue(&new()).await.unwrap();
    assert!(matches!(queue.retry(tenant, first.id, "me").await, Err(Error::QuotaReached { .. })));
    assert_eq!(unended(&queue, tenant).await, 2);
    // One that is refused does not keep the others of its batch out.
    let actor = Actor { name: "me".to_owned(), ..Actor::default() };
    let statement = "update windlass.tenants set max_queued = 3 where id = $1";
    queue.client().await.execute(statement, &[&tenant]).await.unwrap();
    let acting = queue.act(Reach::Tenant(tenant), &actor).await.unwrap();
    let placed = acting.enqueue_each(&[new(), new()]).await.unwrap();
    assert!(placed[0].is_ok() && matches!(placed[1], Err(Error::QuotaReached { .. })), "{placed:?}");
}
