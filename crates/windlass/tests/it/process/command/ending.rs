//! How commands end, and what is stored of it.

use rustix::process::Signal;
use serde_json::json;
use windlass::DEFAULT_TENANT;
use windlass_testing::eventually;

use super::yard::{Yard, send_signal};
use crate::support::{attempts, until};

const CONFIG: &str = r#"
[commands.exit]
argv = ["/bin/sh", "-c", "echo out; echo oh no >&2; exit $1", "DIR", "{payload.code}"]
exit_codes = { "75" = { retry = "1ms" }, "64-78" = "permanent", "3" = "success", "4" = { snooze = "1ms" } }
max_attempts = 2

[commands.slow]
argv = ["/bin/sh", "-c", "echo $$ > DIR/pid; echo begun; while :; do sleep 1; done", "DIR"]
grace = "500ms"
timeout = "1s"
max_attempts = 1

[commands.long]
argv = ["/bin/sh", "-c", "echo $$ > DIR/pid; trap 'echo tidy; exit 1' TERM; while :; do sleep 0.1; done", "DIR"]

[commands.missing]
argv = ["/no/such/program"]
max_attempts = 1
"#;

#[tokio::test(flavor = "multi_thread")]
async fn exit_codes_have_the_documented_meaning() {
    let yard = Yard::new(CONFIG).await;
    let worker = yard.worker().await;
    let (row, attempt) = yard.run("exit", json!({"code": 0}), "succeeded").await;
    assert_eq!(row["last_error"], json!(null));
    assert_eq!((attempt.exit_code, attempt.signal), (Some(0), None));
    assert_eq!(
        (attempt.stdout_tail.as_deref(), attempt.stderr_tail.as_deref()),
        (Some("out\n"), Some("oh no\n"))
    );
    assert!(attempt.pid.unwrap() > 1 && attempt.max_rss_kb.unwrap() > 100, "{attempt:?}");
    assert!(attempt.finished_at >= attempt.started_at);

    let (row, attempt) = yard.run("exit", json!({"code": 64}), "failed").await;
    assert_eq!(
        (row["reason"].as_str(), row["last_error"].as_str()),
        (Some("permanent"), Some("exit code 64: oh no"))
    );
    assert_eq!(attempt.exit_code, Some(64));
    // A single code precedes a range.
    let (row, _) = yard.run("exit", json!({"code": 75}), "dead_letter").await;
    assert_eq!(row["attempt_count"], 2);
    yard.run("exit", json!({"code": 3}), "succeeded").await;
    let job = yard.send("exit", json!({"code": 4})).await;
    eventually("it snoozes twice", async || {
        attempts(&yard.client, job).await.iter().filter(|one| *one == "snoozed").count() >= 2
    })
    .await;
    yard.queue.cancel(DEFAULT_TENANT, job).await.unwrap();

    let (row, attempt) = yard.run("missing", json!({}), "dead_letter").await;
    assert!(row["last_error"].as_str().unwrap().starts_with("cannot start the command: "), "{row}");
    assert_eq!((attempt.pid, attempt.exit_code), (None, None));
    worker.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn signal_and_timeout_are_distinguished() {
    let yard = Yard::new(CONFIG).await;
    let worker = yard.worker().await;
    let (row, attempt) = yard.run("slow", json!({}), "dead_letter").await;
    assert_eq!((attempt.status.as_str(), attempt.stdout_tail.as_deref()), ("timeout", Some("begun\n")));
    assert_eq!((attempt.exit_code, attempt.signal), (None, Some(15)), "{row}");
    std::fs::remove_file(yard.directory.join("pid")).unwrap();

    let job = yard.send("slow", json!({})).await;
    send_signal(yard.pid_in("pid").await, Signal::KILL);
    let (row, attempts) = yard.ended(job, "dead_letter").await;
    assert_eq!((attempts[0].status.as_str(), attempts[0].signal), ("failed", Some(9)));
    assert_eq!(row["last_error"], "killed by signal 9: begun");
    worker.finish().await;
    yard.nothing_is_left().await;
}

/// Invariants 41 and 42.
#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_reaches_a_running_command_and_it_may_clean_up() {
    let yard = Yard::new(CONFIG).await;
    let worker = yard.worker().await;
    let job = yard.send("long", json!({})).await;
    yard.pid_in("pid").await;
    let asked_at = std::time::Instant::now();
    yard.queue.cancel(DEFAULT_TENANT, job).await.unwrap();
    let (_, attempts) = yard.ended(job, "canceled").await;
    assert!(asked_at.elapsed() < std::time::Duration::from_secs(4), "{:?}", asked_at.elapsed());
    assert_eq!(
        (attempts[0].status.as_str(), attempts[0].stdout_tail.as_deref()),
        ("canceled", Some("tidy\n"))
    );
    yard.nothing_is_left().await;
    worker.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopping_worker_releases_the_jobs_of_its_commands() {
    let yard = Yard::new(&format!("[worker]\ngrace = \"100ms\"\n{CONFIG}")).await;
    let worker = yard.worker().await;
    let job = yard.send("long", json!({})).await;
    yard.pid_in("pid").await;
    worker.finish().await;
    assert_eq!(until(&yard.client, job, "queued").await["attempt_count"], 1);
    assert_eq!(attempts(&yard.client, job).await, ["released"]);
    assert_eq!(yard.census(), [], "it was dead before the job was released");
}
