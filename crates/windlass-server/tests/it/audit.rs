//! The audit trail: append-only, chained, and without secrets.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use windlass::keeper::{Keeper, KeeperSettings};
use windlass_server::auth::{Role, Secret, TokenKind, TokenSecret, session};
use windlass_testing::eventually;

use crate::support::{Client, TestServer};

#[tokio::test]
async fn the_audit_trail_is_append_only_and_a_direct_change_is_detected() {
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
    seal_all(&server, &database).await;
    for statement in [
        "update windlass.audit set actor = 'me'",
        "delete from windlass.audit",
        "truncate windlass.audit",
        "update windlass.audit_seals set hash = ''",
        "delete from windlass.audit_seals",
        "update windlass.audit_heads set position = position - 1",
        "delete from windlass.audit_heads",
        "truncate windlass.audit_heads",
    ] {
        for role in [
            "windlass_owner",
            "windlass_app",
            "windlass_server",
            "windlass_admin",
            "windlass_operator",
            "windlass_worker",
            "windlass_keeper",
        ] {
            database.batch_execute(&format!("begin; set local role {role}")).await.unwrap();
            assert!(database.batch_execute(statement).await.is_err(), "{role}: {statement}");
            database.batch_execute("rollback").await.unwrap();
        }
        assert!(database.batch_execute(statement).await.is_err(), "a superuser, by accident: {statement}");
    }
    assert_eq!(server.queue.verify_audit(&[]).await.unwrap(), []);

    // Someone with access to the database changes a row, removes one, and inserts one.
    let tampered = [
        (
            "update windlass.audit set actor = 'somebody else' where id = (select min(id) + 2 from windlass.audit where action = 'token.create')",
            "was changed",
        ),
        ("delete from windlass.audit where id = (select max(id) from windlass.audit)", "was deleted"),
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
    assert_eq!(server.queue.verify_audit(&[]).await.unwrap(), []);
}

/// Only rows below the oldest transaction of the whole server are chained, and other tests have transactions too.
async fn seal_all(server: &TestServer, database: &tokio_postgres::Client) {
    eventually("every row is chained", async || {
        server.queue.seal_audit().await.unwrap();
        let query = "select not exists (select from windlass.audit a where not exists
            (select from windlass.audit_seals s where s.tenant_id = a.tenant_id and s.audit_id = a.id))";
        database.query_one(query, &[]).await.unwrap().get(0)
    })
    .await;
}

/// Someone with access to the database removes the last actions from the trail, including their seals.
#[tokio::test]
async fn a_truncated_trail_is_detected_even_after_it_grew_again() {
    let server = TestServer::start().await;
    let tenant = server.queue.tenant("a").await;
    let admin = server.client(tenant, Role::TenantAdmin).await;
    let act = async |name: &str| {
        admin.post("/api/v1/admin/tokens", &json!({"name": name, "role": "viewer"})).await.expect(201);
    };
    let database = server.queue.client().await;
    for number in 0..4 {
        act(&format!("t{number}")).await;
    }
    seal_all(&server, &database).await;
    let kept = admin.get("/api/v1/admin/audit/head").await.expect(200);
    assert_eq!(kept["heads"].as_array().unwrap().len(), 1, "a tenant sees its own chain");
    assert_eq!(kept["heads"][0]["position"], 5, "the token of the admin, and those that it created");
    let all = server.admin.get("/api/v1/admin/audit/head").await.expect(200);
    assert!(all["heads"].as_array().unwrap().len() > 1);
    let verify = async |checkpoint: &Value| {
        let body = if checkpoint.is_null() { json!({}) } else { json!({"checkpoint": checkpoint}) };
        server.admin.post("/api/v1/admin/audit/verify", &body).await.expect(200)
    };
    assert_eq!(verify(&kept["heads"]).await, json!({"is_whole": true, "faults": []}));
    assert_eq!(verify(&all["heads"]).await["is_whole"], true);

    let cut = "begin; set local session_replication_role = replica;
        delete from windlass.audit a using windlass.audit_seals s where s.tenant_id = a.tenant_id and s.audit_id = a.id and s.position > 2;
        delete from windlass.audit_seals where position > 2; commit";
    database.batch_execute(cut).await.unwrap();
    let found = verify(&Value::Null).await;
    assert!(found["faults"].to_string().contains("no longer contains this position"), "{found}");
    // New actions do not hide it.
    for number in 0..6 {
        act(&format!("n{number}")).await;
    }
    seal_all(&server, &database).await;
    let found = verify(&Value::Null).await;
    assert!(found["faults"].to_string().contains("is missing"), "{found}");
    // A rewrite of the heads is detected by the checkpoint that was stored elsewhere.
    let rewrite = format!(
        "begin; set local session_replication_role = replica;
         delete from windlass.audit_seals where tenant_id = '{tenant}' and position > 2;
         update windlass.audit_heads h set position = s.position, hash = s.hash from windlass.audit_seals s
          where s.tenant_id = h.tenant_id and h.tenant_id = '{tenant}' and s.position = 2;
         delete from windlass.audit a where a.tenant_id = '{tenant}' and not exists
          (select from windlass.audit_seals s where s.tenant_id = a.tenant_id and s.audit_id = a.id); commit"
    );
    database.batch_execute(&rewrite).await.unwrap();
    let of_tenant = |found: &Value| {
        found["faults"].as_array().unwrap().iter().filter(|fault| fault["tenant_id"] == json!(tenant)).count()
    };
    assert_eq!(of_tenant(&verify(&Value::Null).await), 0, "the database alone does not reveal it");
    let found = verify(&kept["heads"]).await;
    assert_eq!(of_tenant(&found), 1, "{found}");
    assert!(found["faults"].to_string().contains("this position of the checkpoint"), "{found}");
    let wrong = json!({"checkpoint": [{"tenant_id": tenant, "position": 1, "hash": "x"}]});
    server.admin.post("/api/v1/admin/audit/verify", &wrong).await.problem(422, "invalid");
    admin.post("/api/v1/admin/audit/verify", &json!({})).await.problem(403, "forbidden");
}

/// A restore into another cluster, whose transaction ids start lower: earlier rows have ids that it may not reach for years, and
/// later rows have smaller ones.
#[tokio::test]
async fn sealing_continues_in_a_cluster_with_lower_transaction_ids() {
    let server = TestServer::start().await;
    let tenant = server.queue.tenant("a").await;
    let admin = server.client(tenant, Role::TenantAdmin).await;
    let act = async |name: &str| {
        admin.post("/api/v1/admin/tokens", &json!({"name": name, "role": "viewer"})).await.expect(201);
    };
    let database = server.queue.client().await;
    act("sealed before").await;
    seal_all(&server, &database).await;
    act("not sealed before").await;
    let restored = "begin; set local session_replication_role = replica;
        update windlass.audit set xid = (xid::text::bigint + 4000000000)::text::xid8;
        update windlass.audit_seals set xid = (xid::text::bigint + 4000000000)::text::xid8;
        update windlass.audit_sealer set cluster = cluster - 1, xid = (xid::text::bigint + 4000000000)::text::xid8; commit";
    database.batch_execute(restored).await.unwrap();
    act("the first in the new cluster").await;
    seal_all(&server, &database).await;
    assert_eq!(server.queue.verify_audit(&[]).await.unwrap(), []);
    for number in 0..3 {
        act(&format!("later {number}")).await;
    }
    seal_all(&server, &database).await;
    assert_eq!(server.queue.verify_audit(&[]).await.unwrap(), []);
    let twice = "select count(*) - count(distinct audit_id) from windlass.audit_seals";
    assert_eq!(database.query_one(twice, &[]).await.unwrap().get::<_, i64>(0), 0, "no row is sealed twice");
    // A row that is inserted below is still detected.
    let slipped = "begin; set local session_replication_role = replica;
        insert into windlass.audit (tenant_id, actor, action, target, xid) select tenant_id, 'me', 'nothing', '', '3'::xid8 from windlass.audit limit 1; commit";
    database.batch_execute(slipped).await.unwrap();
    assert!(
        server
            .queue
            .verify_audit(&[])
            .await
            .unwrap()
            .iter()
            .any(|fault| fault.problem.contains("not in the chain"))
    );
}

/// The rows of rejected calls, as (action, target, after), oldest first.
async fn refused(server: &TestServer) -> Vec<(String, String, Value)> {
    let query = "select action, target, coalesce(after, 'null') from windlass.audit where outcome = 'denied' order by id";
    let rows = server.queue.client().await.query(query, &[]).await.unwrap();
    rows.iter().map(|row| (row.get(0), row.get(1), row.get(2))).collect()
}

#[tokio::test]
async fn a_call_with_an_invalid_credential_is_recorded_without_the_credential() {
    let server = TestServer::start().await;
    let tenant = server.queue.tenant("a").await;
    server.anonymous().get("/api/v1/jobs").await.problem(401, "unauthorized");
    let stranger = TokenSecret::generate(TokenKind::Api);
    Client::new(&server.base, Some(stranger.expose())).get("/api/v1/me").await.problem(401, "unauthorized");
    Client::new(&server.base, Some("nonsense that is long enough".to_owned()))
        .get("/api/v1/me")
        .await
        .problem(401, "unauthorized");
    server.anonymous().get("/metrics").await.problem(401, "unauthorized");
    // Calls that a handler rejects, and calls from another site's page.
    let admin = server.client(tenant, Role::TenantAdmin).await;
    let token = json!({"name": "x", "role": "super_admin"});
    admin.post("/api/v1/admin/tokens", &token).await.problem(403, "forbidden");
    let cookie = session::sign_in_with_token(
        &server.app,
        &Secret::new(admin.token.clone().unwrap()),
        &session::From::default(),
    )
    .await
    .unwrap();
    let browser = server.anonymous().with("cookie", cookie.to_str().unwrap().split(';').next().unwrap());
    browser
        .with("sec-fetch-site", "cross-site")
        .post("/api/v1/events", &json!({"name": "a.b"}))
        .await
        .problem(403, "forbidden");
    let name = format!("token:{}", TokenSecret::parse(admin.token.as_deref().unwrap()).unwrap().id());
    let row = |target: &str, credential: &str| {
        ("request".to_owned(), target.to_owned(), json!({"credential": credential}))
    };
    assert_eq!(
        refused(&server).await,
        [
            row("GET /api/v1/jobs", "none"),
            row("GET /api/v1/me", &format!("token:{}", stranger.id())),
            row("GET /api/v1/me", "unreadable"),
            row("GET /metrics", "none"),
            row("POST /api/v1/admin/tokens", &name),
            row("POST /api/v1/events", &name),
        ]
    );
    let mine = admin.get("/api/v1/admin/audit?outcome=denied").await.expect(200);
    assert_eq!(
        mine["entries"].as_array().unwrap().len(),
        2,
        "a tenant sees the rejected calls of its own callers"
    );
    assert_eq!(mine["entries"][0]["from_address"], "127.0.0.1");
}

#[tokio::test]
async fn a_failed_sign_in_is_recorded_without_the_input() {
    let server = TestServer::start().await;
    let ada = server.member(server.queue.tenant("a").await, "ada@example.com", "viewer").await;
    let from = session::From { address: Some("203.0.113.9".to_owned()), ..session::From::default() };
    let try_in = async |email: &str| {
        let wrong = Secret::new("wrong horse battery");
        assert_eq!(session::sign_in(&server.app, email, wrong, &from).await.unwrap_err().kind.status(), 401);
    };
    try_in("ada@example.com").await;
    try_in("typed-my-password-here").await;
    let revoked = TokenSecret::generate(TokenKind::Api);
    for token in [revoked.expose(), "gibberish".to_owned()] {
        assert!(session::sign_in_with_token(&server.app, &Secret::new(token), &from).await.is_err());
    }
    let row = |target: &str, credential: &str| {
        ("session.begin".to_owned(), target.to_owned(), json!({"credential": credential}))
    };
    assert_eq!(
        refused(&server).await,
        [
            row(&format!("user:{ada}"), "password"),
            row("nobody", "password"),
            row(&format!("token:{}", revoked.id()), "token"),
            row("nobody", "unreadable"),
        ]
    );
}

/// Rejected calls cannot fill the trail: those that are not written are counted.
#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_rejected_calls_is_a_few_rows_and_a_count() {
    const CALLS: u64 = 400;
    let mut server = TestServer::start().await;
    let anonymous = server.anonymous();
    for _ in 0..CALLS / 8 {
        let asked = (0..8).map(|_| anonymous.get("/api/v1/jobs"));
        for response in futures_util::future::join_all(asked).await {
            response.problem(401, "unauthorized");
        }
    }
    let written = refused(&server).await.len();
    assert!((30..100).contains(&written), "{written} rows for {CALLS} calls");
    server.stop().await;
    assert_eq!(calls_in_the_trail(&server).await, CALLS, "every call is in the trail");
}

/// The number of rejected calls in the trail: rows, and calls that were only counted.
async fn calls_in_the_trail(server: &TestServer) -> u64 {
    let of_row = |row: &(String, String, Value)| {
        u64::from(row.1 != "calls") + row.2["unwritten_before"].as_u64().unwrap_or(0)
    };
    refused(server).await.iter().map(of_row).sum()
}

/// the count is written also if requests in progress have to be aborted.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_whose_requests_do_not_end_still_writes_the_count_of_rejected_calls() {
    const CALLS: u64 = 80;
    let mut server = TestServer::start().await;
    let anonymous = server.anonymous();
    for _ in 0..CALLS {
        anonymous.get("/api/v1/jobs").await.problem(401, "unauthorized");
    }
    assert!(calls_in_the_trail(&server).await < CALLS, "some are only counted");
    // A request whose body never arrives.
    let mut socket = tokio::net::TcpStream::connect(server.base.trim_start_matches("http://")).await.unwrap();
    let token = server.admin.token.clone().unwrap();
    let head = format!(
        "POST /api/v1/jobs HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {token}\r\n\
         content-type: application/json\r\ncontent-length: 10\r\n\r\n{{"
    );
    socket.write_all(head.as_bytes()).await.unwrap();
    server.stop_within(Duration::from_millis(100)).await;
    assert_eq!(calls_in_the_trail(&server).await, CALLS, "every call is in the trail");
}

/// The keeper's two duties of the control plane, run by a keeper in the background.
#[tokio::test(flavor = "multi_thread")]
async fn a_keeper_chains_the_trail_and_purges_a_deleted_tenant() {
    let server = TestServer::start().await;
    server.admin.post("/api/v1/admin/jobs/definitions", &json!({"key": "a"})).await.expect(201);
    let tenant =
        server.admin.post("/api/v1/admin/tenants", &json!({"name": "T", "slug": "t"})).await.expect(201);
    let id: uuid::Uuid = tenant["id"].as_str().unwrap().parse().unwrap();
    let jobs = vec![windlass::NewJob::new("a").tenant(id); 2500];
    server.queue.enqueue_many(&jobs).await.unwrap();
    let stop = tokio_util::sync::CancellationToken::new();
    let keeper = Keeper::new(server.queue.queue().clone(), KeeperSettings::default());
    let keeping = tokio::spawn(keeper.run(stop.clone()));
    let path = format!("/api/v1/admin/tenants/{id}");
    server.admin.delete(&path).await.expect(202);
    eventually("the tenant is deleted", async || server.admin.get(&path).await.status == 404).await;
    let database = server.queue.client().await;
    let left = "select count(*) from windlass.job where tenant_id = $1";
    assert_eq!(database.query_one(left, &[&id]).await.unwrap().get::<_, i64>(0), 0);
    eventually("every row is chained", async || {
        let query =
            "select (select count(*) from windlass.audit_seals) = (select count(*) from windlass.audit)";
        database.query_one(query, &[]).await.unwrap().get(0)
    })
    .await;
    assert_eq!(server.queue.verify_audit(&[]).await.unwrap(), []);
    stop.cancel();
    keeping.await.unwrap();
}
