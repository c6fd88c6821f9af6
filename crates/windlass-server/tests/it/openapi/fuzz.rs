//! Schemathesis: a program that generates requests from the description, valid ones and others, and searches for responses that
//! it does not allow. All its checks are enabled. `./dev test` installs it into `target/schemathesis`. A normal run tries a sixth
//! of the operations.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::{Value, json};
use windlass_server::http::Options;
use windlass_testing::{sample, times};

use crate::support::TestServer;

/// Operations that may reject values that their schema allows, with the status and why no schema can express it. Every other
/// value that fits its description must be accepted.
const MAY_REFUSE: &[(&str, &[u16], &str)] = &[
    (
        "POST /api/v1/jobs",
        &[422],
        "the definition has to exist, and its own schema judges the payload; lengths are bytes",
    ),
    ("POST /api/v1/jobs/cancel", &[422], "takes either ids or a filter, and not both"),
    ("POST /api/v1/jobs/retry", &[422], "takes either ids or a filter, and not both"),
    ("POST /api/v1/jobs/delete", &[422], "takes either ids or a filter, and not both"),
    (
        "POST /api/v1/jobs/triggers",
        &[422],
        "cron expressions, zones and templates are languages; the definition has to exist",
    ),
    (
        "PATCH /api/v1/jobs/triggers/{trigger_id}",
        &[412, 422],
        "the same, and If-Match names the version that is there or none",
    ),
    (
        "GET /api/v1/jobs/triggers/{trigger_id}/preview",
        &[422],
        "must be a schedule: event triggers have no next runs",
    ),
    ("DELETE /api/v1/jobs/triggers/{trigger_id}", &[412], "If-Match names the version that is there or none"),
    (
        "POST /api/v1/jobs/triggers/preview",
        &[422],
        "a cron expression is a language, and a zone has to be one",
    ),
    ("POST /api/v1/jobs/triggers/{trigger_id}/backfill", &[422], "its two instants are a past range"),
    ("POST /api/v1/events", &[422], "lengths are bytes, which no schema counts"),
    ("POST /api/v1/admin/jobs/definitions", &[422], "a JSON Schema has to be one, and so has a backoff"),
    (
        "PATCH /api/v1/admin/jobs/definitions/{definition_id}",
        &[412, 422],
        "the same, and If-Match names the version that is there or none",
    ),
    ("POST /api/v1/admin/jobs/definitions/apply", &[422], "the same, and each key may be given once"),
    ("POST /api/v1/retention/rules", &[422], "the definition has to exist, and events have one rule for all"),
    ("DELETE /api/v1/retention/rules", &[422], "the rule for events is of no definition"),
    ("POST /api/v1/retention/holds", &[422], "a subject is a type and an id together, and excludes a job"),
    ("POST /api/v1/admin/tenants", &[422], "a zone has to be one"),
    ("PATCH /api/v1/admin/tenants/{tenant_id}", &[422], "a zone has to be one"),
    ("POST /api/v1/admin/tokens", &[422], "a scope has to be one that the role has"),
    ("POST /api/v1/worker/register", &[422], "lengths of names are bytes, which no schema counts"),
    (
        "PATCH /api/v1/admin/limits/{tenant_id}",
        &[422],
        "a whole number is written without a point, which is one to a schema",
    ),
    (
        "POST /api/v1/admin/invitations",
        &[422],
        "a whole number is written without a point, which is one to a schema",
    ),
    (
        "POST /api/v1/admin/audit/verify",
        &[422],
        "a whole number is written without a point, which is one to a schema",
    ),
    (
        "POST /api/v1/admin/tokens/{token_id}/rotate",
        &[422],
        "a whole number is written without a point, which is one to a schema",
    ),
    (
        "POST /api/v1/jobs/triggers/{trigger_id}/run",
        &[422],
        "an event goes with a trigger that waits for events",
    ),
    ("POST /api/v1/worker/jobs/{job_id}/complete", &[422], "the jobs that follow are judged like any others"),
];

#[tokio::test(flavor = "multi_thread")]
async fn schemathesis_finds_nothing() {
    let tool = schemathesis();
    let options = Options { requests_per_minute: 10_000_000, ..Options::default() };
    let server = TestServer::start_with(options).await;
    server.admin.post("/api/v1/admin/jobs/definitions", &json!({"key": "sync-dropbox"})).await.expect(201);
    let examples = std::env::var("WINDLASS_FUZZ_EXAMPLES").unwrap_or_else(|_| times("8", "20").to_owned());
    let scratch = Path::new(env!("CARGO_TARGET_TMPDIR")).join("schemathesis");
    std::fs::create_dir_all(&scratch).unwrap();
    let config = scratch.join("schemathesis.toml");
    std::fs::write(&config, configuration()).unwrap();
    let operations = operations(&server.admin.get("/api/openapi.json").await.expect(200));
    let sixth = operations.len() / 6;
    let chosen = sample(operations, sixth).into_iter().flat_map(|name| ["--include-name".to_owned(), name]);
    let output = tokio::process::Command::new(tool)
        .arg("--config-file")
        .arg(&config)
        .args(["run", &format!("{}/api/openapi.json", server.base), "--no-color", "--workers", "1"])
        .args(["--header", &format!("Authorization: Bearer {}", server.admin.token.as_deref().unwrap())])
        .args(["--header", &format!("X-Tenant-Id: {}", windlass::DEFAULT_TENANT)])
        .args(["--max-examples", &examples, "--seed", "7", "--phases", "examples,coverage,fuzzing"])
        .args(chosen)
        .args(["--request-timeout", "30"])
        .current_dir(&scratch)
        .stdin(Stdio::null())
        .output()
        .await
        .unwrap();
    let report = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{report}\n{}", String::from_utf8_lossy(&output.stderr));
}

/// The names of the operations as schemathesis writes them. Streams do not end, so a client that waits for the complete response
/// never gets it; and a claim waits as long as it requests, up to a minute.
fn operations(description: &Value) -> Vec<String> {
    let paths = description["paths"].as_object().unwrap();
    let ends = |path: &str| {
        !["/stream", "/logs", "/worker/jobs/claim"].iter().any(|endless| path.ends_with(endless))
    };
    let of_path = |(path, operations): (&String, &Value)| {
        let names =
            operations.as_object().unwrap().keys().map(|method| format!("{} {path}", method.to_uppercase()));
        names.collect::<Vec<_>>()
    };
    paths.iter().filter(|(path, _)| ends(path)).flat_map(of_path).collect()
}

fn schemathesis() -> PathBuf {
    let installed = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/schemathesis/bin/schemathesis");
    let tool = std::env::var_os("WINDLASS_SCHEMATHESIS").map_or(installed, PathBuf::from);
    assert!(tool.exists(), "{} is missing: `./dev test openapi` installs it", tool.display());
    tool
}

fn configuration() -> String {
    // No schema of ours can concisely exclude what Postgres cannot store: the NUL character. It is rejected; limits.rs sends it.
    let mut text = String::from("[generation]\nallow-x00 = false\n");
    for (operation, statuses, why) in MAY_REFUSE {
        let mut allowed = ["2xx", "404", "409"].map(|status| format!("{status:?}")).to_vec();
        allowed.extend(statuses.iter().map(|status| format!("{:?}", status.to_string())));
        // Writing to a string cannot fail.
        let _ = write!(
            text,
            "\n# {why}\n[[operations]]\ninclude-name = {operation:?}\nchecks.positive_data_acceptance.expected-statuses = [{}]\n",
            allowed.join(", ")
        );
        if statuses.contains(&412) {
            // If both a body and a version are invalid, the version may be reported first.
            text.push_str("checks.negative_data_rejection.expected-statuses = [\"400\", \"404\", \"412\", \"415\", \"422\"]\n");
        }
    }
    text
}
