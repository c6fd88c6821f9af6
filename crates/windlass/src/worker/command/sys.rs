//! Two operations without a safe interface: the resource usage of an ended child, and marking every inherited
//! descriptor. Apart from starting a program (`spawn.rs`), no other code of the library is unsafe.
#![expect(unsafe_code, reason = "the calls below have no safe interface; each documents why it is sound")]

use std::io;
use std::os::fd::RawFd;

/// The descriptor of a command's report pipe.
pub(crate) const REPORT_FD: RawFd = 3;

/// The exit status and resource usage of an ended child.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reaped {
    pub(crate) code: Option<i32>,
    pub(crate) signal: Option<i32>,
    pub(crate) max_rss_kb: i64,
}

/// Reaps an ended child: this one, or any with -1. Returns `None` while all are running; an error if there are no
/// children.
pub(crate) fn reap(pid: i32) -> io::Result<Option<Reaped>> {
    let mut status = 0;
    // SAFETY: rusage contains only numbers, for which all zeros is valid.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: both pointers are to locals that outlive the call.
    let reaped = unsafe { libc::wait4(pid, &raw mut status, libc::WNOHANG, &raw mut usage) };
    match reaped {
        0 => Ok(None),
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(Some(Reaped {
            code: libc::WIFEXITED(status).then(|| libc::WEXITSTATUS(status)),
            signal: libc::WIFSIGNALED(status).then(|| libc::WTERMSIG(status)),
            max_rss_kb: usage.ru_maxrss,
        })),
    }
}

/// Ensures that no program that this process starts inherits a descriptor above stderr.
pub(crate) fn close_on_exec_above_stderr() -> io::Result<()> {
    // SAFETY: close_range with CLOEXEC only changes flags, and closes nothing in this process.
    let done = unsafe { libc::syscall(libc::SYS_close_range, 3_u32, u32::MAX, libc::CLOSE_RANGE_CLOEXEC) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
