//! Two things that no safe interface offers: the resources that an ended child used, and marking every inherited descriptor.
//! Beside starting a program (`spawn.rs`) nothing else in the library is unsafe.
#![expect(unsafe_code, reason = "the calls below have no safe form; each says why it is sound")]

use std::io;
use std::os::fd::RawFd;

/// Where a command finds its report pipe.
pub(crate) const REPORT_FD: RawFd = 3;

/// What an ended child left behind.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reaped {
    pub(crate) code: Option<i32>,
    pub(crate) signal: Option<i32>,
    pub(crate) max_rss_kb: i64,
}

/// Takes an ended child off the process table: this one, or any with -1. None while there are only living ones; an error
/// once there is none at all.
pub(crate) fn reap(pid: i32) -> io::Result<Option<Reaped>> {
    let mut status = 0;
    // SAFETY: rusage is plain numbers, for which all zeros is a value.
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

/// Lets no descriptor above stderr live on in a program that this process starts, wherever it was inherited from.
pub(crate) fn close_on_exec_above_stderr() -> io::Result<()> {
    // SAFETY: close_range with CLOEXEC changes flags only, and closes nothing in this process.
    let done = unsafe { libc::syscall(libc::SYS_close_range, 3_u32, u32::MAX, libc::CLOSE_RANGE_CLOEXEC) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
