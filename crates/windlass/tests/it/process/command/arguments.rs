//! A command gets exactly the elements of its payload (X-13).

use std::process::Command;

use serde_json::{Value, json};
use uuid::Uuid;
use windlass::worker::WorkerFile;
use windlass::{DEFAULT_TENANT, Definition};

use super::yard::{Yard, program};

const CONFIG: &str = r#"
[commands.echo]
argv = ["CHILD", "echo", "--tenant={tenant.id}", "--text={payload.text}", { optional = ["--more", "{payload.more}"] },
  { each = ["--tag={payload.tags}"] }, "--", "{payload.free}"]
tail = "256KiB"

[commands.strict]
argv = ["CHILD", "echo", "{payload.text}"]
schema = { type = "object", properties = { text = { type = "string", maxLength = 5 } }, required = ["text"], additionalProperties = false }
"#;

const CORPUS: [&str; 12] = [
    "",
    "-",
    "--",
    "--config=/etc/passwd",
    "@file",
    "$(id)",
    "`id`",
    "a\nb",
    "; rm -rf /",
    "\u{202e}abc",
    "%s%n",
    "é😀 '\"",
];

/// Random text, weighted towards characters that are known to break programs.
fn text() -> String {
    if rand::random_bool(0.5) {
        return CORPUS[rand::random_range(0..CORPUS.len())].to_owned();
    }
    // Any character but NUL, as often of one byte as of more.
    let any = || match rand::random::<u8>() {
        byte @ 1..=127 => char::from(byte),
        _ => rand::random::<char>(),
    };
    (0..rand::random_range(0..12)).map(|_| any()).filter(|letter| *letter != '\0').collect()
}

fn random_payload() -> (String, Option<String>, Vec<String>, String) {
    // A value alone before `--` must not start with a dash, or the job is rejected: another test checks that.
    let more = rand::random_bool(0.5).then(|| text().trim_start_matches('-').to_owned());
    (text(), more, (0..rand::random_range(0..4)).map(|_| text()).collect(), text())
}

fn payload_of((text, more, tags, free): &(String, Option<String>, Vec<String>, String)) -> Value {
    let mut payload = json!({"text": text, "tags": tags, "free": free});
    if let Some(more) = more {
        payload["more"] = json!(more);
    }
    payload
}

fn expected((text, more, tags, free): &(String, Option<String>, Vec<String>, String)) -> Vec<String> {
    let mut argv = vec![
        program("command-child"),
        "echo".to_owned(),
        format!("--tenant={DEFAULT_TENANT}"),
        format!("--text={text}"),
    ];
    argv.extend(more.iter().flat_map(|more| ["--more".to_owned(), more.clone()]));
    argv.extend(tags.iter().map(|tag| format!("--tag={tag}")));
    argv.extend(["--".to_owned(), free.clone()]);
    argv
}

fn echoed(output: &[u8]) -> Vec<String> {
    let mut printed: Vec<String> =
        output.split(|byte| *byte == 0).map(|part| String::from_utf8(part.to_vec()).unwrap()).collect();
    assert_eq!(printed.pop().as_deref(), Some(""), "a NUL follows the last");
    let argc: usize = printed.remove(0).parse().unwrap();
    assert_eq!(argc, printed.len());
    printed
}

/// The argv of fifty payloads go through one exec, each after its number of elements, and each is returned with its own argc and
/// its own elements: the kernel passes elements one by one, so fifty are as exact in one exec as in fifty.
#[test]
fn a_hundred_thousand_random_payloads_arrive_unchanged() {
    const PAYLOADS: usize = 100_000;
    const PER_EXEC: usize = 50;
    let file = WorkerFile::parse("test.toml", &CONFIG.replace("CHILD", &program("command-child"))).unwrap();
    let spec = &file.commands[0];
    for _ in 0..PAYLOADS / PER_EXEC {
        let payloads: Vec<_> = (0..PER_EXEC).map(|_| random_payload()).collect();
        let mut command = Command::new(program("command-child"));
        command.arg("echo-many").env_clear();
        for one in &payloads {
            let argv = spec.argv_for(DEFAULT_TENANT, Uuid::nil(), 1, &payload_of(one).to_string()).unwrap();
            command.arg(argv.len().to_string()).args(argv);
        }
        let output = command.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let mut printed = output.stdout.split(|byte| *byte == 0).map(|part| str::from_utf8(part).unwrap());
        for one in &payloads {
            let wanted = expected(one);
            assert_eq!(printed.next(), Some(wanted.len().to_string().as_str()), "argc of {one:?}");
            let arrived: Vec<&str> = printed.by_ref().take(wanted.len()).collect();
            assert_eq!(arrived, wanted, "{one:?}");
        }
        assert_eq!((printed.next(), printed.next()), (Some(""), None), "and nothing else");
    }
}

/// The same through the whole worker, one job each.
#[tokio::test(flavor = "multi_thread")]
async fn a_started_command_has_exactly_the_arguments_of_its_job() {
    let yard = Yard::new(CONFIG).await;
    let worker = yard.worker().await;
    let mut sent = Vec::new();
    for text in CORPUS {
        let one = (
            text.to_owned(),
            Some(text.trim_start_matches('-').to_owned()),
            vec![text.to_owned(); 2],
            text.to_owned(),
        );
        sent.push((yard.send("echo", payload_of(&one)).await, one));
    }
    for (job, one) in sent {
        let (_, attempts) = yard.ended(job, "succeeded").await;
        // NUL cannot be stored and was replaced, as were the control characters of the corpus: there are none but \n.
        let printed = attempts[0].stdout_tail.as_deref().unwrap().replace('\u{fffd}', "\0");
        assert_eq!(echoed(printed.as_bytes()), expected(&one));
    }
    worker.finish().await;
}

/// The SQL function cannot check a schema, so the worker does; and a value that would be parsed as an option is rejected.
#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_payload_is_rejected_before_anything_runs() {
    let yard = Yard::new(CONFIG).await;
    let worker = yard.worker().await;
    let through_sql = "select id from windlass.enqueue('strict', payload => '{\"text\": \"too long\"}')";
    let job: Uuid = yard.client.query_one(through_sql, &[]).await.unwrap().get(0);
    let (row, attempts) = yard.ended(job, "failed").await;
    assert!(row["last_error"].as_str().unwrap().contains("does not match the definition's schema"), "{row}");
    assert_eq!(attempts[0].pid, None);
    let (row, _) = yard.run("strict", json!({"text": "--x"}), "failed").await;
    let why = "cannot build the command from the payload: payload.text starts with `-`, which the command would read as an option";
    assert_eq!((row["last_error"].as_str(), row["reason"].as_str()), (Some(why), Some("permanent")));
    let too_long = windlass::NewJob::new("strict").payload(&json!({"text": "too long"}));
    assert!(yard.queue.enqueue(&too_long).await.is_err(), "and at enqueue");
    worker.finish().await;
}

/// A worker claims only its own keys; a job of another key stays queued and can be distinguished.
#[tokio::test(flavor = "multi_thread")]
async fn a_job_without_a_handler_stays_queued() {
    let yard = Yard::new(CONFIG).await;
    yard.queue.define(&Definition::new("elsewhere")).await.unwrap();
    let worker = yard.worker().await;
    let stays = yard.send("elsewhere", json!({})).await;
    yard.run("strict", json!({"text": "x"}), "succeeded").await;
    assert_eq!(crate::support::status(&yard.client, stays).await, "queued");
    assert_eq!(yard.queue.workers_for("elsewhere").await.unwrap(), []);
    assert_eq!(yard.queue.workers_for("strict").await.unwrap()[0].worker_id, worker.name);
    worker.finish().await;
}
