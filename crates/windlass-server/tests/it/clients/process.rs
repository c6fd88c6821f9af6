//! A worker written with each client runs jobs of every kind, and a program enqueues and waits.

mod documents;
mod packages;

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::process::{Child, Command};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;
use windlass::job::{Backoff, Job, State};
use windlass::keeper::{Keeper, KeeperSettings};
use windlass::{DEFAULT_TENANT, Definition, NewJob};
use windlass_server::auth::Role;
use windlass_testing::eventually;

use crate::support::TestServer;

const KEYS: [&str; 10] = [
    "succeeds",
    "follows",
    "fails_once",
    "waits",
    "refuses",
    "retries",
    "unwritable",
    "hangs",
    "extract_audio",
    "analyze",
];

/// The lease of the jobs of the workers in `programs`.
const LEASE_SECONDS: i64 = 3;

/// One of the clients: how its programs are run.
struct Language {
    program: &'static str,
    folder: &'static str,
    programs: &'static str,
    suffix: &'static str,
    worker_id: &'static str,
}

const PYTHON: Language = Language {
    program: "python3",
    folder: "clients/python",
    programs: "tests/programs",
    suffix: "py",
    worker_id: "python-test",
};
const TYPESCRIPT: Language = Language {
    program: "node",
    folder: "clients/typescript",
    programs: "test/programs",
    suffix: "js",
    worker_id: "node-test",
};

struct Stage {
    server: TestServer,
    stop: CancellationToken,
    keeping: tokio::task::JoinHandle<()>,
}

impl Stage {
    async fn start() -> Self {
        let server = TestServer::start().await;
        let soon = Backoff::fixed(Duration::from_millis(10)).jitter(0.0);
        for key in KEYS {
            server.queue.define(&Definition::new(key).backoff(soon)).await.unwrap();
        }
        let often = Duration::from_millis(50);
        let settings = KeeperSettings::default().promote(often).reap(often);
        let stop = CancellationToken::new();
        let keeping = tokio::spawn(Keeper::new(server.queue.queue().clone(), settings).run(stop.clone()));
        Self { server, stop, keeping }
    }

    async fn spawn(&self, language: &Language, program: &str, role: Role) -> Child {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(language.folder);
        let token = self.server.client(DEFAULT_TENANT, role).await.token.unwrap();
        let operator = self.server.client(DEFAULT_TENANT, Role::Operator).await.token.unwrap();
        Command::new(language.program)
            .arg(root.join(language.programs).join(format!("{program}.{}", language.suffix)))
            .env("PYTHONPATH", &root)
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .env("WINDLASS_SERVER", &self.server.base)
            .env("WINDLASS_TOKEN", token)
            .env("WINDLASS_OPERATOR_TOKEN", operator)
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .kill_on_drop(true)
            .spawn()
            .unwrap_or_else(|error| panic!("{} cannot be started: {error}", language.program))
    }

    async fn enqueue(&self, key: &str) -> Uuid {
        let job = NewJob::new(key).payload(&json!({"n": 1})).max_attempts(3);
        self.server.queue.enqueue(&job).await.unwrap().id
    }

    async fn job(&self, id: Uuid) -> Job {
        self.server.queue.job(DEFAULT_TENANT, id).await.unwrap().unwrap()
    }

    async fn until(&self, id: Uuid, state: State) -> Job {
        eventually(&format!("job {id} is {state}"), async || self.job(id).await.status == state).await;
        self.job(id).await
    }

    async fn end(mut self) {
        self.stop.cancel();
        self.keeping.await.unwrap();
        self.server.stop().await;
    }
}

async fn a_worker_runs_jobs_of_every_kind(language: &Language) {
    let stage = Stage::start().await;
    let mut worker = stage.spawn(language, "worker", Role::Worker).await;
    let succeeds = stage.enqueue("succeeds").await;
    let [fails_once, waits, refuses, retries, unwritable, hangs] = [
        stage.enqueue("fails_once").await,
        stage.enqueue("waits").await,
        stage.enqueue("refuses").await,
        stage.enqueue("retries").await,
        stage.enqueue("unwritable").await,
        stage.enqueue("hangs").await,
    ];
    let job = stage.until(succeeds, State::Succeeded).await;
    assert_eq!((job.result, job.artifact), (Some(json!({"n": 1})), Some(json!({"path": "/tmp/a"}))));
    assert_eq!(job.progress_message.as_deref(), Some("half"));
    assert_eq!(job.claimed_by_worker, Some(format!("{}@{DEFAULT_TENANT}", language.worker_id)));
    let log = stage
        .server
        .queue
        .read_log(DEFAULT_TENANT, succeeds, windlass::job::LogPosition::default())
        .await
        .unwrap();
    assert!(format!("{log:?}").contains("hello from succeeds"), "{log:?}");
    assert_eq!(stage.until(fails_once, State::Succeeded).await.result, Some(json!("the second time")));
    assert_eq!(stage.until(waits, State::Succeeded).await.result, Some(json!(3)));
    assert_eq!(stage.until(refuses, State::Failed).await.last_error.as_deref(), Some("never"));
    assert_eq!(stage.until(retries, State::DeadLetter).await.last_error.as_deref(), Some("soon"));
    assert!(stage.until(unwritable, State::DeadLetter).await.last_error.unwrap().contains("result"));

    // It still runs after its first lease, because the client sends heartbeats, which also return the cancel.
    let began = stage.until(hangs, State::Running).await.started_at.unwrap();
    eventually("a heartbeat after the end of the first lease has renewed it", async || {
        let expires = stage.job(hangs).await.lease_expires_at.unwrap();
        expires.duration_since(began).as_secs() > 2 * LEASE_SECONDS
    })
    .await;
    let job = stage.job(hangs).await;
    assert_eq!(
        (job.status, job.attempt_count, job.progress_message.as_deref()),
        (State::Running, 1, Some("hanging"))
    );
    stage.server.queue.cancel(DEFAULT_TENANT, hangs).await.unwrap();
    stage.until(hangs, State::Canceled).await;

    // When it is stopped, it releases the jobs that it cannot finish; that is not counted as a failure.
    let held = stage.enqueue("hangs").await;
    stage.until(held, State::Running).await;
    terminate(&mut worker).await;
    stage.until(held, State::Queued).await;
    let attempts = stage.server.queue.attempts(DEFAULT_TENANT, held).await.unwrap();
    assert_eq!(attempts.iter().map(|attempt| attempt.status.as_str()).collect::<Vec<_>>(), ["released"]);
    stage.end().await;
}

/// Sends SIGTERM. The program must end with success.
async fn terminate(program: &mut Child) {
    let pid = rustix::process::Pid::from_raw(i32::try_from(program.id().unwrap()).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    let ended = tokio::time::timeout(Duration::from_secs(60), program.wait()).await;
    let status = ended.expect("it stops").unwrap();
    assert!(status.success(), "{status}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_python_worker_runs_jobs_of_every_kind() {
    a_worker_runs_jobs_of_every_kind(&PYTHON).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_typescript_worker_runs_jobs_of_every_kind() {
    a_worker_runs_jobs_of_every_kind(&TYPESCRIPT).await;
}

async fn output(child: Child) -> Value {
    let limit = Duration::from_secs(120);
    let output = tokio::time::timeout(limit, child.wait_with_output()).await.expect("it ends").unwrap();
    assert!(output.status.success(), "{}", output.status);
    serde_json::from_slice(&output.stdout).unwrap()
}

async fn a_program_enqueues_and_waits(language: &Language) {
    let stage = Stage::start().await;
    let worker = stage.spawn(language, "worker", Role::Worker).await;
    let seen = output(stage.spawn(language, "enqueue", Role::Operator).await).await;
    let wanted = json!({"same": true, "result": {"n": 1}, "failed": "never", "timeout": true,
                        "canceled": "canceled", "refused": [422, "invalid"]});
    assert_eq!(seen, wanted);
    drop(worker);
    stage.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_python_program_enqueues_and_waits() {
    a_program_enqueues_and_waits(&PYTHON).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_typescript_program_enqueues_and_waits() {
    a_program_enqueues_and_waits(&TYPESCRIPT).await;
}

/// Document 003: the interface is the boundary, and its worker loop stays unchanged.
#[tokio::test(flavor = "multi_thread")]
async fn the_job_queue_interface_works_on_the_worker_protocol() {
    let stage = Stage::start().await;
    let done = output(stage.spawn(&TYPESCRIPT, "job-queue", Role::Worker).await).await;
    assert_eq!(done, json!(["extract_audio c1 1", "analyze c1 0"]));
    stage.end().await;
}
