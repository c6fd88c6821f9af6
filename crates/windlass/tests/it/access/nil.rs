//! The nil id stands for the installation. It is no tenant, and setting it shows nothing.

use uuid::Uuid;
use windlass_testing::{Login, TestQueue};

use super::{refusal, relations, set_tenant};

/// Rows with the nil tenant are sums over all tenants, or belong to the installation.
#[tokio::test]
async fn the_nil_tenant_shows_no_row_of_the_installation() {
    let queue = TestQueue::create().await;
    let admin = queue.client().await;
    let nil = Uuid::nil();
    let rows = format!(
        "insert into windlass.activity (tenant_id, queue, at, succeeded, failed, queued, running) values ('{nil}', 'q', now(), 1, 1, 1, 1);
         insert into windlass.retention (tenant_id, definition_key, status) values ('{nil}', '*', 'failed');
         insert into windlass.audit (tenant_id, actor, action, target) values ('{nil}', 'a', 'a', 'a');
         insert into windlass.event (tenant_id, id, name, payload, emitted_at) values ('{nil}', gen_random_uuid(), 'e', '{{}}', now());
         insert into windlass.legal_hold (tenant_id, reason, created_by) values ('{nil}', 'r', 'b')"
    );
    admin.batch_execute(&rows).await.unwrap();
    for group in ["windlass_app", "windlass_reader", "windlass_server"] {
        let role = Login::create(&queue, group).await;
        let client = role.client().await;
        set_tenant(&client, Some(nil)).await;
        let mut readable = 0;
        for (relation, _) in relations(&admin).await {
            let answer = client.query_one(&format!("select count(*) from windlass.{relation}"), &[]).await;
            match answer {
                Ok(row) => assert_eq!(row.get::<_, i64>(0), 0, "{group} reads {relation}"),
                answer => {
                    assert_eq!(refusal(answer), "42501", "{group} on {relation}");
                    continue;
                }
            }
            readable += 1;
        }
        assert!(readable >= 12, "{group} may read only {readable} relations");
        role.drop().await;
    }
}
