//! The entry point of external callers.

use std::time::{Duration, Instant};

use windlass::admin::{Actor, Reach};
use windlass::{Definition, Error, NewJob, Queue};
use windlass_testing::{TestQueue, settings};

/// A request's whole transaction at once: as the server's role, for its tenant alone, with its audit row, and with a lock timeout.
#[tokio::test]
async fn callers_are_restricted_to_their_role_tenant_and_time() {
    let queue = TestQueue::create().await;
    queue.define(&Definition::new("a")).await.unwrap();
    let (a, b) = (queue.tenant("a").await, queue.tenant("b").await);
    let hurried = settings(queue.url()).statement_timeout(Duration::from_millis(200));
    let hurried = Queue::connect(hurried).await.unwrap();
    let actor = Actor::new("ada");
    let foreign = hurried.enqueue_as(a, &actor, &NewJob::new("a").tenant(b)).await;
    assert!(matches!(foreign, Err(Error::TenantRefused { .. })), "{foreign:?}");
    let client = queue.client().await;
    let rows = "select (select count(*) from windlass.job), (select count(*) from windlass.audit where actor = 'ada')";
    let counted = async || {
        let row = client.query_one(rows, &[]).await.unwrap();
        (row.get::<_, i64>(0), row.get::<_, i64>(1))
    };
    assert_eq!(counted().await, (0, 0));

    let own = NewJob::new("a").tenant(a);
    let placed = hurried.enqueue_as(a, &actor, &own).await.unwrap();
    let job = queue.job(a, placed.enqueued.id).await.unwrap().unwrap();
    assert_eq!(placed.queued_at, Some(job.queued_at));
    assert_eq!(counted().await, (1, 1));

    client.batch_execute("begin; lock table windlass.audit").await.unwrap();
    assert!(hurried.enqueue_as(a, &actor, &own).await.unwrap_err().is_timeout());
    client.batch_execute("rollback").await.unwrap();
    assert_eq!(counted().await, (1, 1), "abandoned completely");

    // This entry point may do no more than the server's role.
    client
        .batch_execute("revoke execute on function windlass.record_audit from windlass_server")
        .await
        .unwrap();
    let refused = hurried.enqueue_as(a, &actor, &own).await;
    assert!(matches!(refused, Err(Error::MissingRole { .. })), "{refused:?}");
    assert_eq!(counted().await, (1, 1));
}

/// the server limits each statement, and an operation on many jobs has thousands of them.
#[tokio::test]
async fn many_short_statements_take_no_longer_together_than_one_may() {
    let queue = TestQueue::create().await;
    queue.define(&Definition::new("a")).await.unwrap();
    let limit = Duration::from_millis(500);
    let hurried = Queue::connect(settings(queue.url()).statement_timeout(limit)).await.unwrap();
    let (job, tenant) = (NewJob::new("a").dedupe_key("k"), windlass::DEFAULT_TENANT);
    let checked = hurried.check_job(&job).await.unwrap();
    let began = Instant::now();
    let acting = hurried.act(Reach::Tenant(tenant), &Actor::new("ada")).await.unwrap();
    while began.elapsed() <= 2 * limit {
        acting.now().await.unwrap();
    }
    let refused = acting.enqueue_each(&[checked]).await.unwrap_err();
    assert!(matches!(refused, Error::TransactionTimeout { .. }) && refused.is_timeout(), "{refused}");
    drop(acting);
    let jobs = "select count(*) from windlass.job";
    assert_eq!(queue.client().await.query_one(jobs, &[]).await.unwrap().get::<_, i64>(0), 0);
}
