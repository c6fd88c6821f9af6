//! What an operator can do to the list of tenants: the default tenant stays, and no tenant changes the list for itself.

use uuid::Uuid;
use windlass::admin::INSTALLATION;
use windlass::keeper::Duty;
use windlass::{DEFAULT_TENANT, Definition, NewJob};
use windlass_testing::{Login, TestQueue};

use super::{refusal, set_tenant};
use crate::support::{count, keeper};

/// A-381: an application with one tenant never names it, so everything that it has is in the default tenant.
#[tokio::test]
async fn no_call_of_an_operator_deletes_the_default_tenant() {
    let queue = TestQueue::create().await;
    queue.define(&Definition::new("a")).await.unwrap();
    let job = queue.enqueue(&NewJob::new("a")).await.unwrap().id;
    let other = queue.tenant("other").await;
    let admin = queue.client().await;
    let role = Login::create(&queue, "windlass_operator").await;
    let operator = role.client().await;
    let deleting = r#"{"status": "deleting"}"#;
    for (call, code) in [
        (format!("change_tenant('{DEFAULT_TENANT}', '{deleting}')"), "WL007"),
        // Marks a tenant without its checks: a legal hold, and the entry tenant.delete.
        (format!("change_tenant('{other}', '{deleting}')"), "WL007"),
        (format!("mark_tenant_deleting('{DEFAULT_TENANT}')"), "WL003"),
        (format!("purge_tenant('{DEFAULT_TENANT}', 10)"), "WL003"),
    ] {
        assert_eq!(refusal(operator.query(&format!("select windlass.{call}"), &[]).await), code, "{call}");
    }
    assert_eq!(count(&admin, "select count(*) from windlass.tenants where status <> 'active'").await, 0);

    // An earlier build accepted the first call. The keeper deletes nothing, and the tenant can be made active again.
    admin
        .execute("update windlass.tenants set status = 'deleting' where id = $1", &[&DEFAULT_TENANT])
        .await
        .unwrap();
    for _ in 0..3 {
        keeper(&queue).run_once(Duty::PurgeTenants).await.unwrap();
    }
    assert!(queue.job(DEFAULT_TENANT, job).await.unwrap().is_some());
    let activate = format!(
        "select windlass.change_tenant('{DEFAULT_TENANT}', '{{\"status\": \"active\"}}') ->> 'status'"
    );
    assert_eq!(operator.query_one(&activate, &[]).await.unwrap().get::<_, String>(0), "active");
    queue.enqueue(&NewJob::new("a")).await.unwrap();
    drop(operator);
    role.drop().await;
}

/// A-382: the entry would be in the trail of that tenant, and not in that of the installation.
#[tokio::test]
async fn the_list_of_tenants_is_not_changed_while_a_current_tenant_is_set() {
    let queue = TestQueue::create().await;
    let admin = queue.client().await;
    let own = queue.tenant("own").await;
    let entries = count(&admin, "select count(*) from windlass.audit").await;
    for group in ["windlass_operator", "windlass_admin"] {
        let role = Login::create(&queue, group).await;
        let client = role.client().await;
        set_tenant(&client, Some(own)).await;
        for call in [
            r#"create_tenant('{"slug": "new", "name": "New"}')"#.to_owned(),
            "ensure_tenant('own', 'Changed', 7)".to_owned(),
            format!(r#"change_tenant('{own}', '{{"max_queued": 7}}')"#),
            format!("mark_tenant_deleting('{own}')"),
        ] {
            let answer = client.query(&format!("select windlass.{call}"), &[]).await;
            assert_eq!(refusal(answer), "WL003", "{group}: {call}");
        }
        drop(client);
        role.drop().await;
    }
    assert_eq!(count(&admin, "select count(*) from windlass.audit").await, entries);
    let changed = "select count(*) from windlass.tenants where slug = 'new' or status <> 'active' or max_queued is not null";
    assert_eq!(count(&admin, changed).await, 0);

    // An application that serves one tenant at a time can delete it.
    let role = Login::create(&queue, "windlass_operator").await;
    let client = role.client().await;
    set_tenant(&client, Some(own)).await;
    client.query("select windlass.purge_tenant($1, 10)", &[&own]).await.unwrap();
    let trail = "select tenant_id from windlass.audit where action = 'tenant.delete'";
    assert_eq!(admin.query_one(trail, &[]).await.unwrap().get::<_, Uuid>(0), INSTALLATION);
    drop(client);
    role.drop().await;
}
