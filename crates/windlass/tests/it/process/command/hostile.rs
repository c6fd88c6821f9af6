//! Commands that misbehave. The worker survives, and no process is left (X-14, X-15).

use std::time::Instant;

use serde_json::{Value, json};
use windlass_testing::{eventually, times};

use super::yard::Yard;

const CONFIG: &str = r#"
[commands.dump]
argv = ["CHILD", "dump"]
env = ["VISIBLE", "NOT_THERE"]
set = { JOB = "{job.id}", PATH = "/usr/bin:/bin" }
secrets = { TOKEN = { env = "A_SECRET" } }

[commands.dump-report]
argv = ["CHILD", "dump"]
report = true

[commands.bomb]
argv = ["/bin/sh", "-c", "b() {{ if test $1 -gt 0; then b $(($1 - 1)) & b $(($1 - 1)) & fi; sleep 30; }}; b 9", "DIR"]
limits = { processes = 50 }
timeout = "30s"
max_attempts = 1

[commands.allocate]
argv = ["CHILD", "allocate", "{payload.bytes}"]
limits = { memory = "200MB" }
exit_codes = { "12" = "permanent" }

[commands.deaf]
argv = ["/bin/sh", "-c", "trap '' TERM; echo deaf; while :; do sleep 1; done", "DIR"]
timeout = "1s"
grace = "500ms"
max_attempts = 1

[commands.keeper]
argv = ["/bin/sh", "-c", "setsid /bin/sh -c 'trap \"\" TERM; while :; do sleep 1; done' DIR & echo parent; exit 0", "DIR"]

[commands.print]
argv = ["CHILD", "print", "{payload.bytes}"]
secrets = { TOKEN = { env = "A_SECRET", inject = false } }

[commands.print-limited]
argv = ["CHILD", "print", "{payload.bytes}"]
limits = { output = "1MB" }
max_attempts = 1

[commands.files]
argv = ["/bin/sh", "-c", "ulimit -n; ulimit -t; ulimit -c; pwd; ls -ld ."]
limits = { open_files = 20, cpu_seconds = 5 }

[commands.spin]
argv = ["/bin/sh", "-c", "while :; do :; done", "DIR"]
limits = { cpu_seconds = 1 }
max_attempts = 1
"#;

#[tokio::test(flavor = "multi_thread")]
async fn a_command_gets_exactly_the_environment_and_descriptors_it_is_given() {
    let yard = Yard::new(CONFIG).await;
    let worker = yard.worker().await;
    let (row, attempt) = yard.run("dump", json!({}), "succeeded").await;
    let dump: Value = serde_json::from_str(&attempt.stdout_tail.unwrap()).unwrap();
    let job = row["id"].as_str().unwrap();
    assert_eq!(
        dump["env"],
        json!([format!("JOB={job}"), "PATH=/usr/bin:/bin", "TOKEN=[redacted]", "VISIBLE=seen"])
    );
    assert_eq!(dump["fds"], json!([0, 1, 2]));
    assert_eq!(dump["no_new_privs"], "NoNewPrivs:\t1");
    // A session that is not the worker's, and its own group.
    let stat: Vec<i32> = dump["stat"]
        .as_str()
        .unwrap()
        .rsplit(')')
        .next()
        .unwrap()
        .split_whitespace()
        .skip(1)
        .take(3)
        .map(|n| n.parse().unwrap())
        .collect();
    assert_eq!((Some(stat[1]), stat[2]), (attempt.pid, stat[0]), "group and session");
    assert_eq!(worker.shims(), [stat[0]]);
    let cwd = std::path::PathBuf::from(dump["cwd"].as_str().unwrap());
    assert!(cwd.starts_with(std::env::temp_dir()) && cwd.is_absolute(), "its own directory: {cwd:?}");

    let (_, attempt) = yard.run("dump-report", json!({}), "succeeded").await;
    let dump: Value = serde_json::from_str(&attempt.stdout_tail.unwrap()).unwrap();
    assert_eq!((&dump["env"], &dump["fds"]), (&json!(["WINDLASS_REPORT=/dev/fd/3"]), &json!([0, 1, 2, 3])));
    worker.finish().await;
    eventually("the directory is removed with its supervisor", async || !cwd.exists()).await;
}

/// It doubles until it is stopped, or until a thousand: a failing test must leave the machine usable.
#[tokio::test(flavor = "multi_thread")]
async fn a_fork_bomb_is_stopped() {
    let yard = Yard::new(CONFIG).await;
    let worker = yard.worker().await;
    let (row, attempt) = yard.run("bomb", json!({}), "dead_letter").await;
    assert_eq!(
        row["last_error"], "the command exceeded its limit of 50 processes and was killed",
        "{attempt:?}"
    );
    yard.nothing_is_left().await;
    worker.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_gigabytes_cannot_be_allocated() {
    let yard = Yard::new(CONFIG).await;
    let worker = yard.worker().await;
    let (row, attempt) = yard.run("allocate", json!({"bytes": 10_000_000_000_u64}), "failed").await;
    assert_eq!((attempt.exit_code, row["last_error"].as_str()), (Some(12), Some("exit code 12: no memory")));
    let (_, attempt) = yard.run("allocate", json!({"bytes": 100_000_000}), "succeeded").await;
    assert!((95_000..250_000).contains(&attempt.max_rss_kb.unwrap()), "{attempt:?}");
    worker.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_hold_in_the_command_itself() {
    let yard = Yard::new(CONFIG).await;
    let worker = yard.worker().await;
    let (_, attempt) = yard.run("files", json!({}), "succeeded").await;
    let output = attempt.stdout_tail.unwrap();
    let lines: Vec<&str> = output.lines().collect();
    assert_eq!(lines[..3], ["20", "5", "0"]);
    assert!(lines[3].contains("windlass-") && lines[4].starts_with("drwx------"), "{output}");
    let (_, attempt) = yard.run("spin", json!({}), "dead_letter").await;
    assert!(matches!(attempt.signal, Some(24 | 9)), "{attempt:?}");
    worker.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_ignores_sigterm_is_killed_after_its_grace() {
    let yard = Yard::new(CONFIG).await;
    let worker = yard.worker().await;
    let (_, attempt) = yard.run("deaf", json!({}), "dead_letter").await;
    assert_eq!((attempt.status.as_str(), attempt.signal), ("timeout", Some(9)));
    yard.nothing_is_left().await;
    worker.finish().await;
}

/// F-28: in other systems a 2 s timeout took 300 s because a grandchild held the pipe.
#[tokio::test(flavor = "multi_thread")]
async fn a_grandchild_that_keeps_the_pipe_open_delays_nothing() {
    let yard = Yard::new(CONFIG).await;
    let worker = yard.worker().await;
    let began = Instant::now();
    let (_, attempt) = yard.run("keeper", json!({}), "succeeded").await;
    assert_eq!(attempt.stdout_tail.as_deref(), Some("parent\n"));
    assert!(began.elapsed().as_secs() < 5, "{:?}", began.elapsed());
    assert_eq!(yard.census(), []);
    worker.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn large_output_uses_bounded_memory_and_rows() {
    let yard = Yard::new(CONFIG).await;
    let worker = yard.worker().await;
    let rss = || {
        let status = std::fs::read_to_string(format!("/proc/{}/status", worker.pid)).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmHWM")).unwrap().to_owned();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap()
    };
    yard.run("print", json!({"bytes": 1000}), "succeeded").await;
    let before = rss();
    let bytes = times(1 << 27, 1 << 30);
    let job = yard.send("print", json!({"bytes": bytes})).await;
    eventually("it prints", async || {
        yard.client.query_one("select count(*) from windlass.job_log", &[]).await.unwrap().get::<_, i64>(0)
            > 0
    })
    .await;
    let (_, attempts) = yard.ended(job, "succeeded").await;
    let tail = attempts[0].stdout_tail.as_deref().unwrap();
    assert!(
        tail.len() <= 64 * 1024 && tail.len() > 60 * 1024 && tail.ends_with("\nthe end\n"),
        "{}",
        tail.len()
    );
    let printed = bytes + "the end\n".len();
    assert!(tail.starts_with(&format!("…[truncated, {printed} bytes]\n")), "{}", &tail[..60]);
    assert!(rss() < before + 40_000, "the worker grew from {before} to {} kB", rss());
    let row =
        yard.client.query_one("select sum(length(text)), count(*) from windlass.job_log", &[]).await.unwrap();
    let (kept, rows): (i64, i64) = (row.get(0), row.get(1));
    assert!(kept <= 1 << 20 && rows < 400, "{kept} bytes in {rows} rows");
    let (row, _) = yard.run("print-limited", json!({"bytes": 1 << 30}), "dead_letter").await;
    assert_eq!(row["last_error"], "the command exceeded its output limit of 1000000 bytes and was killed");
    worker.finish().await;
}
