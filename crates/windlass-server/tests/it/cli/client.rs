//! The commands that query: through a server and on the database, with the same results.

use serde_json::json;
use windlass::{Definition, NewJob};
use windlass_testing::TestQueue;

use super::{Ran, run, windlass};
use crate::support::TestServer;

/// The same command over HTTP and on the database.
async fn both(server: &TestServer, arguments: &[&str]) -> [Ran; 2] {
    let over_http = windlass(arguments)
        .args(["--server", &server.base])
        .env("WINDLASS_TOKEN", server.admin.token.as_deref().unwrap())
        .output()
        .await
        .unwrap();
    let directly = windlass(arguments).args(["--database-url", server.queue.url()]).output().await.unwrap();
    [Ran::of(over_http), Ran::of(directly)]
}

async fn define(queue: &TestQueue, key: &str) {
    let schema =
        json!({"type": "object", "properties": {"n": {"type": "integer"}}, "additionalProperties": false});
    queue.define(&Definition::new(key).arg_schema(schema)).await.unwrap();
}

#[tokio::test]
async fn jobs_are_managed_over_http_and_on_the_database() {
    let server = TestServer::start().await;
    server.queue.tenant("acme").await;
    define(&server.queue, "count").await;
    for ran in both(&server, &["jobs", "enqueue", "count", "--set", "n=3", "--tenant", "acme"]).await {
        let id = ran.expect(0).out.trim().to_owned();
        for shown in both(&server, &["jobs", "show", &id, "--tenant", "acme"]).await {
            let out = shown.expect(0).out;
            assert!(out.contains("queued") && out.contains("\"n\": 3"), "{out}");
        }
        let [canceled, again] = both(&server, &["jobs", "cancel", &id, "--tenant", "acme"]).await;
        assert!(canceled.expect(0).out.contains("canceled"));
        assert!(again.expect(6).err.contains("ended"));
        let [retried, too_soon] = both(&server, &["jobs", "retry", &id, "--tenant", "acme"]).await;
        retried.expect(0);
        too_soon.expect(6);
    }
    for listed in both(&server, &["jobs", "list", "--tenant", "acme", "--json"]).await {
        let jobs = windlass_items(&listed.expect(0));
        assert_eq!(jobs, 2);
    }
    for counted in both(&server, &["summary", "--tenant", "acme", "--json"]).await {
        assert!(counted.expect(0).out.contains("queued"));
    }
}

fn windlass_items(ran: &Ran) -> usize {
    let page = ran.json();
    page.as_object().unwrap().values().find_map(|value| value.as_array()).map_or(0, Vec::len)
}

#[tokio::test]
async fn a_rejected_request_has_its_own_exit_code_and_names_the_field() {
    let server = TestServer::start().await;
    let tenant = server.queue.tenant("acme").await;
    define(&server.queue, "count").await;
    for refused in both(&server, &["jobs", "enqueue", "count", "--set", "n=x", "--tenant", "acme"]).await {
        assert!(refused.expect(2).err.contains("/n"));
    }
    for missing in
        both(&server, &["jobs", "show", &uuid::Uuid::new_v4().to_string(), "--tenant", "acme"]).await
    {
        missing.expect(5);
    }
    for missing in both(&server, &["jobs", "list", "--tenant", "nobody"]).await {
        assert!(missing.expect(5).err.contains("windlass tenants list"));
    }
    let denied = run(&["jobs", "list", "--server", &server.base]).await.expect(4);
    assert!(denied.err.contains("--token-file"), "{}", denied.err);
    let viewer = server.client(tenant, windlass_server::auth::Role::Viewer).await;
    let denied = windlass(&["jobs", "enqueue", "count", "--server", &server.base])
        .env("WINDLASS_TOKEN", viewer.token.as_deref().unwrap())
        .output();
    Ran::of(denied.await.unwrap()).expect(4);
}

#[tokio::test]
async fn tenants_tokens_queues_workers_and_the_audit_trail_are_managed_from_the_command_line() {
    let server = TestServer::start().await;
    let [created, clash] =
        both(&server, &["tenants", "create", "shop", "--name", "The Shop", "--weight", "3"]).await;
    let id = created.expect(0).out.trim().to_owned();
    assert!(id.parse::<uuid::Uuid>().is_ok(), "{id}");
    clash.expect(6);
    for listed in both(&server, &["tenants", "list"]).await {
        assert!(listed.expect(0).out.contains("The Shop"));
    }
    for changed in both(&server, &["tenants", "set", "shop", "--suspend"]).await {
        assert!(changed.expect(0).out.contains("suspended"));
    }
    for made in both(&server, &["tokens", "create", "ci", "--role", "viewer", "--tenant", "shop"]).await {
        let token = made.expect(0).out.trim().to_owned();
        assert!(token.starts_with("wl_"), "{token}");
    }
    for listed in both(&server, &["tokens", "list", "--tenant", "shop", "--json"]).await {
        assert!(listed.expect(0).out.contains("viewer"));
    }
    define(&server.queue, "count").await;
    server.queue.enqueue(&NewJob::new("count")).await.unwrap();
    for paused in both(&server, &["queues", "pause", "default"]).await {
        paused.expect(0);
    }
    for listed in both(&server, &["queues", "list"]).await {
        assert!(listed.expect(0).out.contains("paused"));
    }
    for listed in both(&server, &["workers", "list"]).await {
        listed.expect(0);
    }
    for looked in both(&server, &["top", "--once"]).await {
        assert!(looked.expect(0).out.contains("DEAD LETTERS"));
    }
    for listed in both(&server, &["audit", "list"]).await {
        let out = listed.expect(0).out;
        assert!(out.contains("tenant.create") && out.contains("local:"), "{out}");
    }
    let verified = run(&["audit", "verify", "--database-url", server.queue.url()]).await;
    assert!(verified.expect(0).out.contains("intact"));
}

#[tokio::test]
async fn definitions_are_applied_from_a_file_and_compared_with_it() {
    let server = TestServer::start().await;
    let file = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("definitions.toml");
    let text = "[[definitions]]\nkey = 'sync'\nmax_attempts = 5\n[definitions.arg_schema]\ntype = 'object'\n";
    std::fs::write(&file, text).unwrap();
    let path = file.to_str().unwrap();
    for before in both(&server, &["definitions", "diff", path]).await {
        assert!(before.expect(1).out.contains("create  sync"));
    }
    let [applied, again] = both(&server, &["definitions", "apply", path]).await;
    assert!(applied.expect(0).out.contains("create  sync"));
    assert!(again.expect(0).out.contains("same    sync"));
    for after in both(&server, &["definitions", "diff", path]).await {
        after.expect(0);
    }
    std::fs::write(&file, text.replace('5', "7")).unwrap();
    for differs in both(&server, &["definitions", "diff", path]).await {
        assert!(differs.expect(1).out.contains("max_attempts: 5 → 7"));
    }
    let [updated, _] = both(&server, &["definitions", "apply", path]).await;
    assert!(updated.expect(0).out.contains("update  sync"));
    for listed in both(&server, &["definitions", "list"]).await {
        assert!(listed.expect(0).out.contains("sync"));
    }
}
