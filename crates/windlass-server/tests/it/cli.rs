//! The command line as a shell sees it: the real program, its output and its exit code.

mod client;
pub(crate) mod commands;
mod documents;
mod managed;
mod messages;
mod terminal;
mod verbs;

use std::process::{Output, Stdio};

use tokio::process::Command;

/// The program, without any variable of this environment that would change its behaviour.
pub(crate) fn windlass(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_windlass"));
    command.args(arguments).stdin(Stdio::null()).kill_on_drop(true).env_remove("DATABASE_URL");
    for (name, _) in std::env::vars()
        .filter(|(name, _)| name.starts_with("WINDLASS_") && name != "WINDLASS_POSTGRES_SOURCE")
    {
        command.env_remove(name);
    }
    command.current_dir(env!("CARGO_TARGET_TMPDIR"));
    command
}

/// Runs it to its end.
pub(crate) async fn run(arguments: &[&str]) -> Ran {
    Ran::of(windlass(arguments).output().await.unwrap())
}

/// Its exit code and output.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ran {
    pub(crate) fn of(output: Output) -> Self {
        Self {
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }

    #[track_caller]
    pub(crate) fn expect(self, code: i32) -> Self {
        assert_eq!(self.code, code, "{self:#?}");
        self
    }

    #[track_caller]
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:#?}"))
    }
}
