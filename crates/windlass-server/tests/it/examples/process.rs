//! Shared by these tests: the programs of an example, started and stopped like any other process.

mod ai_tagging;
mod tts;
mod up;
mod zoltag;
mod zoltag_pages;

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use windlass::keeper::KeeperSettings;
use windlass::worker::WorkerBuilder;
use windlass::{Queue, Worker};

/// The folder of an example.
fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(name)
}

/// Runs SQL files as `psql -f` would, in the order given.
async fn load(url: &str, example: &str, files: &[&str]) {
    for file in files {
        let ran = Command::new("psql")
            .args(["-Xq", "-v", "ON_ERROR_STOP=1", "-f"])
            .arg(folder(example).join(file))
            .arg(url)
            .output()
            .await
            .unwrap();
        assert!(ran.status.success(), "{file}: {}", String::from_utf8_lossy(&ran.stderr));
    }
}

/// A program of an example that prints `ready: ADDRESS` when it serves. It is killed when dropped.
struct Program {
    child: Child,
    address: String,
}

impl Program {
    async fn start(example: &str, arguments: &[&str], environment: &[(&str, &str)]) -> Self {
        let mut child = Command::new("python3")
            .args(arguments)
            .current_dir(folder(example))
            .env("PYTHONPATH", folder("../clients/python"))
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .envs(environment.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let first = lines.next_line().await.unwrap().expect("it ended before it was ready");
        let address = first.strip_prefix("ready: ").unwrap_or_else(|| panic!("{first:?}")).to_owned();
        // The rest of its output must be read, or it blocks on a full pipe.
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        Self { child, address }
    }

    async fn kill(&mut self) {
        self.child.kill().await.unwrap();
    }
}

/// A worker that polls often, so that no test waits for a default interval.
fn worker(queue: &Queue) -> WorkerBuilder {
    let often = Duration::from_millis(50);
    let keeper = KeeperSettings::default().promote(often).reap(often).expire(often);
    Worker::builder(queue).poll_interval(often).keeper(keeper)
}
