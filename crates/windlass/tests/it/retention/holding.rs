//! Holds that are being placed while something is deleted: the hold wins, and it concerns its own tenant only.

use uuid::Uuid;
use windlass::{Definition, NewJob};
use windlass_testing::{TestQueue, until_somebody_waits};

use crate::support::count;

fn place(tenant: Uuid) -> String {
    format!("select windlass.place_hold('{tenant}', null, null, null, 'case 12', 'counsel')")
}

/// The deletion began before the hold was committed, and has nothing to do with jobs.
#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_is_not_deleted_under_a_hold_that_is_being_placed() {
    let queue = TestQueue::create().await;
    let tenant = queue.tenant("a").await;
    let (counsel, deleter, watcher) = (queue.client().await, queue.client().await, queue.client().await);
    let purge = format!("select done from windlass.purge_tenant('{tenant}', 100)");
    assert!(!deleter.query_one(&purge, &[]).await.unwrap().get::<_, bool>(0), "the first step marks it");
    counsel.batch_execute(&format!("begin; {}", place(tenant))).await.unwrap();
    let deleting = tokio::spawn(async move { deleter.query_one(&purge, &[]).await });
    until_somebody_waits(&watcher).await;
    counsel.batch_execute("commit").await.unwrap();
    let refused = deleting.await.unwrap().unwrap_err();
    assert_eq!(refused.code().map(|code| code.code()), Some("WL020"), "{refused}");
    assert_eq!(count(&watcher, "select count(*) from windlass.tenants where slug = 'a'").await, 1);
}

/// One lock for all tenants would make everybody's deletions wait for a transaction that one of them leaves open.
#[tokio::test(flavor = "multi_thread")]
async fn a_hold_that_is_being_placed_stops_no_deletion_of_another_tenant() {
    let queue = TestQueue::create().await;
    queue.define(&Definition::new("held")).await.unwrap();
    let (a, b) = (queue.tenant("a").await, queue.tenant("b").await);
    let job = queue.enqueue(&NewJob::new("held").tenant(b)).await.unwrap().id;
    let (counsel, deleter) = (queue.client().await, queue.client().await);
    counsel.batch_execute(&format!("begin; {}", place(a))).await.unwrap();
    deleter.batch_execute("set lock_timeout = '5s'").await.unwrap();
    let purge = format!("select windlass.purge('{b}', array['{job}']::uuid[])");
    assert_eq!(deleter.query_one(&purge, &[]).await.unwrap().get::<_, i32>(0), 1);
    counsel.batch_execute("rollback").await.unwrap();
}
