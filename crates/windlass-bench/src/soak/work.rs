//! What the jobs of the soak do, for each kind of worker. Every run is noted in the ledger when it starts and when it ends.

pub(crate) mod command;
pub(crate) mod receiver;
pub(crate) mod rust;

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Result;

/// A process of the soak that is this program. Not meant for people.
#[derive(Debug, PartialEq)]
pub(crate) enum Process {
    /// With the file of its ledger.
    Worker(PathBuf),
    Command(command::Call),
}

impl Process {
    pub(crate) fn parse(words: &[String]) -> Result<Self> {
        match words {
            [process, ledger] if process == rust::PROCESS => Ok(Self::Worker(ledger.into())),
            [process, call @ ..] if process == command::PROCESS => {
                command::Call::parse(call).map(Self::Command)
            }
            _ => Err("an unknown process of the soak".into()),
        }
    }
}

/// The definitions. Their keys say which kind of worker runs them.
pub(crate) const WORK: &str = "soak.work";
/// At most [`MAX_RUNNING`] of its jobs run at the same time.
pub(crate) const LIMITED: &str = "soak.limited";
/// Writes a row of the application in the transaction that completes it.
pub(crate) const EFFECT: &str = "soak.effect";
/// Finished jobs are deleted after two seconds.
pub(crate) const BRIEF: &str = "soak.brief";
/// Started by events only.
pub(crate) const EVENT: &str = "soak.event";
/// Started by schedules only.
pub(crate) const TICK: &str = "soak.tick";
/// Started by other jobs only.
pub(crate) const CHILD: &str = "soak.child";
pub(crate) const COMMAND: &str = "soak.command";
pub(crate) const HTTP: &str = "soak.http";
pub(crate) const PULL: &str = "soak.pull";

pub(crate) const MAX_RUNNING: u32 = 3;
pub(crate) const MAX_ATTEMPTS: u16 = 12;
pub(crate) const MAX_LOST: u16 = 6;

/// How dedupe keys begin that are held forever, or for a window.
pub(crate) const FOREVER: &str = "forever";
pub(crate) const WINDOW: &str = "window";
pub(crate) const WINDOW_SECONDS: u64 = 3;

/// Of a worker in Rust.
pub(crate) const CONCURRENCY: usize = 40;

/// The lease of every worker. Short, so that many leases expire in a short run.
pub(crate) const LEASE_SECONDS: u64 = 6;

/// What a job does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Act {
    #[default]
    Succeed,
    /// The first attempt fails, later ones succeed.
    FailOnce,
    FailForever,
    SnoozeOnce,
    /// The first attempt panics.
    Panic,
}

/// The payload of every definition.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Payload {
    /// The number of the intent, of the event, or of the child.
    pub(crate) n: u64,
    /// How long a run takes.
    #[serde(default)]
    pub(crate) ms: u64,
    #[serde(default)]
    pub(crate) act: Act,
    /// How many jobs follow its success.
    #[serde(default)]
    pub(crate) children: u64,
}
