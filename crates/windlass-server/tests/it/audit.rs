//! The audit trail: append-only, chained, and without secrets.

use serde_json::json;
use windlass_server::auth::Role;
use windlass_testing::eventually;

use crate::support::TestServer;

#[tokio::test]
async fn nobody_edits_the_audit_trail_and_a_change_behind_its_back_is_found() {
    let server = TestServer::start().await;
    let tenant = server.queue.tenant("a").await;
    let admin = server.client(tenant, Role::TenantAdmin).await;
    for number in 0..5 {
        admin
            .post("/api/v1/admin/tokens", &json!({"name": format!("t{number}"), "role": "viewer"}))
            .await
            .expect(201);
    }
    let database = server.queue.client().await;
    for statement in [
        "update windlass.audit set actor = 'me'",
        "delete from windlass.audit",
        "truncate windlass.audit",
        "update windlass.audit_seals set hash = ''",
        "delete from windlass.audit_seals",
    ] {
        for role in ["windlass_owner", "windlass_api", "windlass_admin", "windlass_worker"] {
            database.batch_execute(&format!("begin; set local role {role}")).await.unwrap();
            assert!(database.batch_execute(statement).await.is_err(), "{role}: {statement}");
            database.batch_execute("rollback").await.unwrap();
        }
        assert!(database.batch_execute(statement).await.is_err(), "a superuser, by accident: {statement}");
    }
    // What is chained lies below the oldest transaction of the whole server, and other tests have theirs.
    eventually("every row is chained", async || {
        server.queue.seal_audit().await.unwrap();
        let query =
            "select (select count(*) from windlass.audit_seals) = (select count(*) from windlass.audit)";
        database.query_one(query, &[]).await.unwrap().get(0)
    })
    .await;
    assert_eq!(server.queue.verify_audit().await.unwrap(), []);

    // Somebody with the keys to the database changes a row, removes one, slips one in.
    let tampered = [
        (
            "update windlass.audit set actor = 'somebody else' where id = (select min(id) + 2 from windlass.audit where action = 'token.create')",
            "was changed",
        ),
        ("delete from windlass.audit where id = (select max(id) from windlass.audit)", "is gone"),
        (
            "delete from windlass.audit_seals where tenant_id = (select tenant_id from windlass.audit_seals order by position desc limit 1) and position = 2",
            "is missing",
        ),
        (
            "insert into windlass.audit (tenant_id, actor, action, target, xid) select tenant_id, 'me', 'nothing', '', '3'::xid8 from windlass.audit limit 1",
            "not in the chain",
        ),
    ];
    for (statement, problem) in tampered {
        database.batch_execute("begin; set local session_replication_role = replica").await.unwrap();
        assert_eq!(database.execute(statement, &[]).await.unwrap(), 1, "{statement}");
        let query = "select problem from windlass.verify_audit()";
        let found: Vec<String> =
            database.query(query, &[]).await.unwrap().iter().map(|row| row.get(0)).collect();
        assert!(found.iter().any(|found| found.contains(problem)), "{statement}: {found:?}");
        database.batch_execute("rollback").await.unwrap();
    }
    assert_eq!(server.queue.verify_audit().await.unwrap(), []);
}
