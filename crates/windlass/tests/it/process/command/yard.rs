//! A database, a configuration file and a worker process that runs its commands.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio_postgres::Client;
use uuid::Uuid;
use windlass::job::Attempt;
use windlass::{DEFAULT_TENANT, NewJob};
use windlass_testing::{TestQueue, eventually};

use crate::support::until;

pub(super) struct Yard {
    pub(super) queue: TestQueue,
    pub(super) client: Client,
    /// Of this test only; commands may leave files here.
    pub(super) directory: PathBuf,
    file: PathBuf,
}

impl Yard {
    /// `CHILD` and `DIR` in the configuration become the paths of the test's program and directory.
    pub(super) async fn new(config: &str) -> Self {
        let queue = TestQueue::create().await;
        let client = queue.client().await;
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(Uuid::new_v4().simple().to_string());
        fs::create_dir_all(&directory).unwrap();
        let config =
            config.replace("CHILD", &program("command-child")).replace("DIR", directory.to_str().unwrap());
        let file = directory.join("worker.toml");
        fs::write(&file, config).unwrap();
        Self { queue, client, directory, file }
    }

    pub(super) async fn worker(&self) -> CommandWorker {
        self.worker_with_lease(30_000).await
    }

    pub(super) async fn worker_with_lease(&self, lease_ms: u64) -> CommandWorker {
        let mut child = Command::new(program("command-worker"))
            .args([self.queue.url(), self.file.to_str().unwrap(), &lease_ms.to_string()])
            .env("VISIBLE", "seen")
            .env("HIDDEN", "not for others")
            .env("A_SECRET", "s3cr3t-from-env")
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let pid = i32::try_from(child.id().unwrap()).unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let name = stdout.lines().next_line().await.unwrap().expect("the worker starts");
        CommandWorker { child, pid, name }
    }

    pub(super) async fn send(&self, key: &str, payload: Value) -> Uuid {
        self.queue.enqueue(&NewJob::new(key).payload(&payload)).await.unwrap().id
    }

    /// The job's row once it has this status, and its attempts.
    pub(super) async fn ended(&self, job: Uuid, status: &str) -> (Value, Vec<Attempt>) {
        let row = until(&self.client, job, status).await;
        (row, self.queue.attempts(DEFAULT_TENANT, job).await.unwrap())
    }

    /// Enqueues one job and waits for its end.
    pub(super) async fn run(&self, key: &str, payload: Value, status: &str) -> (Value, Attempt) {
        let job = self.send(key, payload).await;
        let (row, mut attempts) = self.ended(job, status).await;
        (row, attempts.pop().unwrap())
    }

    /// A number that a command wrote into a file of the yard.
    pub(super) async fn pid_in(&self, name: &str) -> i32 {
        let path = self.directory.join(name);
        let read = || fs::read_to_string(&path).ok()?.trim().parse::<i32>().ok();
        eventually(&format!("{name} is written"), async || read().is_some()).await;
        read().unwrap()
    }

    /// The processes whose command line names this yard: everything that its commands started.
    pub(super) fn census(&self) -> Vec<(i32, String)> {
        let mark = self.directory.to_str().unwrap();
        let processes = fs::read_dir("/proc").unwrap().flatten();
        let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
        pids.filter_map(|pid| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
            let line = String::from_utf8_lossy(&line).replace('\0', " ");
            (line.contains(mark) && !line.contains("command-worker")).then_some((pid, line))
        })
        .collect()
    }

    pub(super) async fn nothing_is_left(&self) {
        eventually("no process of the jobs is alive", async || self.census().is_empty()).await;
    }
}

impl Drop for Yard {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// Killed when dropped.
pub(super) struct CommandWorker {
    pub(super) child: Child,
    pub(super) pid: i32,
    pub(super) name: String,
}

impl CommandWorker {
    pub(super) fn signal(&self, signal: Signal) {
        send_signal(self.pid, signal);
    }

    /// The supervisors of this worker.
    pub(super) fn shims(&self) -> Vec<i32> {
        let processes = fs::read_dir("/proc").unwrap().flatten();
        let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
        pids.filter(|pid| {
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            let parent =
                stat.rfind(')').and_then(|end| stat[end + 1..].split_whitespace().nth(1)?.parse().ok());
            let line = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            parent == Some(self.pid) && line.contains("windlass-shim")
        })
        .collect()
    }

    pub(super) async fn finish(mut self) {
        self.signal(Signal::TERM);
        assert!(self.child.wait().await.unwrap().success(), "the worker exits successfully");
    }
}

pub(super) fn send_signal(pid: i32, signal: Signal) {
    kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
}

pub(super) fn program(name: &str) -> String {
    let test_program = std::env::current_exe().unwrap();
    let program = test_program.parent().unwrap().with_file_name("examples").join(name);
    assert!(
        program.is_file(),
        "{} is missing: run the whole package's tests once to build it",
        program.display()
    );
    program.to_str().unwrap().to_owned()
}
