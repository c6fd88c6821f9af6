//! A directory for one test's server, and processes that hold it.

use std::fs;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use rustix::process::{Pid, Signal, geteuid, kill_process};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio_postgres::{Client, NoTls};
use uuid::Uuid;
use windlass::setup::embedded::{Options, SOURCE_VARIABLE};

pub(crate) const NOBODY: u32 = 65534;

/// Removed when dropped, after killing the processes that still run on it.
pub(crate) struct Scratch {
    pub(crate) path: PathBuf,
}

impl Scratch {
    pub(crate) fn new() -> Scratch {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(Uuid::new_v4().simple().to_string());
        fs::create_dir_all(&path).unwrap();
        Scratch { path }
    }

    pub(crate) fn data_dir(&self) -> PathBuf {
        self.path.join("data")
    }

    pub(crate) fn options(&self) -> Options {
        Options::new(self.data_dir()).unwrap()
    }

    pub(crate) fn server_is_running(&self) -> bool {
        self.data_dir().join("postmaster.pid").exists()
    }

    /// The leftovers of unfinished starts next to the data directory.
    pub(crate) fn abandoned(&self) -> Vec<String> {
        let names = fs::read_dir(&self.path).unwrap().map(|entry| entry.unwrap().file_name());
        let names = names.map(|name| name.into_string().unwrap());
        names.filter(|name| name.starts_with("data.initdb-")).collect()
    }

    pub(crate) fn holder_command(&self) -> Command {
        let mut command = Command::new(holder_program());
        command.arg(self.data_dir());
        command
    }

    /// Whether a process of this user can connect.
    pub(crate) async fn lets_in(url: &str, user: Option<u32>) -> bool {
        let mut command = Command::new(holder_program());
        command.arg(url).stderr(Stdio::null());
        if let Some(user) = user {
            command.uid(user).gid(user);
        }
        command.status().await.unwrap().success()
    }

    pub(crate) async fn hold(&self) -> Holder {
        Holder::spawn(self.holder_command()).await
    }

    pub(crate) async fn hold_with(&self, variables: &[(&str, &str)]) -> Holder {
        let mut command = self.holder_command();
        command.envs(variables.iter().copied());
        Holder::spawn(command).await
    }

    pub(crate) async fn hold_as_nobody(&self, bin_dir: &Path) -> Holder {
        chown(&self.path, Some(NOBODY), Some(NOBODY)).unwrap();
        let mut command = self.holder_command();
        command.env(SOURCE_VARIABLE, bin_dir).uid(NOBODY).gid(NOBODY);
        Holder::spawn(command).await
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if self.server_is_running() {
            kill_postmaster(&self.data_dir());
        }
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// Another process with a lease on the server.
pub(crate) struct Holder {
    pub(crate) child: Child,
    pub(crate) url: String,
}

impl Holder {
    async fn spawn(mut command: Command) -> Holder {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let url = stdout.lines().next_line().await.unwrap().expect("the holder ended without a URL");
        Holder { child, url }
    }

    pub(crate) async fn finish(mut self) {
        drop(self.child.stdin.take());
        assert!(self.child.wait().await.unwrap().success());
    }
}

pub(crate) fn is_root() -> bool {
    geteuid().is_root()
}

pub(crate) fn kill_postmaster(data_dir: &Path) {
    let text = fs::read_to_string(data_dir.join("postmaster.pid")).unwrap();
    let pid = text.lines().next().unwrap().trim().parse().unwrap();
    let _ = kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL);
}

pub(crate) async fn connect(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

pub(crate) async fn single(url: &str, query: &str) -> String {
    connect(url).await.query_one(query, &[]).await.unwrap().get(0)
}

fn holder_program() -> PathBuf {
    let test_program = std::env::current_exe().unwrap();
    let program = test_program.parent().unwrap().with_file_name("examples").join("embedded-holder");
    assert!(
        program.is_file(),
        "{} is missing: run the whole package's tests once to build it",
        program.display()
    );
    program
}
