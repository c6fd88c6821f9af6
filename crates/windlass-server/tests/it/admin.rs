//! `/api/v1/admin`: definitions, tenants, tokens, members, queues, limits, audit.

use serde_json::{Value, json};
use windlass::NewJob;
use windlass_server::auth::Role;
use windlass_testing::eventually;

use crate::support::{Client, TestServer};

fn with_token(server: &TestServer, created: &Value) -> Client {
    Client::new(&server.base, Some(created["token"].as_str().unwrap().to_owned()))
}

#[tokio::test]
async fn a_definition_is_created_once_and_changed_only_with_its_last_version() {
    let server = TestServer::start().await;
    let body = json!({
        "key": "sync-dropbox", "description": "Sync provider updates for tenant",
        "arg_schema": {"type": "object", "properties": {"provider_id": {"type": "string", "format": "uuid"}, "path_prefix": {"type": "string"}},
            "required": ["provider_id"], "additionalProperties": false},
        "timeout_seconds": 3600, "max_attempts": 3
    });
    let path = "/api/v1/admin/jobs/definitions";
    let response = server.admin.post(path, &body).await;
    let made = response.expect(201);
    let first = response.header("etag").unwrap().to_owned();
    assert_eq!((&made["arg_schema"], &made["is_active"]), (&body["arg_schema"], &json!(true)));
    server.admin.post(path, &body).await.problem(409, "conflict");

    let one = format!("{path}/{}", made["id"].as_str().unwrap());
    let changed = server.admin.with("if-match", &first).patch(&one, &json!({"max_attempts": 5})).await;
    assert_eq!(changed.expect(200)["max_attempts"], 5);
    server
        .admin
        .with("if-match", &first)
        .patch(&one, &json!({"max_attempts": 6}))
        .await
        .problem(412, "precondition-failed");
    assert_eq!(server.admin.get(&one).await.expect(200)["max_attempts"], 5);
    assert_eq!(server.admin.patch(&one, &json!({"is_active": false})).await.expect(200)["is_active"], false);
    assert_eq!(server.admin.get("/api/v1/jobs/definitions").await.expect(200)["definitions"], json!([]));
    let job = json!({"definition_key": "sync-dropbox"});
    server.admin.post("/api/v1/jobs", &job).await.problem(422, "invalid");

    for (body, pointer) in [
        (json!({"key": "b", "colour": 1}), "/colour"),
        (json!({"key": "b", "timeout_seconds": 0}), "/timeout_seconds"),
        (json!({"key": "b", "max_attempts": 5000}), "/max_attempts"),
        (json!({"key": "b", "arg_schema": {"type": "nonsense"}}), "/arg_schema"),
        (json!({"key": "b", "backoff": {"factor": -1}}), "/backoff/factor"),
    ] {
        let problem = server.admin.post(path, &body).await.problem(422, "invalid");
        assert!(problem["errors"][0]["pointer"].as_str().unwrap().starts_with(pointer), "{body}: {problem}");
    }
    let keyed = server.admin.with("idempotency-key", "once");
    let made = keyed.post(path, &json!({"key": "c"})).await.expect(201);
    assert_eq!(keyed.post(path, &json!({"key": "c"})).await.expect(201), made);
}

/// An application can keep a transaction open that holds its tenant; see `change_tenant`.
#[tokio::test]
async fn a_tenant_that_an_open_transaction_holds_is_a_conflict_to_be_tried_again() {
    let server = TestServer::start().await;
    let tenant = server.queue.tenant("held").await;
    let open = server.queue.client().await;
    open.batch_execute("begin; select from windlass.tenants for share").await.unwrap();
    let path = format!("/api/v1/admin/tenants/{tenant}");
    let answer = server.admin.patch(&path, &json!({"status": "suspended"})).await;
    let problem = answer.problem(409, "conflict");
    assert!(problem["detail"].as_str().unwrap().contains("open transaction"), "{problem}");
    assert_eq!(answer.header("retry-after"), Some("5"));
    open.batch_execute("rollback").await.unwrap();
    server.admin.patch(&path, &json!({"status": "suspended"})).await.expect(200);
}

#[tokio::test]
async fn a_tenant_is_created_renamed_suspended_and_deleted_with_its_data() {
    let server = TestServer::start().await;
    server.admin.post("/api/v1/admin/jobs/definitions", &json!({"key": "a"})).await.expect(201);
    let made = server
        .admin
        .post("/api/v1/admin/tenants", &json!({"name": "Acme", "slug": "acme", "weight": 2}))
        .await
        .expect(201);
    let id = made["id"].as_str().unwrap();
    server
        .admin
        .post("/api/v1/admin/tenants", &json!({"name": "Acme", "slug": "acme"}))
        .await
        .problem(409, "conflict");
    let path = format!("/api/v1/admin/tenants/{id}");
    let change = json!({"name": "Acme Ltd", "timezone": "Europe/Berlin", "requests_per_minute": 500});
    let changed = server.admin.patch(&path, &change).await.expect(200);
    assert_eq!(
        (&changed["name"], &changed["weight"], &changed["requests_per_minute"]),
        (&json!("Acme Ltd"), &json!(2), &json!(500))
    );
    assert_eq!(
        server.admin.patch(&path, &json!({"requests_per_minute": null})).await.expect(200)["requests_per_minute"],
        Value::Null
    );
    for (body, pointer) in [
        (json!({"slug": "A b"}), "/slug"),
        (json!({"weight": 0}), "/weight"),
        (json!({"timezone": "Mars"}), "/timezone"),
        (json!({"status": "deleting"}), "/status"),
        (json!({"id": id}), "/id"),
    ] {
        let problem = server.admin.patch(&path, &body).await.problem(422, "invalid");
        assert_eq!(problem["errors"][0]["pointer"], pointer);
    }

    let operator = server.client(id.parse().unwrap(), Role::Operator).await;
    for _ in 0..3 {
        operator.post("/api/v1/jobs", &json!({"definition_key": "a"})).await.expect(201);
    }
    server.admin.patch(&path, &json!({"status": "suspended"})).await.expect(200);
    eventually("a suspended tenant enqueues nothing", async || {
        operator.post("/api/v1/jobs", &json!({"definition_key": "a"})).await.status == 409
    })
    .await;
    operator.get("/api/v1/jobs").await.expect(200);

    assert_eq!(server.admin.delete(&path).await.expect(202)["status"], "deleting");
    eventually("its credentials are invalid", async || operator.get("/api/v1/jobs").await.status == 401)
        .await;
    let mut deleted = 0;
    while let Some(purged) = server.queue.purge_deleted_tenants().await.unwrap() {
        deleted += purged;
        if let Ok(tenant) = serde_json::from_str::<Value>(&server.admin.get(&path).await.text)
            && tenant["status"] == "deleting"
        {
            assert_eq!(tenant["purged_jobs"], deleted, "progress is shown");
        }
    }
    assert!(deleted >= 3);
    server.admin.get(&path).await.problem(404, "not-found");
    let default = format!("/api/v1/admin/tenants/{}", windlass::DEFAULT_TENANT);
    server.admin.delete(&default).await.problem(409, "conflict");
}

#[tokio::test]
async fn a_token_is_shown_once_scoped_rotated_with_overlap_and_revoked() {
    let server = TestServer::start().await;
    let tenant = server.queue.tenant("a").await;
    let admin = server.client(tenant, Role::TenantAdmin).await;
    let path = "/api/v1/admin/tokens";
    let keyed = admin.with("idempotency-key", "t");
    let body = json!({"name": "reader", "role": "operator", "scopes": ["jobs:read"]});
    let made = keyed.post(path, &body).await.expect(201);
    let again = keyed.post(path, &body).await.expect(201);
    assert_eq!((&again["id"], &again["token"]), (&made["id"], &Value::Null), "the secret is shown once");
    let listed = admin.get(path).await;
    assert!(!listed.text.contains(made["token"].as_str().unwrap().rsplit('_').next().unwrap()));

    let reader = with_token(&server, &made);
    reader.get("/api/v1/jobs").await.expect(200);
    reader.post("/api/v1/jobs", &json!({"definition_key": "a"})).await.problem(403, "forbidden");
    for (body, status) in [
        (json!({"name": "x", "role": "viewer", "scopes": ["jobs:write"]}), 422),
        (json!({"name": "x", "role": "viewer", "scopes": ["all"]}), 422),
        (json!({"name": "x", "role": "super_admin"}), 403),
        (json!({"name": "", "role": "viewer"}), 422),
        (json!({"name": "x", "role": "king"}), 422),
    ] {
        assert_eq!(admin.post(path, &body).await.status, status, "{body}");
    }
    let limited = server.scoped_client(tenant, Role::TenantAdmin, Some(&["tokens:manage"])).await;
    limited.post(path, &json!({"name": "x", "role": "tenant_admin"})).await.problem(422, "invalid");
    limited
        .post(path, &json!({"name": "x", "role": "tenant_admin", "scopes": ["jobs:read"]}))
        .await
        .problem(403, "forbidden");

    let id = made["id"].as_str().unwrap();
    let rotated =
        admin.post(&format!("{path}/{id}/rotate"), &json!({"overlap_seconds": 60})).await.expect(201);
    let successor = with_token(&server, &rotated);
    successor.get("/api/v1/jobs").await.expect(200);
    reader.get("/api/v1/jobs").await.expect(200);
    admin.post(&format!("{path}/{id}/rotate"), &json!({})).await.problem(409, "conflict");
    admin.delete(&format!("{path}/{id}")).await.expect(200);
    reader.get("/api/v1/jobs").await.problem(401, "unauthorized");
    successor.get("/api/v1/jobs").await.expect(200);
    let short = |expires_at: &str| json!({"name": "short", "role": "viewer", "expires_at": expires_at});
    admin.post(path, &short("2020-01-01T00:00:00Z")).await.problem(422, "invalid");
    let expired = with_token(&server, &admin.post(path, &short("2099-01-01T00:00:00Z")).await.expect(201));
    let over = "update windlass.api_tokens set expires_at = now() - interval '1 second' where name = 'short'";
    server.queue.client().await.execute(over, &[]).await.unwrap();
    expired.get("/api/v1/jobs").await.problem(401, "unauthorized");
    // Another tenant's token is not found.
    let other = server.client(server.queue.tenant("b").await, Role::TenantAdmin).await;
    other.delete(&format!("{path}/{id}")).await.problem(404, "not-found");
}

/// Finding 8: rotating a token creates one, and it expires when the old one would have.
#[tokio::test]
async fn a_rotated_token_does_not_exceed_or_outlive_its_creator() {
    let server = TestServer::start().await;
    let tenant = server.queue.tenant("a").await;
    let admin = server.client(tenant, Role::TenantAdmin).await;
    let path = "/api/v1/admin/tokens";
    let rotate = |token: &Value| format!("{path}/{}/rotate", token["id"].as_str().unwrap());
    let expires = json!("2100-01-01T00:00:00Z");
    let strong = json!({"name": "strong", "role": "tenant_admin", "expires_at": expires,
        "scopes": ["tokens:manage", "jobs:read", "jobs:delete", "members:manage"]});
    let strong = admin.post(path, &strong).await.expect(201);
    let whole = admin.post(path, &json!({"name": "whole", "role": "tenant_admin"})).await.expect(201);
    let limited =
        server.scoped_client(tenant, Role::TenantAdmin, Some(&["tokens:manage", "jobs:read"])).await;
    limited.post(&rotate(&strong), &json!({})).await.problem(403, "forbidden");
    assert!(limited.post(&rotate(&whole), &json!({})).await.status.is_client_error());
    let weak = json!({"name": "weak", "role": "tenant_admin", "scopes": ["jobs:read"]});
    let weak = limited.post(path, &weak).await.expect(201);
    limited.post(&rotate(&weak), &json!({})).await.expect(201);
    // A tenant administrator may create a worker token; a caller with a few scopes may not.
    let worker = admin.post(path, &json!({"name": "w", "role": "worker"})).await.expect(201);
    assert!(limited.post(&rotate(&worker), &json!({})).await.status.is_client_error());
    admin.post(&rotate(&worker), &json!({})).await.expect(201);

    let rotated = admin.post(&rotate(&strong), &json!({})).await.expect(201);
    let at = |token: &Value| token["expires_at"].as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
    assert_eq!(at(&rotated), at(&strong), "it keeps its expiry");
    assert_eq!(rotated["scopes"], strong["scopes"]);
    // A credential that expires creates none that does not.
    let mortal = with_token(&server, &rotated);
    let body = json!({"name": "x", "role": "tenant_admin", "scopes": ["jobs:read"]});
    let problem = mortal.post(path, &body).await.problem(422, "invalid");
    assert_eq!(problem["errors"][0]["pointer"], "/expires_at");
    let later = json!({"expires_at": "2100-01-01T00:00:01Z"});
    mortal.post(&rotate(&rotated), &later).await.problem(422, "invalid");
    mortal.post(&rotate(&rotated), &json!({})).await.expect(201);
}

#[tokio::test]
async fn a_super_admins_idempotency_key_belongs_to_the_tenant() {
    let server = TestServer::start().await;
    let (a, b) = (server.queue.tenant("a").await, server.queue.tenant("b").await);
    let path = "/api/v1/admin/tokens";
    let body = json!({"name": "t", "role": "viewer"});
    let keyed = server.admin.with("idempotency-key", "k");
    let (of_a, of_b) = (keyed.with("x-tenant-id", a), keyed.with("x-tenant-id", b));
    let (first, second) =
        (of_a.post(path, &body).await.expect(201), of_b.post(path, &body).await.expect(201));
    assert_eq!((&first["tenant_id"], &second["tenant_id"]), (&json!(a), &json!(b)));
    assert_eq!(of_a.post(path, &body).await.expect(201)["id"], first["id"], "the same request again");
    // The tenant's own key is the same key.
    let own = server.client(a, Role::TenantAdmin).await.with("idempotency-key", "k");
    assert_eq!(own.post(path, &body).await.expect(201)["id"], first["id"]);
    // Without a tenant, rotating a token acts in the tenant of the token.
    let rotate = format!("{path}/{}/rotate", second["id"].as_str().unwrap());
    keyed.post(&rotate, &json!({})).await.problem(409, "conflict");
    let database = server.queue.client().await;
    let rows = "select count(*) from windlass.request_keys where tenant_id = any($1)";
    let rows: i64 = database.query_one(rows, &[&vec![a, b]]).await.unwrap().get(0);
    assert_eq!(rows, 2);
}

/// Revoked on another server of the same installation, which shares only the database with this one.
#[tokio::test]
async fn a_revoked_token_stops_working_within_five_seconds() {
    let server = TestServer::start().await;
    let made =
        server.admin.post("/api/v1/admin/tokens", &json!({"name": "a", "role": "viewer"})).await.expect(201);
    let client = with_token(&server, &made);
    client.get("/api/v1/me").await.expect(200);
    let database = server.queue.client().await;
    let revoke = "update windlass.api_tokens set revoked_at = now() where id = $1";
    database.execute(revoke, &[&made["id"].as_str().unwrap()]).await.unwrap();
    let since = std::time::Instant::now();
    eventually("the token has expired", async || client.get("/api/v1/me").await.status == 401).await;
    assert!(since.elapsed() < std::time::Duration::from_secs(5), "{:?}", since.elapsed());
}

#[tokio::test]
async fn members_queues_and_limits_are_managed_and_audited() {
    let server = TestServer::start().await;
    let tenant = server.queue.tenant("a").await;
    let admin = server.client(tenant, Role::TenantAdmin).await;
    let user = server.member(tenant, "ada@example.com", "operator").await;
    let member = &admin.get("/api/v1/admin/members").await.expect(200)["members"][0];
    assert_eq!((&member["email"], &member["role"]), (&json!("ada@example.com"), &json!("operator")));
    let path = format!("/api/v1/admin/members/{user}");
    assert_eq!(admin.patch(&path, &json!({"role": "viewer"})).await.expect(200)["role"], "viewer");
    admin.patch(&path, &json!({"role": "super_admin"})).await.problem(422, "invalid");
    let absent = format!("/api/v1/admin/members/{}", uuid::Uuid::from_u128(7));
    admin.patch(&absent, &json!({"role": "viewer"})).await.problem(404, "not-found");
    admin.delete(&path).await.expect(200);
    admin.delete(&path).await.problem(404, "not-found");

    server
        .admin
        .post("/api/v1/admin/jobs/definitions", &json!({"key": "a", "queue": "slow"}))
        .await
        .expect(201);
    assert_eq!(
        server.admin.post("/api/v1/admin/queues/slow/pause", &json!({})).await.expect(200)["is_paused"],
        true
    );
    let job = server.queue.enqueue(&NewJob::new("a").tenant(tenant)).await.unwrap().id;
    let why = admin.get(&format!("/api/v1/jobs/{job}/why")).await.expect(200);
    assert_eq!(why["reason"]["code"], "queue_paused");
    let codes: Vec<&str> =
        why["reasons"].as_array().unwrap().iter().map(|one| one["code"].as_str().unwrap()).collect();
    assert_eq!(codes, ["queue_paused", "no_worker_for_definition"]);
    let queues = server.admin.get("/api/v1/admin/queues").await.expect(200);
    let slow =
        queues["queues"].as_array().unwrap().iter().find(|queue| queue["name"] == "slow").unwrap().clone();
    assert_eq!((&slow["is_paused"], &slow["summary"]["queued"]), (&json!(true), &json!(1)));
    server.admin.post("/api/v1/admin/queues/slow/resume", &json!({})).await.expect(200);
    assert_eq!(server.admin.get("/api/v1/admin/workers").await.expect(200)["workers"], json!([]));
    server.admin.post("/api/v1/admin/workers/nobody/drain", &json!({})).await.problem(404, "not-found");

    let limits = format!("/api/v1/admin/limits/{tenant}");
    assert_eq!(server.admin.patch(&limits, &json!({"max_queued": 10})).await.expect(200)["max_queued"], 10);

    let acts: Vec<String> = {
        let mine = admin.get("/api/v1/admin/audit").await.expect(200);
        mine["entries"]
            .as_array()
            .unwrap()
            .iter()
            .map(|entry| entry["action"].as_str().unwrap().to_owned())
            .collect()
    };
    let expected = ["member.remove", "member.role", "token.create"];
    assert_eq!(acts, expected, "a tenant sees its own actions, and those of super-admins on its objects");
    let all = server.admin.get("/api/v1/admin/audit?limit=3").await.expect(200);
    assert_eq!(all["entries"][0]["action"], "tenant.limits");
    assert_eq!(all["entries"][0]["after"]["max_queued"], 10);
    let next = server
        .admin
        .get(&format!("/api/v1/admin/audit?limit=3&cursor={}", all["next_cursor"]))
        .await
        .expect(200);
    assert!(next["entries"][0]["id"].as_i64() < all["entries"][2]["id"].as_i64());
}

/// Every list has pages, including the short ones.
#[tokio::test]
async fn lists_of_the_installation_are_paged_by_offset_and_by_cursor() {
    let server = TestServer::start().await;
    for number in 0..5 {
        let definition = json!({"key": format!("d{number}"), "queue": format!("q{number}")});
        server.admin.post("/api/v1/admin/jobs/definitions", &definition).await.expect(201);
        let tenant = json!({"name": "T", "slug": format!("t{number}")});
        server.admin.post("/api/v1/admin/tenants", &tenant).await.expect(201);
        let token = json!({"name": "t", "role": "viewer"});
        server.admin.post("/api/v1/admin/tokens", &token).await.expect(201);
        server.member(windlass::DEFAULT_TENANT, &format!("m{number}@example.com"), "viewer").await;
        let invitation = json!({"email": format!("i{number}@example.com"), "role": "viewer"});
        server.admin.post("/api/v1/admin/invitations", &invitation).await.expect(201);
    }
    for (path, list) in [
        ("/api/v1/admin/jobs/definitions", "definitions"),
        ("/api/v1/jobs/definitions", "definitions"),
        ("/api/v1/admin/tenants", "tenants"),
        ("/api/v1/admin/limits", "tenants"),
        ("/api/v1/admin/tokens", "tokens"),
        ("/api/v1/admin/members", "members"),
        ("/api/v1/admin/invitations", "invitations"),
    ] {
        let whole = server.admin.get(path).await.expect(200);
        let whole = whole[list].as_array().unwrap();
        assert!(whole.len() >= 5, "{path}");
        let mut pages = Vec::new();
        let mut cursor = Value::Null;
        loop {
            let after = cursor.as_str().map(|cursor| format!("&cursor={cursor}")).unwrap_or_default();
            let page = server.admin.get(&format!("{path}?limit=2{after}")).await.expect(200);
            pages.extend(page[list].as_array().unwrap().clone());
            cursor = page["next_cursor"].clone();
            if cursor.is_null() {
                break;
            }
        }
        assert_eq!(&pages, whole, "{path}: the pages are complete");
        let second = server.admin.get(&format!("{path}?limit=1&offset=1")).await.expect(200);
        assert_eq!(second[list][0], whole[1], "{path}");
        for (query, place) in
            [("limit=0", "?limit"), ("limit=1001", "?limit"), ("offset=20000", "?offset"), ("x=1", "?x")]
        {
            let problem = server.admin.get(&format!("{path}?{query}")).await.problem(422, "invalid");
            assert_eq!(problem["errors"][0]["pointer"], place);
        }
    }
}
