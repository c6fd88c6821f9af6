//! `windlass worker`, as an operator uses it: its file, its signals, its output.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Child;
use uuid::Uuid;
use windlass::job::{Job, State};
use windlass::{DEFAULT_TENANT, NewJob};
use windlass_testing::{TestQueue, eventually};

use crate::cli::{Ran, run, windlass};
use crate::support::TestServer;

const EXAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/zoltag/worker.toml");

#[tokio::test(flavor = "multi_thread")]
async fn the_four_commands_of_zoltag_run_as_configured() {
    let queue = TestQueue::create().await;
    let mut worker =
        Running::start(&queue, Path::new(EXAMPLE), &["--queues", "default,media", "--concurrency", "3"])
            .await;
    let provider = Uuid::new_v4();

    let synced =
        ended(&queue, "sync-dropbox", json!({"provider_id": provider, "path_prefix": "/2024 \"new\""})).await;
    assert_eq!((synced.status, &synced.result), (State::Succeeded, &Some(json!({"pictures": 24}))));
    assert_eq!(synced.progress_message.as_deref(), Some("12 of 24 pictures"));
    let attempt = queue.attempts(DEFAULT_TENANT, synced.id).await.unwrap().remove(0);
    let said = format!("syncing provider {provider} from /2024 \"new\" for tenant {DEFAULT_TENANT}\n");
    assert_eq!((attempt.stdout_tail, attempt.exit_code), (Some(said), Some(0)));
    let client = queue.client().await;
    eventually("the next job has run", async || {
        let next = "select count(*) from windlass.jobs where definition_key = 'recompute-zeroshot-tags' and status = 'succeeded' and parent_id = $1";
        client.query_one(next, &[&synced.id]).await.unwrap().get::<_, i64>(0) == 1
    })
    .await;

    let tagged = ended(&queue, "recompute-trained-tags", json!({"model": "clip"})).await;
    assert_eq!(tagged.result, Some(json!({"model": "clip"})));
    let refused = ended(&queue, "recompute-trained-tags", json!({"model": "$(id)"})).await;
    assert_eq!((refused.status, refused.reason.as_deref()), (State::Failed, Some("permanent")));
    let trained = ended(&queue, "train-keyword-models", json!({"keywords": ["red car", "-x"]})).await;
    assert_eq!(trained.artifact, Some(json!(format!("models/{DEFAULT_TENANT}.bin"))));
    let busy = queue
        .enqueue(
            &NewJob::new("sync-dropbox").payload(&json!({"provider_id": provider, "path_prefix": "/busy"})),
        )
        .await
        .unwrap();
    eventually("it is retried later", async || {
        queue.job(DEFAULT_TENANT, busy.id).await.unwrap().is_some_and(|job| job.status == State::Scheduled)
    })
    .await;
    let wrong = NewJob::new("sync-dropbox").payload(&json!({"provider_id": "not a uuid"}));
    assert!(queue.enqueue(&wrong).await.unwrap_err().to_string().contains("provider_id"));

    let row = client
        .query_one("select to_jsonb(w) from windlass.job_workers w where worker_id = $1", &[&worker.id])
        .await;
    let row: Value = row.unwrap().get(0);
    let (host, rest) = worker.id.split_once(':').unwrap();
    assert_eq!(
        (row["hostname"].as_str(), rest.split(':').next()),
        (Some(host), Some(worker.pid().to_string().as_str()))
    );
    assert_eq!(row["queues"], json!(["default", "media"]));
    assert_eq!(row["metadata"]["kinds"].as_array().unwrap().len(), 4);
    assert_eq!(worker.end(Signal::TERM).await, 0);
    // There is no terminal, so every line is JSON.
    for line in worker.said().lines() {
        assert!(serde_json::from_str::<Value>(line).is_ok(), "{line}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hang_up_loads_a_valid_file_and_ignores_an_invalid_one() {
    let queue = TestQueue::create().await;
    let scratch = Scratch::new("[commands.first]\nargv = [\"/bin/echo\", \"one\"]\n");
    let mut worker = Running::start(&queue, &scratch.file, &[]).await;
    assert_eq!(stdout_of(&queue, "first").await, "one\n");

    scratch.write("[commands.first]\nargv = [\"echo\"]\n");
    worker.signal(Signal::HUP);
    let file = scratch.file.display().to_string();
    eventually("it reports the error", async || {
        worker.said().contains(&format!("{file}:2: commands.first.argv[0]: must be a program"))
    })
    .await;
    assert_eq!(stdout_of(&queue, "first").await, "one\n");

    scratch.write("[commands.first]\nargv = [\"/bin/echo\", \"two\"]\n[commands.second]\nargv = [\"/bin/echo\", \"new\"]\n");
    worker.signal(Signal::HUP);
    eventually("the new file is used", async || worker.said().contains("reloaded the worker file")).await;
    assert_eq!(stdout_of(&queue, "second").await, "new\n");
    eventually("the old worker has stopped", async || queue.workers_for("first").await.unwrap().len() == 1)
        .await;
    assert_eq!(stdout_of(&queue, "first").await, "two\n");
    assert_eq!(worker.end(Signal::TERM).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drained_worker_finishes_and_claims_no_more() {
    let queue = TestQueue::create().await;
    let scratch = Scratch::new(
        "[commands.wait]\nargv = [\"/bin/sh\", \"-c\", \"while ! test -e DIR/go; do sleep 0.05; done\"]\n[commands.quick]\nargv = [\"/bin/true\"]\n",
    );
    let mut worker = Running::start(&queue, &scratch.file, &[]).await;
    let running = queue.enqueue(&NewJob::new("wait")).await.unwrap().id;
    eventually("it runs", async || status(&queue, running).await == State::Running).await;
    worker.signal(Signal::USR1);
    eventually("it reports it", async || worker.said().contains("no new jobs are claimed")).await;
    let waits = queue.enqueue(&NewJob::new("quick")).await.unwrap().id;
    fs::write(scratch.file.with_file_name("go"), "").unwrap();
    eventually("the running jobs have ended", async || status(&queue, running).await == State::Succeeded)
        .await;
    assert_eq!(status(&queue, waits).await, State::Queued);
    assert_eq!(worker.end(Signal::TERM).await, 0);
    let mut worker = Running::start(&queue, &scratch.file, &[]).await;
    eventually("another claims it", async || status(&queue, waits).await == State::Succeeded).await;
    assert_eq!(worker.end(Signal::INT).await, 0);
}

/// Over the API and by the command line, with the worker in a separate process.
#[tokio::test(flavor = "multi_thread")]
async fn an_operator_drains_and_resumes_a_worker() {
    let mut server = TestServer::start().await;
    let queue = &server.queue;
    let scratch = Scratch::new(
        "[worker]\nlease = \"3s\"\n[commands.wait]\nargv = [\"/bin/sh\", \"-c\", \"while ! test -e DIR/go; do sleep 0.05; done\"]\n[commands.quick]\nargv = [\"/bin/true\"]\n",
    );
    let mut worker = Running::start(queue, &scratch.file, &[]).await;
    let token = server.admin.token.clone().unwrap();
    for round in 1..=2 {
        let running = queue.enqueue(&NewJob::new("wait")).await.unwrap().id;
        eventually("it runs", async || status(queue, running).await == State::Running).await;
        let ask = async |verb: &str| match round {
            1 => {
                let path = format!("/api/v1/admin/workers/{}/{verb}", worker.id);
                server.admin.post(&path, &json!({})).await.expect(200);
            }
            _ => {
                let mut command = windlass(&["workers", verb, &worker.id, "--server", &server.base]);
                let asked = Ran::of(command.env("WINDLASS_TOKEN", &token).output().await.unwrap());
                asked.expect(0);
            }
        };
        let logged = |words: &str| worker.said().matches(words).count() == round;
        ask("drain").await;
        eventually("it is notified", async || logged("drained by an operator: claims no more jobs")).await;
        let waits = queue.enqueue(&NewJob::new("quick")).await.unwrap().id;
        fs::write(scratch.file.with_file_name("go"), "").unwrap();
        eventually("the running jobs have ended", async || status(queue, running).await == State::Succeeded)
            .await;
        fs::remove_file(scratch.file.with_file_name("go")).unwrap();
        // It continues to send heartbeats, and claims nothing.
        let seen = async || {
            let listed = server.admin.get("/api/v1/admin/workers").await.expect(200);
            let workers = listed["workers"].as_array().unwrap().clone();
            workers.into_iter().find(|one| one["worker_id"] == worker.id.as_str()).unwrap()
        };
        let before = seen().await;
        assert_eq!(before["status"], "draining");
        eventually("it has sent another heartbeat", async || {
            seen().await["last_seen_at"] != before["last_seen_at"]
        })
        .await;
        assert_eq!(status(queue, waits).await, State::Queued);
        ask("resume").await;
        eventually("it is notified of that", async || logged("resumed by an operator")).await;
        eventually("it claims jobs again", async || status(queue, waits).await == State::Succeeded).await;
        assert_eq!(seen().await["status"], "active");
    }
    assert_eq!(worker.end(Signal::TERM).await, 0);
    server.stop().await;
}

/// The new worker and the one it replaces share the slots while the old jobs end.
#[tokio::test(flavor = "multi_thread")]
async fn a_hang_up_does_not_double_the_concurrency() {
    let queue = TestQueue::create().await;
    let wait = "[commands.wait]\nargv = [\"/bin/sh\", \"-c\", \"while ! test -e DIR/$0; do sleep 0.05; done\", \"{payload.until}\"]\n";
    let scratch = Scratch::new(&format!("[worker]\nconcurrency = 3\nlease = \"3s\"\n{wait}"));
    let mut worker = Running::start(&queue, &scratch.file, &[]).await;
    let mut jobs = Vec::new();
    for n in 0..8 {
        let new = NewJob::new("wait").payload(&json!({"until": if n == 0 { "first" } else { "rest" }}));
        jobs.push(queue.enqueue(&new).await.unwrap().id);
    }
    let client = queue.client().await;
    let running = async || {
        client.query_one("select count(*) from windlass.running", &[]).await.unwrap().get::<_, i64>(0)
    };
    eventually("it is full", async || running().await == 3).await;
    worker.signal(Signal::HUP);
    eventually("the new file is used", async || worker.said().contains("reloaded the worker file")).await;
    let waiting =
        "select count(*) from windlass.job_workers where stopped_at is null and last_seen_at > started_at";
    eventually("the new worker has worked for a while", async || {
        assert_eq!(running().await, 3, "no more at once than before");
        client.query_one(waiting, &[]).await.unwrap().get::<_, i64>(0) == 2
    })
    .await;
    fs::write(scratch.file.with_file_name("first"), "").unwrap();
    eventually("the slot of the ended job is used by the new worker", async || {
        let holders = "select count(distinct worker), count(*) from windlass.running";
        let row = client.query_one(holders, &[]).await.unwrap();
        assert!(row.get::<_, i64>(1) <= 3);
        (row.get(0), row.get(1)) == (2_i64, 3_i64)
    })
    .await;
    fs::write(scratch.file.with_file_name("rest"), "").unwrap();
    for job in jobs {
        eventually("all are done", async || status(&queue, job).await == State::Succeeded).await;
    }
    assert_eq!(worker.end(Signal::TERM).await, 0);
}

/// On a terminal: one line that is updated, and no JSON.
#[tokio::test(flavor = "multi_thread")]
async fn progress_is_shown_on_a_terminal() {
    let queue = TestQueue::create().await;
    let scratch = Scratch::new(
        "[commands.good]\nargv = [\"/bin/true\"]\n[commands.bad]\nargv = [\"/bin/false\"]\nmax_attempts = 1\n",
    );
    let call = ["worker", "--config", scratch.file.to_str().unwrap(), "--database-url", queue.url()];
    let call: Vec<String> =
        [env!("CARGO_BIN_EXE_windlass")].iter().chain(&call).map(|part| format!("'{part}'")).collect();
    let seen = scratch.file.with_file_name("seen");
    // `script` runs it on its own terminal and records the output.
    let mut terminal = tokio::process::Command::new("/usr/bin/script")
        .args(["--quiet", "--flush", "--return", "--command", &call.join(" "), seen.to_str().unwrap()])
        .env("TERM", "xterm")
        .env("COLUMNS", "200")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let shown = || String::from_utf8_lossy(&fs::read(&seen).unwrap_or_default()).into_owned();
    eventually("it is ready", async || shown().contains("ready: ") && shown().contains("waiting for jobs"))
        .await;
    ended(&queue, "good", json!({})).await;
    eventually("a success is counted", async || shown().contains("1 succeeded · 0 other outcomes · good "))
        .await;
    ended(&queue, "bad", json!({})).await;
    eventually("so is the other", async || shown().contains("1 succeeded · 1 other outcomes · bad ")).await;
    let ready = shown();
    let pid = ready.split("ready: ").nth(1).unwrap().split(':').nth(1).unwrap().parse::<i32>().unwrap();
    kill_process(Pid::from_raw(pid).unwrap(), Signal::TERM).unwrap();
    assert!(terminal.wait().await.unwrap().success(), "{}", shown());
    for line in shown().lines() {
        assert!(serde_json::from_str::<Value>(line.trim()).is_err(), "not for a terminal: {line}");
    }
}

#[tokio::test]
async fn an_invalid_file_is_reported_by_line_and_key() {
    let scratch = Scratch::new(
        "[worker]\nconcurrency = 2\n\n[commands.a]\nargv = [\"/bin/true\"]\nlimits = { memroy = \"1GB\" }\n",
    );
    let file = scratch.file.to_str().unwrap();
    let message = run(&["worker", "--config", file]).await.expect(2).err;
    assert!(message.contains(&format!("{file}:6: commands.a.limits.memroy: unknown key")), "{message}");
    scratch.write("[commands.a]\nargv = [\"/bin/true\"]\n[http.b]\nurl = \"https://example.com\"\n");
    let good = run(&["worker", "--config", file, "--check"]).await.expect(0).out;
    assert_eq!(good, format!("{file}: valid; handles a, b\n"));
    let message = run(&["worker", "--config", "/no/such/file"]).await.expect(2).err;
    assert!(message.contains("cannot read /no/such/file"), "{message}");
    assert!(run(&["worker"]).await.expect(2).err.contains("no worker file is specified"));
}

async fn ended(queue: &TestQueue, key: &str, payload: Value) -> Job {
    let id = queue.enqueue(&NewJob::new(key).payload(&payload)).await.unwrap().id;
    eventually(&format!("{key} has ended"), async || status(queue, id).await.is_terminal()).await;
    queue.job(DEFAULT_TENANT, id).await.unwrap().unwrap()
}

async fn stdout_of(queue: &TestQueue, key: &str) -> String {
    let job = ended(queue, key, json!({})).await;
    queue.attempts(DEFAULT_TENANT, job.id).await.unwrap().remove(0).stdout_tail.unwrap()
}

async fn status(queue: &TestQueue, id: Uuid) -> State {
    queue.job(DEFAULT_TENANT, id).await.unwrap().unwrap().status
}

/// A `windlass worker` of one test.
struct Running {
    child: Child,
    id: String,
    words: PathBuf,
}

impl Running {
    async fn start(queue: &TestQueue, file: &Path, more: &[&str]) -> Self {
        let words = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{}.words", Uuid::new_v4().simple()));
        let mut command =
            windlass(&["worker", "--config", file.to_str().unwrap(), "--database-url", queue.url()]);
        command.args(more).stdout(Stdio::piped()).stderr(fs::File::create(&words).unwrap());
        let mut child = command.spawn().unwrap();
        let first = BufReader::new(child.stdout.take().unwrap()).lines().next_line().await.unwrap();
        let said = fs::read_to_string(&words).unwrap();
        let first = first.unwrap_or_else(|| panic!("it ended before it was ready: {said}"));
        let id = first.strip_prefix("ready: ").unwrap_or_else(|| panic!("{first:?}")).to_owned();
        Self { child, id, words }
    }

    fn pid(&self) -> i32 {
        i32::try_from(self.child.id().unwrap()).unwrap()
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_raw(self.pid()).unwrap(), signal).unwrap();
    }

    async fn end(&mut self, signal: Signal) -> i32 {
        self.signal(signal);
        self.child.wait().await.unwrap().code().unwrap_or(-1)
    }

    fn said(&self) -> String {
        fs::read_to_string(&self.words).unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.words);
    }
}

/// A directory with a worker file; `DIR` in it becomes the directory.
struct Scratch {
    file: PathBuf,
}

impl Scratch {
    fn new(text: &str) -> Self {
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(Uuid::new_v4().simple().to_string());
        fs::create_dir_all(&directory).unwrap();
        let scratch = Self { file: directory.join("worker.toml") };
        scratch.write(text);
        scratch
    }

    fn write(&self, text: &str) {
        let directory = self.file.parent().unwrap().to_str().unwrap();
        fs::write(&self.file, text.replace("DIR", directory)).unwrap();
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(self.file.parent().unwrap());
    }
}
