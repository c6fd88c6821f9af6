//! Deleting a tenant step by step with SQL.

use windlass::keeper::Duty;
use windlass::{Definition, Error, NewJob};
use windlass_testing::{TestQueue, eventually};

use crate::support::{assert_counts_are_exact, everything_unaudited, keeper};

/// with 0, no job was deleted, which was taken for none being left.
#[tokio::test(flavor = "multi_thread")]
async fn a_step_of_a_deletion_that_deletes_nothing_is_refused() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    let tenant = queue.tenant("leaving").await;
    for most in ["0", "-1", "null"] {
        for step in [
            format!("select windlass.purge_tenant('{tenant}', {most})"),
            format!("select windlass.purge_subject('{tenant}', 'a', 'b', {most})"),
        ] {
            let error = client.query(&step, &[]).await.unwrap_err();
            let refused = error.as_db_error().unwrap();
            assert_eq!((refused.code().code(), refused.column()), ("WL007", Some("most")), "{step}");
        }
    }
}

/// Others do not see that the tenant is being deleted before the commit, so a keeper deletes what they add until then.
#[tokio::test(flavor = "multi_thread")]
async fn deleting_a_tenant_in_one_transaction_leaves_no_job_of_a_concurrent_one() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    queue.define(&Definition::new("held")).await.unwrap();
    let tenant = queue.tenant("leaving").await;
    let new = NewJob::new("held").tenant(tenant);
    queue.enqueue_many(&vec![new.clone(); 25]).await.unwrap();
    let mut before = queue.client().await;
    let before = before.transaction().await.unwrap();
    windlass::enqueue_in(&before, &new).await.unwrap();

    let mut deleting = queue.client().await;
    let deleting = deleting.transaction().await.unwrap();
    let all = format!(
        "do $$ begin while not (select done from windlass.purge_tenant('{tenant}', 10)) loop end loop; end $$"
    );
    deleting.batch_execute(&all).await.unwrap();
    let mut beside = queue.client().await;
    let beside = beside.transaction().await.unwrap();
    windlass::enqueue_in(&beside, &new).await.unwrap();
    deleting.commit().await.unwrap();
    assert!(matches!(queue.enqueue(&new).await, Err(Error::TenantRefused { .. })));

    keeper(&queue).run_once(Duty::PurgeTenants).await.unwrap();
    before.commit().await.unwrap();
    keeper(&queue).run_once(Duty::PurgeTenants).await.unwrap();
    beside.commit().await.unwrap();
    eventually("the tenant is deleted", async || {
        keeper(&queue).run_once(Duty::PurgeTenants).await.unwrap();
        !everything_unaudited(&client).await.contains(&tenant.to_string())
    })
    .await;
    assert_counts_are_exact(&client).await;
}
