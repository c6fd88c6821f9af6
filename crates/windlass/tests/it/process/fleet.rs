//! Worker processes and their ledgers.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex};

use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use uuid::Uuid;

use super::ledger::{self, Entry};

/// The directory of the ledgers of one test's worker processes, and which of them died when. Removed when dropped.
pub(crate) struct Fleet {
    directory: PathBuf,
    deaths: Arc<Mutex<Vec<(u32, u64)>>>,
}

impl Fleet {
    pub(crate) fn new() -> Self {
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(Uuid::new_v4().simple().to_string());
        fs::create_dir_all(&directory).unwrap();
        Self { directory, deaths: Arc::default() }
    }

    /// Starts a worker process; it has registered its definitions and itself when this returns.
    pub(crate) async fn spawn(&self, url: &str, flags: &[(&str, &str)]) -> WorkerProcess {
        let ledger = self.directory.join(Uuid::new_v4().simple().to_string());
        let mut command = Command::new(program());
        command.args(["--url", url, "--ledger", ledger.to_str().unwrap()]);
        for (name, value) in flags {
            command.args([name, value]);
        }
        let mut child = command.stdout(Stdio::piped()).kill_on_drop(true).spawn().unwrap();
        let pid = child.id().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let name = stdout.lines().next_line().await.unwrap().expect("the worker process starts");
        WorkerProcess { child, pid, name, deaths: self.deaths.clone() }
    }

    pub(crate) fn entries(&self) -> Vec<Entry> {
        let mut entries: Vec<Entry> = fs::read_dir(&self.directory)
            .unwrap()
            .flat_map(|file| {
                let text = fs::read_to_string(file.unwrap().path()).unwrap();
                // A line that is being written is part of the next read.
                let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
                whole.lines().map(|line| Entry::parse(line).expect("a whole line")).collect::<Vec<_>>()
            })
            .collect();
        entries.sort_by_key(|entry| entry.at_ns);
        entries
    }

    pub(crate) fn has_started(&self, job: Uuid) -> bool {
        self.starts_of(job) > 0
    }

    pub(crate) fn starts_of(&self, job: Uuid) -> usize {
        self.entries().iter().filter(|entry| entry.is_start && entry.job == job).count()
    }

    /// When the process was certainly dead, if it is.
    pub(crate) fn death_of(&self, pid: u32) -> Option<u64> {
        self.deaths.lock().unwrap().iter().find(|(dead, _)| *dead == pid).map(|(_, at)| *at)
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// Killed when dropped.
pub(crate) struct WorkerProcess {
    child: Child,
    pub(crate) pid: u32,
    /// As in `job_workers.worker_id`.
    pub(crate) name: String,
    deaths: Arc<Mutex<Vec<(u32, u64)>>>,
}

impl WorkerProcess {
    pub(crate) fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.pid).unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    pub(crate) async fn kill(mut self) {
        self.child.start_kill().unwrap();
        self.ended().await;
    }

    /// Resolves when the process has ended for any reason; returns whether it ended successfully.
    pub(crate) async fn ended(&mut self) -> bool {
        let status = self.child.wait().await.unwrap();
        self.deaths.lock().unwrap().push((self.pid, ledger::now_ns()));
        status.success()
    }

    /// Ends gracefully.
    pub(crate) async fn finish(mut self) {
        self.signal(Signal::TERM);
        assert!(self.ended().await, "the worker process exits successfully");
    }
}

fn program() -> PathBuf {
    let test_program = std::env::current_exe().unwrap();
    let program = test_program.parent().unwrap().with_file_name("examples").join("worker-process");
    assert!(
        program.is_file(),
        "{} is missing: run the whole package's tests once to build it",
        program.display()
    );
    program
}
