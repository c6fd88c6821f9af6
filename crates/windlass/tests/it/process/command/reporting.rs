//! The reports of commands, as described in `docs/commands.md`: its own examples are run.

use serde_json::{Value, json};

use super::yard::Yard;
use crate::support::{attempts, count};

/// The first block of this language in the document.
fn example(language: &str) -> String {
    let document = include_str!("../../../../../../docs/commands.md");
    let after =
        document.split(&format!("```{language}\n")).nth(1).unwrap_or_else(|| panic!("no {language} example"));
    after.split("```").next().unwrap().to_owned()
}

const CONFIG: &str = r#"
[commands.shell]
argv = ["/bin/sh", "DIR/example.sh"]
report = true

[commands.python]
argv = ["/usr/bin/env", "python3", "DIR/example.py"]
set = { PATH = "/usr/local/bin:/usr/bin:/bin" }
report = true

[commands.nonsense]
argv = ["/bin/sh", "-c", 'echo "{{\"reslut\": 1}}" > "$WINDLASS_REPORT"']
report = true
max_attempts = 1

[commands.snooze]
argv = ["/bin/sh", "-c", 'test "$1" = 1 && echo "{{\"snooze_seconds\": 0}}" > "$WINDLASS_REPORT"; exit 0', "x", "{attempt}"]
report = true

[commands.reads]
argv = ["/bin/cat"]
stdin = "payload"
"#;

#[tokio::test(flavor = "multi_thread")]
async fn the_documented_examples_report_what_is_documented() {
    let yard = Yard::new(CONFIG).await;
    std::fs::write(yard.directory.join("example.sh"), example("sh")).unwrap();
    std::fs::write(yard.directory.join("example.py"), example("python")).unwrap();
    yard.queue.define(&windlass::Definition::new("send-email")).await.unwrap();
    let worker = yard.worker().await;
    for (done, key) in ["shell", "python"].into_iter().enumerate() {
        let (row, attempt) = yard.run(key, json!({}), "succeeded").await;
        let progress = (&row["progress_percent"], &row["progress_message"]);
        assert_eq!(progress, (&json!(50), &json!("half way")), "{attempt:?}");
        let of_attempt = (attempt.progress_percent, attempt.progress_message.as_deref());
        assert_eq!(of_attempt, (Some(50.0), Some("half way")));
        assert_eq!(
            (&row["result"], &row["artifact"]),
            (&json!({"files": 12}), &json!("s3://bucket/report.pdf"))
        );
        let next = "select count(*) from windlass.jobs where definition_key = 'send-email' and payload = '{\"to\": \"zoe@example.com\"}'";
        assert_eq!(count(&yard.client, next).await, i64::try_from(done + 1).unwrap());
    }
    worker.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_report_fails_the_attempt() {
    let yard = Yard::new(CONFIG).await;
    let worker = yard.worker().await;
    let (row, _) = yard.run("nonsense", json!({}), "dead_letter").await;
    assert!(
        row["last_error"].as_str().unwrap().starts_with("report line 1: unknown field `reslut`"),
        "{row}"
    );
    let job = yard.send("snooze", json!({})).await;
    yard.ended(job, "succeeded").await;
    assert_eq!(attempts(&yard.client, job).await, ["snoozed", "succeeded"]);
    worker.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_payload_of_any_size_is_read_from_standard_input() {
    let yard = Yard::new(CONFIG).await;
    let worker = yard.worker().await;
    let payload = json!({"text": "x".repeat(200_000), "n": 1});
    let (_, attempt) = yard.run("reads", payload, "succeeded").await;
    assert!(attempt.stdout_tail.unwrap().starts_with("…[truncated, 2000"));
    let (_, attempt) = yard.run("reads", json!({"a": [1, "é"]}), "succeeded").await;
    assert_eq!(serde_json::from_str::<Value>(&attempt.stdout_tail.unwrap()).unwrap(), json!({"a": [1, "é"]}));
    worker.finish().await;
}
