//! The program of the command jobs: a process of this program (`windlass-bench soak-command`). It holds a lock on a file of its job
//! while it runs, so that a second run of the same job is certain to notice it: the kernel releases the lock when the process ends.

use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::process;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use uuid::Uuid;

use super::{Act, Payload};
use crate::Result;
use crate::soak::ledger::{Fact, Kind, Ledger};

/// The first argument of the process; it is not meant for people.
pub(crate) const PROCESS: &str = "soak-command";

/// The arguments of the process: the file of the ledger, the directory of the locks, the job and the attempt. The payload is on the
/// standard input.
#[derive(Debug, PartialEq)]
pub(crate) struct Call {
    pub(crate) ledger: PathBuf,
    pub(crate) locks: PathBuf,
    pub(crate) job: Uuid,
    pub(crate) attempt: i32,
}

impl Call {
    pub(crate) fn parse(words: &[String]) -> Result<Self> {
        let [ledger, locks, job, attempt] = words else {
            return Err(format!("{PROCESS} requires LEDGER LOCKS JOB ATTEMPT").into());
        };
        Ok(Self { ledger: ledger.into(), locks: locks.into(), job: job.parse()?, attempt: attempt.parse()? })
    }
}

/// The exit code: 0 is a success, everything else is retried.
pub(crate) fn run(call: &Call) -> Result<u8> {
    let Call { job, attempt, .. } = *call;
    let ledger = Ledger::open(&call.ledger)?;
    let lock = OpenOptions::new().create(true).append(true).open(lock_file(&call.locks, job))?;
    if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
        ledger.note(Fact::Overlapped { job, attempt });
    }
    ledger.note(Fact::Started { job, attempt, pid: process::id(), kind: Kind::Command });
    let payload: Payload = serde_json::from_reader(std::io::stdin())?;
    std::thread::sleep(Duration::from_millis(payload.ms));
    let is_success = match payload.act {
        Act::FailOnce | Act::Panic | Act::SnoozeOnce => attempt > 1,
        Act::FailForever => false,
        Act::Succeed => true,
    };
    ledger.note(Fact::Ended { job, attempt, pid: process::id(), is_success });
    Ok(if is_success { 0 } else { 3 })
}

fn lock_file(locks: &Path, job: Uuid) -> PathBuf {
    locks.join(job.simple().to_string())
}
