//! Every command that works on a database, with the login of an operator.

use std::fs;

use windlass_server::cli::tree;

use super::Place;
use crate::cli::{Ran, commands, windlass};

/// Commands with their own row in the table of logins, commands that need no database, and commands that wait for another
/// process, with the same calls as `jobs show`.
const ELSEWHERE: [&str; 11] = [
    "up",
    "serve",
    "worker",
    "keeper",
    "migrate",
    "config example",
    "config check",
    "openapi",
    "completions",
    "jobs tail",
    "jobs wait",
];

pub(super) async fn every_command_works(place: &Place, url: &str) {
    let file = place.directory.join("definitions.json");
    fs::write(&file, r#"[{"key": "hello", "max_attempts": 3}]"#).unwrap();
    let file = file.to_str().unwrap();
    let mut operator = Operator { url, ran: Vec::new() };
    operator.does(&["definitions", "apply", file]).await;
    operator.does(&["definitions", "diff", file]).await;
    operator.does(&["definitions", "list"]).await;
    let job = operator.does(&["jobs", "enqueue", "hello"]).await;
    operator.does(&["jobs", "list"]).await;
    operator.does(&["jobs", "show", &job]).await;
    operator.does(&["jobs", "cancel", &job]).await;
    operator.does(&["jobs", "retry", &job]).await;
    operator.does(&["jobs", "cancel", "--status", "queued"]).await;
    operator.does(&["summary", "--all"]).await;
    operator.does(&["top", "--once"]).await;
    let tenant = operator.does(&["tenants", "create", "gone"]).await;
    operator.does(&["tenants", "list"]).await;
    operator.does(&["tenants", "set", &tenant, "--weight", "2"]).await;
    operator.does(&["tenants", "delete", &tenant, "--yes"]).await;
    operator.does(&["tokens", "create", "reports", "--role", "viewer"]).await;
    let tokens: serde_json::Value =
        serde_json::from_str(&operator.does(&["tokens", "list", "--json"]).await).unwrap();
    let token = tokens[0]["id"].as_str().unwrap_or_else(|| panic!("{tokens}")).to_owned();
    let rotated: serde_json::Value =
        serde_json::from_str(&operator.does(&["tokens", "rotate", &token, "--json"]).await).unwrap();
    let token = rotated["id"].as_str().map_or(token, str::to_owned);
    operator.does(&["tokens", "revoke", &token]).await;
    operator.does(&["queues", "list"]).await;
    operator.does(&["queues", "pause", "default"]).await;
    operator.does(&["queues", "resume", "default"]).await;
    let workers: serde_json::Value =
        serde_json::from_str(&operator.does(&["workers", "list", "--json"]).await).unwrap();
    // A worker of the rows before.
    let is_stopped = |worker: &&serde_json::Value| worker["status"] == "stopped";
    let stopped = workers.as_array().unwrap().iter().find(is_stopped).unwrap_or_else(|| panic!("{workers}"));
    let worker = stopped["worker_id"].as_str().unwrap().to_owned();
    operator.ends_with(&["workers", "drain", &worker], &[6]).await;
    operator.ends_with(&["workers", "resume", &worker], &[6]).await;
    operator.does(&["retention", "set", "canceled", "7d"]).await;
    operator.does(&["retention", "list"]).await;
    operator.does(&["retention", "clear", "canceled"]).await;
    let hold = operator.does(&["holds", "place", "--job", &job, "--reason", "case 12"]).await;
    operator.does(&["holds", "list"]).await;
    operator.does(&["holds", "release", &hold]).await;
    operator.does(&["triggers", "list"]).await;
    let unknown = uuid::Uuid::new_v4().to_string();
    for verb in ["show", "run", "preview", "pause", "resume"] {
        operator.ends_with(&["triggers", verb, &unknown], &[5]).await;
    }
    operator.does(&["audit", "list"]).await;
    operator.does(&["audit", "verify"]).await;
    operator.does(&["audit", "head"]).await;
    // It may report findings; what matters is that it can read, and reports what it may not see.
    let found = operator.ends_with(&["doctor"], &[0, 1]).await;
    assert!(found.contains("pg_read_all_stats") && !found.contains("no session listens"), "{found}");

    for (words, command) in commands::commands(&tree(), &[]) {
        let name = words.join(" ");
        let is_tried = operator.ran.iter().any(|ran| ran.starts_with(&name));
        assert!(
            command.has_subcommands() || is_tried || ELSEWHERE.contains(&name.as_str()),
            "no test runs {name}"
        );
    }
}

struct Operator<'a> {
    url: &'a str,
    ran: Vec<String>,
}

impl Operator<'_> {
    /// Returns its output.
    async fn does(&mut self, words: &[&str]) -> String {
        self.ends_with(words, &[0]).await
    }

    async fn ends_with(&mut self, words: &[&str], codes: &[i32]) -> String {
        let mut command = windlass(words);
        command.args(["--database-url", self.url]).env("WINDLASS_TENANT", "default");
        let ran = Ran::of(command.output().await.unwrap());
        assert!(codes.contains(&ran.code) && !ran.err.contains("denied"), "{words:?}: {ran:#?}");
        self.ran.push(words.join(" "));
        ran.out.trim().to_owned()
    }
}

/// An operator reads no password hash, starts no session and assumes no other role.
pub(super) async fn has_no_other_rights(url: &str) {
    let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    for statement in [
        "select windlass.find_user('ada@example.com')",
        "select windlass.create_session('', gen_random_uuid(), null, null, null, 60, null, null)",
        "select windlass.find_session('')",
        "select windlass.create_password_reset(null, gen_random_uuid(), '', 60, 'me')",
        "select windlass.accept_invitation(null, '', '')",
        "select password_hash from windlass.users",
        "select from windlass.sessions",
        "select from windlass.api_tokens",
        "set role windlass_server",
        "set role windlass_admin",
        "set role windlass_owner",
    ] {
        let refused = client.batch_execute(statement).await.expect_err(statement);
        assert_eq!(refused.code().unwrap().code(), "42501", "{statement}: {refused:?}");
    }
}
