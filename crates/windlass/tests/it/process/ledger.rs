//! The harness's own record of every run, separate from the database: one append-only file per process, one line per start and
//! end, by a clock that all processes of a machine share and that cannot be set.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

use rustix::time::{ClockId, clock_gettime};
use uuid::Uuid;

pub(crate) fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::MonotonicRaw);
    u64::try_from(now.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(now.tv_nsec).unwrap_or(0)
}

/// One line. Written by one call on an O_APPEND file, so a killed process leaves whole lines only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) is_start: bool,
    pub(crate) at_ns: u64,
    pub(crate) job: Uuid,
    pub(crate) attempt: i32,
    pub(crate) pid: u32,
}

impl Entry {
    #[allow(dead_code, reason = "the worker process writes, the tests read")]
    pub(crate) fn write(&self, mut file: &File) -> io::Result<()> {
        let word = if self.is_start { "START" } else { "END" };
        let Self { at_ns, job, attempt, pid, .. } = self;
        file.write_all(format!("{word} {at_ns} {job} {attempt} {pid}\n").as_bytes())
    }

    #[allow(dead_code, reason = "the worker process writes, the tests read")]
    pub(crate) fn parse(line: &str) -> Option<Self> {
        let mut words = line.split(' ');
        let is_start = words.next()? == "START";
        Some(Self {
            is_start,
            at_ns: words.next()?.parse().ok()?,
            job: words.next()?.parse().ok()?,
            attempt: words.next()?.parse().ok()?,
            pid: words.next()?.parse().ok()?,
        })
    }
}

#[allow(dead_code, reason = "the worker process writes, the tests read")]
pub(crate) fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).open(path)
}
