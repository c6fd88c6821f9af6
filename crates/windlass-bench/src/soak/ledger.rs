//! The harness's own record of what it sent, what was acknowledged, what ran and what was done to the installation. It is outside of
//! the database: append-only files, one for each process, one line of JSON for each fact, with a clock that all processes of a machine
//! share and that cannot be set.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// Nanoseconds of `CLOCK_MONOTONIC_RAW`, by a system call that libfaketime does not replace.
pub(crate) fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::MonotonicRaw);
    u64::try_from(now.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(now.tv_nsec).unwrap_or(0)
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Entry {
    pub(crate) at: u64,
    #[serde(flatten)]
    pub(crate) fact: Fact,
}

/// The kinds of workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Kind {
    Rust,
    Command,
    Http,
    Pull,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "snake_case")]
pub(crate) enum Fact {
    /// An enqueue is sent. The number is in the payload of its job; a request that is repeated keeps its number, and has a key.
    Sent {
        intent: u64,
        tenant: Uuid,
        definition: String,
        way: String,
        key: Option<String>,
        dedupe_key: Option<String>,
    },
    /// The enqueue was acknowledged: this job exists, and it is new or, if it is a duplicate, another enqueue created it.
    Acked {
        intent: u64,
        job: Uuid,
        is_duplicate: bool,
    },
    /// The enqueue was rejected, or its transaction was rolled back: there must be no job. Without this and without an acknowledgment,
    /// the result is unknown, and both are correct.
    Refused {
        intent: u64,
        why: String,
    },
    /// Jobs with the same ordering key are sent one after the other, so the numbers of the intents have their order.
    Ordered {
        intent: u64,
        key: String,
    },
    /// The job must not start before these have ended.
    Depends {
        intent: u64,
        on: Vec<Uuid>,
    },

    /// An event, with the number that is in its payload.
    Emitted {
        event: u64,
        tenant: Uuid,
    },
    EmitAcked {
        event: u64,
    },
    EmitRefused {
        event: u64,
    },

    /// A run of an attempt starts in this process.
    Started {
        job: Uuid,
        attempt: i32,
        pid: u32,
        kind: Kind,
    },
    /// It has ended, before the worker reported it; `is_success` is what it is going to report.
    Ended {
        job: Uuid,
        attempt: i32,
        pid: u32,
        is_success: bool,
    },
    /// The transaction in which a handler completed its attempt was committed.
    Committed {
        job: Uuid,
        attempt: i32,
    },
    /// A second process runs the same job, found by a file lock that the kernel releases when its holder dies.
    Overlapped {
        job: Uuid,
        attempt: i32,
    },

    /// Actions of operators. The first of each pair is written before the request, the second if it was acknowledged.
    CancelSent {
        job: Uuid,
    },
    /// `was_running`: the job ends as canceled if it does not end before; otherwise it never starts again.
    Canceled {
        job: Uuid,
        was_running: bool,
    },
    RetrySent {
        job: Uuid,
    },
    Retried {
        job: Uuid,
    },
    PurgeSent {
        jobs: Vec<Uuid>,
    },
    Purged {
        jobs: Vec<Uuid>,
    },
    /// From here on, the jobs of the tenant can be absent.
    TenantDeleteSent {
        tenant: Uuid,
    },
    TenantDeleted {
        tenant: Uuid,
    },

    /// A process of the installation was started, died, was stopped by SIGSTOP, or continued.
    Born {
        pid: u32,
        name: String,
    },
    Died {
        pid: u32,
        name: String,
    },
    Frozen {
        pid: u32,
    },
    Thawed {
        pid: u32,
    },
    /// A fault was injected. `detail`: what exactly was done.
    Fault {
        kind: String,
        detail: String,
    },
    /// Load and faults are paused; everything ends.
    Quiet,
}

/// One append-only file. A line is written by one call, so a killed process leaves whole lines only.
#[derive(Debug)]
pub(crate) struct Ledger {
    file: File,
}

impl Ledger {
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        Ok(Self { file: OpenOptions::new().create(true).append(true).open(path)? })
    }

    /// The ledger is the evidence of the run: if it cannot be written, the run is worthless.
    pub(crate) fn note(&self, fact: Fact) {
        let entry = Entry { at: now_ns(), fact };
        let mut line = serde_json::to_vec(&entry).expect("a fact is valid JSON");
        line.push(b'\n');
        (&self.file).write_all(&line).expect("the ledger can be written");
    }
}

/// The entries of all files of a directory, in the order of their times.
pub(crate) fn read_all(directory: &Path) -> crate::Result<Vec<Entry>> {
    let mut entries = Vec::new();
    let files: Vec<PathBuf> =
        fs::read_dir(directory)?.map(|file| file.map(|file| file.path())).collect::<io::Result<_>>()?;
    for path in files {
        let text = fs::read_to_string(&path)?;
        // A line that is being written is part of the next reading.
        let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
        for line in whole.lines() {
            let entry = serde_json::from_str(line);
            entries.push(entry.map_err(|error| format!("{}: {error} in {line}", path.display()))?);
        }
    }
    entries.sort_by_key(|entry: &Entry| entry.at);
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use super::{Fact, Kind, Ledger, read_all};
    use uuid::Uuid;

    #[test]
    fn what_is_noted_is_read_in_order() {
        let directory = std::env::temp_dir().join(Uuid::new_v4().to_string());
        std::fs::create_dir_all(&directory).unwrap();
        let (one, other) =
            (Ledger::open(&directory.join("1")).unwrap(), Ledger::open(&directory.join("2")).unwrap());
        let job = Uuid::new_v4();
        one.note(Fact::Started { job, attempt: 1, pid: 7, kind: Kind::Rust });
        other.note(Fact::Died { pid: 7, name: "worker".into() });
        one.note(Fact::Quiet);
        std::io::Write::write_all(&mut &one.file, b"{\"at\":1,\"wh").unwrap();
        let facts: Vec<Fact> = read_all(&directory).unwrap().into_iter().map(|entry| entry.fact).collect();
        std::fs::remove_dir_all(&directory).unwrap();
        assert_eq!(facts.len(), 3);
        assert_eq!(facts[1], Fact::Died { pid: 7, name: "worker".into() });
    }
}
