//! One process of the installation that is started again whenever it ends, as a service manager does.
//!
//! How it stops: [`Slot::run`] ends the process when the token is canceled, with SIGTERM and after a while with SIGKILL. If the harness
//! itself is killed, the kernel kills the process (`setpriv --pdeathsig`).

use std::fs::OpenOptions;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::process::{Child, Command};
use tokio_util::sync::CancellationToken;

use super::proxy::Proxy;
use crate::Result;
use crate::soak::ledger::{Fact, Ledger};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    Postgres,
    Server,
    Keeper,
    RustWorker,
    CommandWorker,
    HttpWorker,
    PullWorker,
}

/// How to start the program.
#[derive(Debug, Clone)]
pub(crate) struct Program {
    pub(crate) path: PathBuf,
    pub(crate) arguments: Vec<String>,
    pub(crate) environment: Vec<(String, String)>,
    /// The user to run as; the harness's own if none.
    pub(crate) user: Option<String>,
}

#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) name: String,
    pub(crate) role: Role,
    /// Its network to Postgres, if it has one.
    pub(crate) proxy: Option<Proxy>,
    /// The programs that take turns: the current build, and the previous one if it was given. Each start reads `turn`.
    pub(crate) programs: Vec<Program>,
    pub(crate) turn: AtomicU32,
    /// A file with the offset of its clock, if it runs under libfaketime.
    pub(crate) clock: Option<PathBuf>,
    pub(crate) log: PathBuf,
    /// 0 while there is no process.
    pid: AtomicU32,
}

/// Between the end of a process and its next start.
const PAUSE: Duration = Duration::from_millis(300);
/// After SIGTERM.
const GRACE: Duration = Duration::from_secs(10);

impl Slot {
    pub(crate) fn new(name: &str, role: Role, program: Program, log: PathBuf) -> Self {
        Self {
            name: name.to_owned(),
            role,
            proxy: None,
            programs: vec![program],
            turn: AtomicU32::new(0),
            clock: None,
            log,
            pid: AtomicU32::new(0),
        }
    }

    pub(crate) fn pid(&self) -> Option<u32> {
        Some(self.pid.load(Ordering::SeqCst)).filter(|pid| *pid > 0)
    }

    /// Whether there was a process to signal.
    pub(crate) fn signal(&self, signal: Signal) -> bool {
        self.pid().is_some_and(|pid| send(pid, signal))
    }

    pub(crate) async fn run(self: Arc<Self>, ledger: Arc<Ledger>, stop: CancellationToken) -> Result<()> {
        while !stop.is_cancelled() {
            let mut child = self.spawn()?;
            let pid = child.id().unwrap_or_default();
            ledger.note(Fact::Born { pid, name: self.name.clone() });
            self.pid.store(pid, Ordering::SeqCst);
            tokio::select! {
                _ = child.wait() => {}
                () = stop.cancelled() => self.end(&mut child).await?,
            }
            self.pid.store(0, Ordering::SeqCst);
            ledger.note(Fact::Died { pid, name: self.name.clone() });
            tokio::select! {
                () = tokio::time::sleep(PAUSE) => {}
                () = stop.cancelled() => {}
            }
        }
        Ok(())
    }

    async fn end(&self, child: &mut Child) -> Result<()> {
        self.signal(Signal::CONT);
        // Postgres: a fast shutdown, which ends the sessions of others.
        self.signal(if self.role == Role::Postgres { Signal::INT } else { Signal::TERM });
        if tokio::time::timeout(GRACE, child.wait()).await.is_err() {
            println!("soak: {} did not end within {GRACE:?} of SIGTERM", self.name);
            child.kill().await?;
        }
        Ok(())
    }

    fn spawn(&self) -> Result<Child> {
        let turn = self.turn.load(Ordering::SeqCst) as usize;
        let program = &self.programs[turn % self.programs.len()];
        let log = OpenOptions::new().create(true).append(true).open(&self.log)?;
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL"]);
        if let Some(user) = &program.user {
            command.args(["--reuid", user, "--regid", user, "--clear-groups"]);
        }
        command.arg("--").arg(&program.path).args(&program.arguments);
        for (name, value) in &program.environment {
            command.env(name, value);
        }
        if let Some(clock) = &self.clock {
            command.envs(faked_time(clock));
        }
        let command = command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).kill_on_drop(true);
        command.spawn().map_err(|error| format!("cannot start {}: {error}", self.name).into())
    }
}

pub(crate) fn send(pid: u32, signal: Signal) -> bool {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    // It may have ended in this moment.
    pid.is_some_and(|pid| kill_process(pid, signal).is_ok())
}

/// Where Debian's package `libfaketime` puts its library.
pub(crate) fn faketime_library() -> Option<PathBuf> {
    let directories = std::fs::read_dir("/usr/lib").ok()?;
    let libraries = directories.flatten().map(|entry| entry.path().join("faketime/libfaketime.so.1"));
    libraries.into_iter().find(|path| path.exists())
}

/// The clock of the process is that of the machine plus the offset in the file, which is read every second.
fn faked_time(clock: &std::path::Path) -> Vec<(&'static str, String)> {
    let Some(library) = faketime_library() else { return Vec::new() };
    vec![
        ("LD_PRELOAD", library.display().to_string()),
        ("FAKETIME_TIMESTAMP_FILE", clock.display().to_string()),
        ("FAKETIME_CACHE_DURATION", "1".to_owned()),
        ("FAKETIME_DONT_FAKE_MONOTONIC", "1".to_owned()),
        ("DONT_FAKE_MONOTONIC", "1".to_owned()),
    ]
}
