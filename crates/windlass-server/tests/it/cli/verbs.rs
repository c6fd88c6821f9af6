//! The verbs: each through the real program, with its output for people and for scripts, and its exit code.

use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use uuid::Uuid;
use windlass::{Definition, NewJob};
use windlass_server::auth::Role;
use windlass_testing::eventually;

use super::{Ran, windlass};
use crate::support::{Client, TestServer};

/// A server with a definition `work`, and a pull worker that the test implements itself.
pub(super) struct Shop {
    pub(super) server: TestServer,
    worker: Client,
}

impl Shop {
    pub(super) async fn open() -> Self {
        let server = TestServer::start().await;
        server.queue.define(&Definition::new("work")).await.unwrap();
        let worker = server.client(windlass::DEFAULT_TENANT, Role::Worker).await;
        Self { server, worker }
    }

    fn command(&self, arguments: &[&str]) -> tokio::process::Command {
        let mut command = windlass(arguments);
        command
            .env("WINDLASS_SERVER", &self.server.base)
            .env("WINDLASS_TOKEN", self.server.admin.token.as_deref().unwrap());
        command
    }

    pub(super) async fn run(&self, arguments: &[&str]) -> Ran {
        Ran::of(self.command(arguments).output().await.unwrap())
    }

    async fn enqueue(&self) -> String {
        self.run(&["jobs", "enqueue", "work"]).await.expect(0).out.trim().to_owned()
    }

    /// Claims the next job, as its worker.
    async fn claim(&self) -> Value {
        let claim = json!({"definition_keys": ["work"], "wait_seconds": 30, "worker_id": "w"});
        self.worker.post("/api/v1/worker/jobs/claim", &claim).await.expect(200)["jobs"][0].clone()
    }

    async fn say(&self, job: &Value, verb: &str, mut body: Value) {
        body["fence"] = job["fence"].clone();
        let path = format!("/api/v1/worker/jobs/{}/{verb}", job["id"].as_str().unwrap());
        self.worker.post(&path, &body).await.expect(200);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tail_follows_a_job_until_it_ends() {
    let shop = Shop::open().await;
    let id = shop.enqueue().await;
    let job = shop.claim().await;
    let following = shop.command(&["jobs", "tail", &id]).stdout(Stdio::piped()).spawn().unwrap();
    for line in ["one", "two"] {
        shop.say(&job, "heartbeat", json!({"log": [line]})).await;
    }
    shop.say(&job, "complete", json!({})).await;
    let ran = Ran::of(following.wait_with_output().await.unwrap()).expect(0);
    assert_eq!(ran.out, "one\ntwo\n");
    let as_json = shop.run(&["jobs", "tail", &id, "--json"]).await.expect(0);
    let lines: Vec<Value> = as_json.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 2);
    assert_eq!((&lines[0]["stream"], &lines[0]["position"]), (&json!("log"), &json!("1.1")));
    shop.run(&["jobs", "tail", &Uuid::new_v4().to_string()]).await.expect(5);
}

#[tokio::test(flavor = "multi_thread")]
async fn wait_shows_progress_on_a_terminal_and_how_each_job_ended() {
    let shop = Shop::open().await;
    let id = shop.enqueue().await;
    let job = shop.claim().await;
    shop.say(&job, "heartbeat", json!({"progress": {"percent": 40, "message": "reading"}})).await;
    // `script` runs it on its own terminal.
    let wait = format!("{} jobs wait {id}", env!("CARGO_BIN_EXE_windlass"));
    let mut terminal = tokio::process::Command::new("script");
    terminal
        .args(["-qefc", &wait, "/dev/null"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .kill_on_drop(true);
    terminal
        .env("WINDLASS_SERVER", &shop.server.base)
        .env("WINDLASS_TOKEN", shop.server.admin.token.as_deref().unwrap())
        .env("COLUMNS", "100")
        .env("TERM", "xterm");
    let mut terminal = terminal.spawn().expect("script is in Debian's package bsdutils");
    let mut out = terminal.stdout.take().unwrap();
    let mut shown = String::new();
    while !(shown.contains("40 %") && shown.contains("running: reading")) {
        let mut bytes = [0; 4096];
        let read = tokio::io::AsyncReadExt::read(&mut out, &mut bytes).await.unwrap();
        assert!(read > 0, "it ended before it showed the progress: {shown}");
        shown.push_str(&String::from_utf8_lossy(&bytes[..read]));
    }
    shop.say(&job, "complete", json!({})).await;
    let mut rest = String::new();
    tokio::io::AsyncReadExt::read_to_string(&mut out, &mut rest).await.unwrap();
    assert_eq!(terminal.wait().await.unwrap().code(), Some(0), "{rest}");
    assert!(rest.contains(&format!("{id} succeeded")), "{rest}");

    // Without a terminal only the ends are printed; 1 if one of them is not a success.
    let (good, bad) = (shop.enqueue().await, shop.enqueue().await);
    let first = shop.claim().await;
    shop.say(&first, "complete", json!({})).await;
    let second = shop.claim().await;
    shop.say(&second, "fail", json!({"error": "no paper", "retryable": false})).await;
    let ran = shop.run(&["jobs", "wait", &good, &bad]).await.expect(1);
    assert!(ran.out.contains(&format!("{good} succeeded")), "{ran:?}");
    assert!(ran.out.contains(&format!("{bad} failed: no paper")), "{ran:?}");
    assert!(ran.err.is_empty(), "no bar for a script: {}", ran.err);
    let as_json = shop.run(&["jobs", "wait", &good, "--json"]).await.expect(0).json();
    assert_eq!((&as_json["id"], &as_json["status"]), (&json!(good), &json!("succeeded")));
    let waits = shop.enqueue().await;
    let ran = shop.run(&["jobs", "wait", &waits, "--timeout", "0s"]).await.expect(1);
    assert!(
        ran.err.contains("the job has not ended; it is queued") && ran.err.contains("jobs show"),
        "{}",
        ran.err
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupt_ends_a_waiting_command_with_130() {
    let shop = Shop::open().await;
    let id = shop.enqueue().await;
    for verb in ["tail", "wait"] {
        let child = shop.command(&["jobs", verb, &id]).stdout(Stdio::piped()).spawn().unwrap();
        let pid = Pid::from_raw(i32::try_from(child.id().unwrap()).unwrap()).unwrap();
        let path = format!("/proc/{}/status", pid.as_raw_nonzero());
        // Bit 1 of the mask of caught signals is SIGINT: from then on it is handled.
        eventually("it handles signals", async || {
            let status = std::fs::read_to_string(&path).unwrap_or_default();
            let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap_or("0").trim();
            u64::from_str_radix(caught, 16).unwrap_or(0) & 2 != 0
        })
        .await;
        kill_process(pid, Signal::INT).unwrap();
        Ran::of(child.wait_with_output().await.unwrap()).expect(130);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_are_rotated_with_an_overlap_and_revoked() {
    let shop = Shop::open().await;
    let made = shop.run(&["tokens", "create", "ci", "--role", "viewer", "--json"]).await.expect(0).json();
    let (id, old) = (made["id"].as_str().unwrap(), made["token"].as_str().unwrap());
    let rotated = shop.run(&["tokens", "rotate", id, "--overlap-seconds", "600"]).await.expect(0);
    let new = rotated.out.trim();
    assert!(new.starts_with("wl_api_") && new != old, "the token alone on standard output: {rotated:?}");
    assert!(rotated.err.contains("cannot be shown again"), "{}", rotated.err);
    crate::support::secrets::issued(new);
    for token in [old, new] {
        shop.command(&["jobs", "list"])
            .env("WINDLASS_TOKEN", token)
            .output()
            .await
            .map(Ran::of)
            .unwrap()
            .expect(0);
    }
    shop.run(&["tokens", "rotate", id]).await.expect(6);
    assert_eq!(shop.run(&["tokens", "revoke", id]).await.expect(0).out, format!("{id} revoked\n"));
    let refused =
        shop.command(&["jobs", "list"]).env("WINDLASS_TOKEN", old).output().await.map(Ran::of).unwrap();
    refused.expect(4);
    for verb in ["revoke", "rotate"] {
        let missing = shop.run(&["tokens", verb, "0000000000000000"]).await.expect(5);
        assert!(missing.err.contains("token 0000000000000000 not found"), "{}", missing.err);
    }
    let listed = shop.run(&["tokens", "list", "--json"]).await.expect(0).json();
    let known = listed.as_array().unwrap().iter().find(|token| token["id"] == id).unwrap();
    assert!(!known["revoked_at"].is_null() && known.get("token").is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn workers_are_drained_and_resumed_and_queues_paused_and_resumed() {
    let shop = Shop::open().await;
    shop.enqueue().await;
    shop.claim().await;
    let workers = shop.run(&["workers", "list", "--json"]).await.expect(0).json();
    let id = workers[0]["worker_id"].as_str().unwrap();
    assert!(shop.run(&["workers", "drain", id]).await.expect(0).out.contains("draining"));
    assert!(shop.run(&["workers", "list"]).await.expect(0).out.contains("draining"));
    let output = shop.run(&["workers", "resume", id, "--json"]).await.expect(0).json();
    assert_eq!(output, json!({"worker_id": id, "is_draining": false}));
    assert!(shop.run(&["workers", "list"]).await.expect(0).out.contains("active"));
    let missing = shop.run(&["workers", "drain", "nobody"]).await.expect(5);
    assert!(missing.err.contains("worker nobody not found"), "{}", missing.err);
    let database = shop.server.queue.client().await;
    let stop = "update windlass.job_workers set stopped_at = clock_timestamp()";
    database.batch_execute(stop).await.unwrap();
    let stopped = shop.run(&["workers", "drain", id]).await.expect(6);
    assert!(stopped.err.contains(&format!("the worker {id} has stopped")), "{}", stopped.err);
    let queues = shop.run(&["queues", "list"]).await.expect(0).out;
    assert!(queues.contains("active") && !queues.contains("open"), "{queues}");
    assert_eq!(shop.run(&["queues", "pause", "default"]).await.expect(0).out, "default: paused\n");
    assert!(shop.run(&["queues", "list"]).await.expect(0).out.contains("paused"));
    let output = shop.run(&["queues", "resume", "default", "--json"]).await.expect(0).json();
    assert_eq!(output, json!({"name": "default", "is_paused": false}));
    // A name cannot leave its path segment.
    shop.run(&["queues", "pause", "x/../../tenants"]).await.expect(5);
}

#[tokio::test(flavor = "multi_thread")]
async fn many_jobs_are_canceled_and_retried_by_condition_and_counted_first() {
    let shop = Shop::open().await;
    let first = shop.enqueue().await;
    for _ in 0..1_500 / 500 {
        shop.server.queue.enqueue_many(&vec![NewJob::new("work").tag("bulk"); 500]).await.unwrap();
    }
    let dry = shop.run(&["jobs", "cancel", "--tag", "bulk", "--dry-run"]).await.expect(0);
    assert_eq!(dry.out, "cancel: 1000 or more jobs match\n");
    // More than one call accepts, in one command.
    let done = shop.run(&["jobs", "cancel", "--tag", "bulk"]).await.expect(0);
    assert_eq!(done.out, "cancel: 1500 of 1500 jobs\n");
    let retried =
        shop.run(&["jobs", "retry", "--status", "canceled", "--tag", "bulk", "--json"]).await.expect(0);
    assert_eq!(
        retried.json(),
        json!({"dry_run": false, "matched": 1500, "changed": 1500, "has_more": false})
    );
    let shown = shop.run(&["jobs", "show", &first, "--json"]).await.expect(0).json();
    assert_eq!(shown["job"]["status"], "queued", "jobs that do not match are unchanged");

    // By name: a job that cannot be changed does not block the others, and its exit code is the final one.
    let ids: Vec<String> = vec![first.clone(), Uuid::new_v4().to_string(), shop.enqueue().await];
    let ran = shop.run(&["jobs", "cancel", &ids[0], &ids[1], &ids[2]]).await.expect(5);
    assert_eq!(ran.out, format!("{} canceled\n{} canceled\n", ids[0], ids[2]));
    assert!(ran.err.contains(&ids[1]), "{}", ran.err);
    let both = shop.run(&["jobs", "retry", &ids[0], &ids[2], "--json"]).await.expect(0).json();
    assert_eq!(both, json!([{"id": ids[0], "outcome": "queued"}, {"id": ids[2], "outcome": "queued"}]));
    let again = shop.run(&["jobs", "retry", &ids[2], &ids[1]]).await.expect(6);
    assert_eq!(again.err, format!("{}: has not finished\n{}: job not found\n", ids[2], ids[1]));
    shop.run(&["jobs", "retry", &ids[0], "--tag", "bulk"]).await.expect(2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_is_deleted_only_with_yes() {
    let shop = Shop::open().await;
    shop.run(&["tenants", "create", "shop", "--max-queued", "10"]).await.expect(0);
    let asked = shop.run(&["tenants", "delete", "shop"]).await.expect(2);
    assert!(asked.err.contains("permanently") && asked.err.contains("--yes"), "{}", asked.err);
    let set = shop.run(&["tenants", "set", "shop", "--name", "The Shop", "--weight", "4", "--json"]).await;
    assert_eq!(set.expect(0).json()["weight"], 4);
    assert!(shop.run(&["tenants", "set", "shop"]).await.expect(2).err.contains("no changes specified"));
    let deleted = shop.run(&["tenants", "delete", "shop", "--yes"]).await.expect(0);
    assert_eq!(deleted.out, "shop is being deleted\n");
    assert!(shop.run(&["tenants", "list"]).await.expect(0).out.contains("deleting (0 jobs deleted)"));
    shop.run(&["tenants", "delete", "nobody", "--yes"]).await.expect(5);
    shop.run(&["tenants", "create", "held"]).await.expect(0);
    shop.run(&["holds", "place", "--everything", "--reason", "case 12", "--tenant", "held"]).await.expect(0);
    let blocked = shop.run(&["tenants", "delete", "held", "--yes"]).await.expect(0);
    assert_eq!(blocked.out, "held will be deleted when its legal holds are released\n");
    assert!(blocked.err.contains("windlass holds list --tenant held"), "{}", blocked.err);
    shop.run(&["holds", "list", "--tenant", "held"]).await.expect(0);
}

/// A terminal of 80 columns, and one that does not tell its width.
#[tokio::test(flavor = "multi_thread")]
async fn a_table_fits_a_terminal_without_breaking_an_id() {
    let shop = Shop::open().await;
    let key = "a-definition-with-a-long-name-that-fills-the-line";
    shop.server.queue.define(&Definition::new(key)).await.unwrap();
    let id = shop.run(&["jobs", "enqueue", key]).await.expect(0).out.trim().to_owned();
    for size in ["cols 80", "cols 0"] {
        let list =
            format!("stty {size}; {} jobs list --tenant default 2>/dev/null", env!("CARGO_BIN_EXE_windlass"));
        let mut terminal = tokio::process::Command::new("script");
        terminal
            .args(["-qefc", &list, "/dev/null"])
            .stdin(Stdio::null())
            .env("TERM", "dumb")
            .env_remove("COLUMNS");
        terminal
            .env("WINDLASS_SERVER", &shop.server.base)
            .env("WINDLASS_TOKEN", shop.server.admin.token.as_deref().unwrap());
        let shown = String::from_utf8(terminal.output().await.unwrap().stdout).unwrap();
        assert_eq!(shown.lines().count(), 2, "{size}: {shown}");
        assert!(
            shown.contains(&id) && shown.contains("a-definiti") && shown.contains("queued"),
            "{size}: {shown}"
        );
        assert!(shown.contains('…') && !shown.contains(key), "{size}: {shown}");
    }
    let piped = shop.run(&["jobs", "list", "--tenant", "default"]).await.expect(0).out;
    assert!(piped.contains(key) && piped.contains("SOURCE"), "{piped}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_is_shown_with_the_slug_of_its_tenant_and_the_duration_of_its_attempts() {
    let shop = Shop::open().await;
    let id = shop.enqueue().await;
    let job = shop.claim().await;
    shop.say(&job, "complete", json!({})).await;
    let shown = shop.run(&["jobs", "show", &id]).await.expect(0).out;
    assert!(shown.lines().any(|line| line.starts_with("tenant") && line.ends_with(" default")), "{shown}");
    assert!(shown.contains(", took ") && shown.contains(" s\n"), "{shown}");
}

/// Scripts read only JSON, from every command that prints a list or a result.
#[tokio::test(flavor = "multi_thread")]
async fn every_command_prints_json_with_the_flag() {
    let shop = Shop::open().await;
    let id = shop.enqueue().await;
    for arguments in [
        vec!["jobs", "list"],
        vec!["jobs", "show", &id],
        vec!["jobs", "enqueue", "work"],
        vec!["jobs", "cancel", &id],
        vec!["jobs", "retry", &id],
        vec!["summary"],
        vec!["summary", "--all"],
        vec!["definitions", "list"],
        vec!["tenants", "list"],
        vec!["tokens", "list"],
        vec!["queues", "list"],
        vec!["workers", "list"],
        vec!["audit", "list"],
        vec!["audit", "list", "--denied", "--actor", "anonymous"],
        vec!["top", "--once"],
        vec!["openapi"],
    ] {
        let with_flag: Vec<&str> = arguments.iter().copied().chain(["--json"]).collect();
        let ran = shop.run(&with_flag).await.expect(0);
        assert!(serde_json::from_str::<Value>(&ran.out).is_ok(), "{arguments:?}: {}", ran.out);
    }
    // The doctor reports that no worker has a handler for the job, which is a danger and exit code 1.
    let commands: [(&[&str], i32); 4] =
        [(&["doctor"], 1), (&["migrate"], 0), (&["audit", "verify"], 0), (&["keeper", "--once", "fold"], 0)];
    for (arguments, code) in commands {
        let url = shop.server.queue.url();
        let ran = windlass(arguments).args(["--json", "--database-url", url]).output().await.unwrap();
        let ran = Ran::of(ran).expect(code);
        assert!(serde_json::from_str::<Value>(&ran.out).is_ok(), "{arguments:?}: {}", ran.out);
    }
}

/// Code 7: an error of the server itself, which the caller cannot fix.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_error_has_its_own_exit_code_and_a_changed_trail_1() {
    let shop = Shop::open().await;
    let database = shop.server.queue.client().await;
    database.batch_execute("alter function windlass.tokens_of rename to gone").await.unwrap();
    let failed = shop.run(&["tokens", "list"]).await.expect(7);
    assert!(failed.err.contains("logged") && !failed.err.contains("tokens_of"), "{}", failed.err);
    shop.run(&["tenants", "create", "a"]).await.expect(0);
    eventually("the trail is chained", async || {
        shop.server.queue.seal_audit().await.unwrap();
        let query =
            "select (select count(*) from windlass.audit_seals) = (select count(*) from windlass.audit)";
        database.query_one(query, &[]).await.unwrap().get(0)
    })
    .await;
    let audit = async |arguments: &[&str]| {
        let all = [&["audit"], arguments, &["--database-url", shop.server.queue.url()]].concat();
        Ran::of(windlass(&all).output().await.unwrap())
    };
    let kept = audit(&["head"]).await.expect(0).out;
    let file = std::env::temp_dir().join(format!("checkpoint-{}", Uuid::now_v7()));
    std::fs::write(&file, format!("# kept\n{kept}")).unwrap();
    for checkpoint in [kept.as_str(), file.to_str().unwrap()] {
        audit(&["verify", "--checkpoint", checkpoint]).await.expect(0);
    }
    std::fs::write(&file, "nothing of ours").unwrap();
    let wrong = audit(&["verify", "--checkpoint", file.to_str().unwrap()]).await.expect(2);
    assert!(wrong.err.contains("windlass-audit-1"), "{}", wrong.err);
    assert!(audit(&["verify", "--checkpoint", "/nowhere"]).await.expect(2).err.contains("neither"));
    std::fs::remove_file(&file).unwrap();
    // The whole chain and its head in the database were removed: only the checkpoint reveals it.
    let emptied = "begin; set local session_replication_role = replica; delete from windlass.audit_seals;
        delete from windlass.audit_heads; delete from windlass.audit; commit";
    let tamper =
        "begin; set local session_replication_role = replica; update windlass.audit set actor = 'x'; commit";
    database.batch_execute(tamper).await.unwrap();
    assert!(audit(&["verify"]).await.expect(1).out.contains("was changed"));
    database.batch_execute(emptied).await.unwrap();
    audit(&["verify"]).await.expect(0);
    let found = audit(&["verify", "--checkpoint", &kept]).await.expect(1);
    assert!(found.out.contains("the chain does not contain this position"), "{}", found.out);
}

/// A caller that uses the default tenant by mistake gets a hint about the others.
#[tokio::test(flavor = "multi_thread")]
async fn an_empty_summary_suggests_all_tenants() {
    let shop = Shop::open().await;
    assert!(shop.run(&["summary"]).await.expect(0).err.contains("--all"));
    shop.enqueue().await;
    assert!(!shop.run(&["summary"]).await.expect(0).err.contains("--all"));
}
