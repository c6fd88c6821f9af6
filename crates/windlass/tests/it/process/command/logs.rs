//! The output of commands, followed and stored: live, in order, without secrets.

use serde_json::json;
use windlass::DEFAULT_TENANT;
use windlass::job::{LogPosition, LogStream};

use super::yard::Yard;
use crate::support::{count, until};

const CONFIG: &str = r#"
[commands.steps]
argv = ["/bin/sh", "-c", "for n in 1 2 3; do echo step $n; while ! test -e DIR/go$n; do sleep 0.02; done; done; echo done >&2", "DIR"]

[commands.quick]
argv = ["/bin/sh", "-c", "echo out; echo err >&2"]

[commands.leak]
argv = ["/bin/sh", "-c", '''
printf 's3cr3t-'; sleep 0.4; echo from-env
echo "$TOKEN" | base64
echo "$TOKEN" >&2
echo "card 4111-1111-1111-1111"
echo "$1"
printf '{{"result": {{"token": "%s"}}, "progress": {{"percent": 1, "message": "with %s"}}}}\n' "$TOKEN" "$TOKEN" > "$WINDLASS_REPORT"
exit "$2"''', "DIR", "{payload.api_key}", "{payload.code}"]
set = { PATH = "/usr/bin:/bin" }
secrets = { TOKEN = { env = "A_SECRET" } }
redact = ['\d{4}-\d{4}-\d{4}-\d{4}']
report = true
max_attempts = 1
"#;

#[tokio::test(flavor = "multi_thread")]
async fn the_lines_of_a_running_command_are_followed_live() {
    let yard = Yard::new(CONFIG).await;
    let worker = yard.worker().await;
    let job = yard.send("steps", json!({})).await;
    let mut follower = yard.queue.follow_log(DEFAULT_TENANT, job, LogPosition::default());
    for n in 1..=3 {
        let chunks = follower.next().await.unwrap().unwrap();
        assert_eq!(
            (chunks[0].text.as_str(), chunks[0].stream),
            (format!("step {n}\n").as_str(), LogStream::Stdout)
        );
        // Only then it continues, so each line is read while the command runs.
        std::fs::write(yard.directory.join(format!("go{n}")), "").unwrap();
    }
    let last = follower.next().await.unwrap().unwrap();
    assert_eq!((last[0].text.as_str(), last[0].stream), ("done\n", LogStream::Stderr));
    assert_eq!(follower.next().await.unwrap(), None);
    worker.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_short_command_writes_no_log_rows_and_can_be_read() {
    let yard = Yard::new(CONFIG).await;
    let worker = yard.worker().await;
    let job = yard.send("quick", json!({})).await;
    until(&yard.client, job, "succeeded").await;
    assert_eq!(count(&yard.client, "select count(*) from windlass.job_log").await, 0);
    let page = yard.queue.read_log(DEFAULT_TENANT, job, LogPosition::default()).await.unwrap();
    let texts: Vec<(LogStream, &str)> =
        page.chunks.iter().map(|chunk| (chunk.stream, chunk.text.as_str())).collect();
    assert_eq!(texts, [(LogStream::Stdout, "out\n"), (LogStream::Stderr, "err\n")]);
    assert!(page.is_over);
    worker.finish().await;
}

/// Invariant 46, searched in every row of every table.
#[tokio::test(flavor = "multi_thread")]
async fn no_secret_is_found_anywhere_in_the_database() {
    let yard = Yard::new(CONFIG).await;
    let worker = yard.worker().await;
    for code in [0, 1] {
        let status = if code == 0 { "succeeded" } else { "dead_letter" };
        let payload = json!({"api_key": "k3y-of-the-payload", "code": code});
        let (row, attempt) = yard.run("leak", payload, status).await;
        let out = attempt.stdout_tail.unwrap();
        assert_eq!(out.lines().next(), Some("[redacted]"), "{out}");
        assert!(out.contains("card [redacted]\n") && out.ends_with("[redacted]\n"), "{out}");
        assert_eq!(row["progress_message"], "with [redacted]");
        if code == 0 {
            assert_eq!(row["result"], json!({"token": "[redacted]"}));
        } else {
            assert_eq!(row["last_error"], "exit code 1: [redacted]");
        }
    }
    // The payload itself belongs to the caller; everything else was written by windlass.
    yard.client.batch_execute("update windlass.job set payload = '{}'").await.unwrap();
    let everything = crate::support::everything(&yard.client).await;
    for secret in ["s3cr3t-from-env", "czNjcjN0LWZyb20tZW52", "4111-1111", "k3y-of-the-payload"] {
        assert!(!everything.contains(secret), "{secret} was stored");
    }
    worker.finish().await;
}
