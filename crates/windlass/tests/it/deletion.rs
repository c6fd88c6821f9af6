//! Deleting a tenant step by step with SQL.

use windlass::keeper::Duty;
use windlass::{Definition, Error, NewJob};
use windlass_testing::{Login, TestQueue, eventually};

use crate::access::set_tenant;
use crate::support::{assert_counts_are_exact, count, everything_unaudited, keeper};

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

/// the deletion waited without a limit for a job that an open transaction had locked, and changes of other tenants
/// waited for the deletion.
#[tokio::test(flavor = "multi_thread")]
async fn a_deletion_that_cannot_lock_a_job_gives_up_and_delays_no_other_tenant() {
    let queue = TestQueue::create().await;
    queue.define(&Definition::new("held")).await.unwrap();
    let (tenant, other) = (queue.tenant("leaving").await, queue.tenant("other").await);
    let client = queue.client().await;
    client
        .batch_execute("update windlass.tenants set max_queued = 100 where slug = 'leaving'")
        .await
        .unwrap();
    let job = queue.enqueue(&NewJob::new("held").tenant(tenant)).await.unwrap().id;
    let app = Login::create(&queue, "windlass_app").await;
    let open = app.client().await;
    set_tenant(&open, Some(tenant)).await;
    open.batch_execute(&format!("begin; select windlass.cancel('{tenant}', '{job}')")).await.unwrap();

    let deleting = queue.client().await;
    deleting.batch_execute("set statement_timeout = '20s'; begin").await.unwrap();
    let step = format!("select purged, done from windlass.purge_tenant('{tenant}', 10)");
    let row = deleting.query_one(&step, &[]).await.unwrap();
    assert_eq!((row.get::<_, i32>(0), row.get::<_, bool>(1)), (0, false), "it marks the tenant");
    // Neither changes of other tenants nor the application itself wait for this transaction forever.
    client.batch_execute("set statement_timeout = '20s'").await.unwrap();
    let suspend = format!("select windlass.change_tenant('{other}', '{{\"status\": \"suspended\"}}')");
    client.batch_execute(&suspend).await.unwrap();
    let create = "select windlass.create_tenant('{\"slug\": \"third\", \"name\": \"n\", \"max_queued\": 5}')";
    client.batch_execute(create).await.unwrap();
    let waiting = tokio::spawn(async move {
        let result = open.batch_execute("select windlass.enqueue('held')").await;
        let ended = open.batch_execute("commit").await;
        (result, ended, open)
    });
    let waits = "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()";
    eventually("the application waits for the tenant's row", async || count(&client, waits).await == 1).await;
    let row = deleting.query_one(&step, &[]).await.unwrap();
    assert_eq!((row.get::<_, i32>(0), row.get::<_, bool>(1)), (0, true), "a keeper does the rest");
    deleting.batch_execute("commit").await.unwrap();
    let (result, _, open) = waiting.await.unwrap();
    let refused = Error::from(result.unwrap_err());
    assert!(matches!(refused, Error::TenantRefused { .. }), "{refused}");
    drop(open);
    app.drop().await;
    eventually("the tenant is deleted", async || {
        keeper(&queue).run_once(Duty::PurgeTenants).await.unwrap();
        !everything_unaudited(&client).await.contains(&tenant.to_string())
    })
    .await;
    assert_counts_are_exact(&client).await;
}

/// the mark itself waits for a few seconds at most.
#[tokio::test(flavor = "multi_thread")]
async fn a_deletion_is_refused_while_an_open_transaction_holds_the_tenant() {
    let queue = TestQueue::create().await;
    queue.define(&Definition::new("held")).await.unwrap();
    let tenant = queue.tenant("leaving").await;
    let open = queue.client().await;
    let enqueue = format!(
        "begin isolation level repeatable read; select windlass.enqueue('held', tenant_id => '{tenant}')"
    );
    open.batch_execute(&enqueue).await.unwrap();
    let refused = queue.delete_tenant(tenant, |_| ()).await.unwrap_err();
    assert!(matches!(&refused, Error::Locked { .. }), "{refused}");
    open.batch_execute("commit").await.unwrap();
    assert_eq!(queue.delete_tenant(tenant, |_| ()).await.unwrap(), 1);
}
