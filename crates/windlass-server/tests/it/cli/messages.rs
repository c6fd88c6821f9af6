//! What the commands say about mistakes: once, with the names that the user gave, and with an exit code for scripts.

use serde_json::json;
use uuid::Uuid;
use windlass::Definition;

use super::{Ran, run, windlass};
use crate::support::TestServer;

async fn ask(server: &TestServer, arguments: &[&str]) -> Ran {
    let mut command = windlass(arguments);
    command
        .env("WINDLASS_SERVER", &server.base)
        .env("WINDLASS_TOKEN", server.admin.token.as_deref().unwrap());
    Ran::of(command.output().await.unwrap())
}

#[tokio::test]
async fn a_file_of_definitions_is_checked_and_applied_as_a_whole() {
    let server = TestServer::start().await;
    let file = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("checked-definitions.json");
    let path = file.to_str().unwrap();
    for (bad, message) in [
        (json!({"max_attempts": 0}), "bad: max_attempts: must be"),
        (json!({"timeout_seconds": -1}), "bad: timeout_seconds: "),
        (json!({"arg_schema": {"type": "objekt"}}), "bad: arg_schema"),
        (json!({"retries": 3}), "bad: retries: unknown field"),
    ] {
        let mut bad = bad;
        bad["key"] = json!("bad");
        let both = json!({"definitions": [{"key": "good"}, bad]});
        std::fs::write(&file, both.to_string()).unwrap();
        for arguments in [vec!["definitions", "apply", path, "--dry-run"], vec!["definitions", "apply", path]]
        {
            let ran = ask(&server, &arguments).await.expect(2);
            assert!(ran.err.contains(message) && ran.out.is_empty(), "{message}: {ran:?}");
        }
    }
    let listed = ask(&server, &["definitions", "list", "--json"]).await.expect(0).json();
    assert_eq!(listed, json!([]), "nothing was created");
    std::fs::write(&file, json!([{"key": "good"}, {"key": "better"}]).to_string()).unwrap();
    let dry = ask(&server, &["definitions", "apply", path, "--dry-run"]).await.expect(0);
    assert_eq!(dry.out, "create  good\ncreate  better\n");
    assert_eq!(ask(&server, &["definitions", "list", "--json"]).await.json(), json!([]));
    ask(&server, &["definitions", "apply", path]).await.expect(0);
    assert_eq!(
        ask(&server, &["definitions", "diff", path]).await.expect(0).out,
        "same    good\nsame    better\n"
    );
}

#[tokio::test]
async fn a_token_that_differs_from_the_request_is_rejected() {
    let server = TestServer::start().await;
    server.queue.tenant("acme").await;
    let super_admin = ["tokens", "create", "x", "--role", "super_admin", "--tenant", "acme"];
    let ran = ask(&server, &super_admin).await.expect(2);
    assert!(ran.err.contains("all tenants") && ran.err.contains("--tenant"), "{}", ran.err);
    ask(&server, &["tokens", "create", "x", "--expires-in-days", "0"]).await.expect(2);
    let path = "/api/v1/admin/tokens";
    let past = json!({"name": "x", "role": "viewer", "expires_at": "2026-01-01T00:00:00Z"});
    let problem = server.admin.post(path, &past).await.problem(422, "invalid");
    assert_eq!(problem["errors"][0]["pointer"], "/expires_at");
    let ran = ask(&server, &["tokens", "create", "x", "--role", "viewer", "--scope", "nope"]).await.expect(2);
    assert!(ran.err.contains("\"nope\" is not a permission") && ran.err.contains("jobs:read"), "{}", ran.err);
    let listed = ask(&server, &["tokens", "list"]).await.expect(0).out;
    assert!(listed.contains("all") && !listed.contains("00000000"), "{listed}");
}

/// A token of a tenant may name its own tenant, and learns the reason if it names another one.
#[tokio::test]
async fn a_token_of_a_tenant_may_name_its_own_tenant() {
    let server = TestServer::start().await;
    let acme = server.queue.tenant("acme").await;
    server.queue.tenant("bcg").await;
    let viewer = server.client(acme, windlass_server::auth::Role::Viewer).await;
    let ask = async |arguments: &[&str], token: &str, tenant: &str| {
        let mut command = windlass(arguments);
        command
            .env("WINDLASS_SERVER", &server.base)
            .env("WINDLASS_TOKEN", token)
            .env("WINDLASS_TENANT", tenant);
        Ran::of(command.output().await.unwrap())
    };
    let token = viewer.token.as_deref().unwrap();
    for own in ["acme".to_owned(), acme.to_string()] {
        ask(&["jobs", "list"], token, &own).await.expect(0);
    }
    let other = ask(&["jobs", "list"], token, "bcg").await.expect(4);
    assert!(other.err.contains("this token belongs to the tenant acme, not to bcg"), "{}", other.err);
    let denied = ask(&["jobs", "enqueue", "work"], token, "acme").await.expect(4);
    assert!(!denied.err.contains("tokens list"), "{}", denied.err);
    let wrong = ask(&["jobs", "list"], "wl_api_nonsense", "acme").await.expect(4);
    assert!(wrong.err.contains("rejected the token from WINDLASS_TOKEN"), "{}", wrong.err);
}

#[tokio::test]
async fn a_reached_quota_is_a_conflict_and_a_missing_definition_is_not_found() {
    let server = TestServer::start().await;
    server.queue.define(&Definition::new("work")).await.unwrap();
    ask(&server, &["tenants", "create", "small", "--max-queued", "1"]).await.expect(0);
    ask(&server, &["jobs", "enqueue", "work", "--tenant", "small"]).await.expect(0);
    let full = ask(&server, &["jobs", "enqueue", "work", "--tenant", "small"]).await.expect(6);
    assert!(full.err.contains("job quota") && full.err.contains("--max-queued"), "{}", full.err);
    assert!(!full.err.contains("rate limit"), "{}", full.err);
    let missing = ask(&server, &["jobs", "enqueue", "nosuch"]).await.expect(5);
    assert!(missing.err.contains("windlass definitions list"), "{}", missing.err);
}

#[tokio::test]
async fn a_retention_rule_is_described_in_words() {
    let server = TestServer::start().await;
    let set = ask(&server, &["retention", "set", "succeeded", "7d"]).await.expect(0);
    assert_eq!(set.out, "succeeded jobs of all definitions: kept 7d\n");
    assert!(ask(&server, &["audit", "list"]).await.expect(0).out.contains("allowed"));
    let cleared = ask(&server, &["retention", "clear", "succeeded"]).await.expect(0);
    assert_eq!(cleared.out, "succeeded jobs of all definitions: rule removed\n");
    let missing = ask(&server, &["retention", "clear", "succeeded"]).await.expect(5);
    assert!(missing.err.contains("rule for succeeded jobs of all definitions not found"), "{}", missing.err);
}

#[tokio::test]
async fn a_mistake_is_reported_once_and_by_name() {
    let server = TestServer::start().await;
    server.queue.define(&Definition::new("work")).await.unwrap();
    let ran = ask(&server, &["jobs", "list", "--status", "odd"]).await.expect(2);
    assert_eq!(ran.err.matches("odd").count(), 1, "{}", ran.err);
    assert!(!ran.err.contains("status: status"), "{}", ran.err);
    for command in ["show", "tail", "wait"] {
        let ran = ask(&server, &["jobs", command, "nope"]).await.expect(5);
        assert!(ran.err.contains("job \"nope\" not found: an id is a UUID"), "{}", ran.err);
        let id = Uuid::new_v4().to_string();
        let ran = ask(&server, &["jobs", command, &id, "--tenant", "default"]).await.expect(5);
        assert!(ran.err.contains(&format!("job {id} not found in the tenant default")), "{}", ran.err);
    }
    let ran = ask(&server, &["holds", "release", "nope"]).await.expect(5);
    assert!(ran.err.contains("hold \"nope\" not found"), "{}", ran.err);
    for arguments in [
        vec!["holds", "place", "--reason", "r"],
        vec!["holds", "place", "--reason", "r", "--everything", "--job", "1"],
    ] {
        let ran = ask(&server, &arguments).await.expect(2);
        assert!(ran.err.contains("specify exactly one of"), "{}", ran.err);
    }
    for (arguments, message) in [
        (
            vec!["jobs", "enqueue", "work", "--at", "tomorrow"],
            "must be an instant such as 2026-02-16T10:30:00Z",
        ),
        (vec!["jobs", "list", "--created-after", "monday"], "must be an instant such as"),
        (vec!["jobs", "list", "--limit", "100000"], "must be a whole number from 1 to 1000"),
        (vec!["jobs", "enqueue", "work", "--priority", "-5"], "must be a whole number from 0 to 1000"),
        (vec!["up", "--listen", "localhost:8080"], "must be IP:PORT, such as 127.0.0.1:8080"),
        (vec!["keeper", "--once", "nap"], "must be one of promote"),
        (vec!["tenants", "set", "default", "--max-queued", "many"], "a whole number, or none"),
    ] {
        let ran = ask(&server, &arguments).await.expect(2);
        assert!(ran.err.contains(message), "{message}: {}", ran.err);
    }
    let missing = server.admin.post("/api/v1/jobs", &json!({"payload": {}})).await.problem(422, "invalid");
    assert_eq!(missing["errors"][0]["pointer"], "/definition_key");
}

#[tokio::test]
async fn results_that_are_easily_misread_come_with_a_note() {
    let server = TestServer::start().await;
    server.queue.define(&Definition::new("work")).await.unwrap();
    let enqueue = ["jobs", "enqueue", "work", "--dedupe-key", "k"];
    assert!(ask(&server, &enqueue).await.expect(0).err.is_empty());
    let again = ask(&server, &enqueue).await.expect(0);
    assert!(again.err.contains("no job was enqueued"), "{}", again.err);
    for arguments in [vec!["jobs", "list"], vec!["summary"]] {
        assert!(ask(&server, &arguments).await.expect(0).err.contains("tenant: default"));
    }
    assert!(ask(&server, &["jobs", "list", "--tenant", "default"]).await.expect(0).err.is_empty());
    let unused = ask(&server, &["queues", "pause", "nosuch"]).await.expect(0);
    assert!(unused.err.contains("no job has used the queue \"nosuch\""), "{}", unused.err);
    assert!(ask(&server, &["queues", "pause", "default"]).await.expect(0).err.is_empty());
    assert_eq!(run(&["config", "check"]).await.expect(0).out, "valid; all settings use their defaults\n");
}

#[tokio::test]
async fn the_state_of_a_tenant_is_a_conflict_and_its_limits_can_be_removed() {
    let server = TestServer::start().await;
    server.queue.define(&Definition::new("work")).await.unwrap();
    ask(&server, &["tenants", "create", "acme", "--max-queued", "10"]).await.expect(0);
    let again = ask(&server, &["tenants", "create", "acme"]).await.expect(6);
    assert!(again.err.contains("the slug \"acme\" is already in use"), "{}", again.err);
    let unlimited =
        ask(&server, &["tenants", "set", "acme", "--max-queued", "none", "--json"]).await.expect(0);
    assert_eq!(unlimited.json()["max_queued"], json!(null));
    ask(&server, &["tenants", "set", "acme", "--suspend"]).await.expect(0);
    let refused = ask(&server, &["jobs", "enqueue", "work", "--tenant", "acme"]).await.expect(6);
    assert!(refused.err.contains("the tenant acme is suspended"), "{}", refused.err);
    assert!(refused.err.contains("--resume") && !refused.err.contains("role"), "{}", refused.err);
    let default = ask(&server, &["tenants", "delete", "default", "--yes"]).await.expect(6);
    assert!(default.err.contains("the default tenant cannot be deleted"), "{}", default.err);
}

#[tokio::test]
async fn a_closed_output_is_no_error() {
    for shell in ["bash", "zsh", "fish"] {
        let mut command = windlass(&["completions", shell]);
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let ran = Ran::of(command.stdout(writer).output().await.unwrap()).expect(0);
        assert!(ran.err.is_empty(), "{}", ran.err);
    }
}
