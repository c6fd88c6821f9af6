//! Chosen ids of tenants.

use uuid::Uuid;
use windlass_testing::{TestQueue, eventually};

use crate::support::count;

/// The second call waits for the first, and is refused with the field, not with the violated constraint.
#[tokio::test(flavor = "multi_thread")]
async fn two_concurrent_creations_with_one_id_leave_one_tenant() {
    for second in [
        "select windlass.ensure_tenant('second', 'Second', id => $1)",
        "select windlass.create_tenant(jsonb_build_object('slug', 'second', 'name', 'Second', 'id', $1::uuid))",
    ] {
        let queue = TestQueue::create().await;
        let (one, other, watch) = (queue.client().await, queue.client().await, queue.client().await);
        let id = Uuid::new_v4();
        one.batch_execute("begin").await.unwrap();
        one.query_one("select windlass.ensure_tenant('first', 'First', id => $1)", &[&id]).await.unwrap();
        let waits = tokio::spawn(async move { other.query_one(second, &[&id]).await });
        let waiting = "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'";
        eventually("the second waits", async || count(&watch, waiting).await == 1).await;
        one.batch_execute("commit").await.unwrap();
        let refused = waits.await.unwrap().unwrap_err();
        let refused = refused.as_db_error().unwrap();
        assert_eq!((refused.code().code(), refused.column()), ("WL007", Some("id")), "{refused}");
        assert!(refused.message().contains("already in use"), "{refused}");
        assert_eq!(
            count(&watch, "select count(*) from windlass.tenants where slug in ('first', 'second')").await,
            1
        );
    }
}
