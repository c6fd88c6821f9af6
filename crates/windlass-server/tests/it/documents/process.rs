//! An environment in which the blocks of a page run.

mod backup;
mod commands;
mod getting_started;
pub(crate) mod guides;
pub(crate) mod migrating;
mod telemetry;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use tokio::process::Command;
use uuid::Uuid;

use super::{Block, blocks};
use crate::cli::Ran;

/// The directory of one test, deleted with it, in which the shell and the programs of a page run.
struct Desk {
    folder: PathBuf,
    /// The address that the pages call http://127.0.0.1:8080.
    address: String,
    environment: Vec<(&'static str, String)>,
}

impl Desk {
    fn new(address: &str) -> Self {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(Uuid::new_v4().simple().to_string());
        fs::create_dir_all(folder.join("node_modules")).unwrap();
        fs::create_dir_all(folder.join("bin")).unwrap();
        let clients = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../clients").canonicalize().unwrap();
        std::os::unix::fs::symlink(clients.join("typescript"), folder.join("node_modules/windlass-client"))
            .unwrap();
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_windlass"), folder.join("bin/windlass")).unwrap();
        let path = format!("{}:{}", folder.join("bin").display(), std::env::var("PATH").unwrap());
        let environment = vec![
            ("PATH", path),
            ("PYTHONPATH", clients.join("python").display().to_string()),
            ("PYTHONDONTWRITEBYTECODE", "1".to_owned()),
        ];
        Self { folder, address: address.to_owned(), environment }
    }

    fn set(&mut self, name: &'static str, value: impl Into<String>) {
        self.environment.push((name, value.into()));
    }

    /// The program that runs this block, not yet started.
    fn command(&self, block: &Block) -> Command {
        let text = block.text.replace("http://127.0.0.1:8080", &self.address);
        let (program, name) = match block.language.as_str() {
            "sh" => ("sh", "block.sh"),
            "python" => ("python3", "block.py"),
            "js" => ("node", "block.mjs"),
            other => panic!("{other} is not run here"),
        };
        fs::write(self.folder.join(name), text).unwrap();
        let mut command = Command::new(program);
        if program == "sh" {
            command.arg("-eu");
        }
        command.arg(name).current_dir(&self.folder).env_remove("DATABASE_URL");
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::null()).kill_on_drop(true);
        command
    }

    /// Runs it to its end, which must be a success.
    async fn run(&self, block: &Block) -> String {
        let ran = Ran::of(self.command(block).output().await.unwrap());
        assert_eq!(ran.code, 0, "{}\n{ran:#?}", block.text);
        ran.out
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}
