//! The three things that no safe interface offers: work between fork and exec, the resources that an ended child used,
//! and marking every inherited descriptor. Nothing else in the library is unsafe.
#![expect(unsafe_code, reason = "the calls below have no safe form; each says why it is sound")]

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

use super::message::Limits;

/// Where a command finds its report pipe.
pub(crate) const REPORT_FD: RawFd = 3;

/// Arranges for what the child does to itself before it becomes the program: limits, the report's descriptor, and death
/// with its supervisor.
pub(crate) fn prepare(command: &mut Command, limits: Limits, report: Option<&OwnedFd>) {
    let report = report.map(AsRawFd::as_raw_fd);
    let wanted = [
        (libc::RLIMIT_DATA, limits.memory, 0),
        // The first second over the limit brings SIGXCPU, which a program may handle; the next one kills.
        (libc::RLIMIT_CPU, limits.cpu_seconds, 1),
        (libc::RLIMIT_NOFILE, limits.open_files, 0),
        (libc::RLIMIT_FSIZE, limits.file_size, 0),
        (libc::RLIMIT_CORE, Some(0), 0),
    ];
    let before_exec = move || {
        for (resource, limit, more) in wanted {
            let Some(limit) = limit else { continue };
            let limit = libc::rlimit { rlim_cur: limit, rlim_max: limit.saturating_add(more) };
            // SAFETY: setrlimit only reads the struct, which lives on this stack.
            if unsafe { libc::setrlimit(resource, &raw const limit) } != 0 {
                return Err(io::Error::last_os_error());
            }
        }
        if let Some(report) = report {
            // SAFETY: dup2 takes two numbers; the shim keeps REPORT_FD occupied, so nothing of ours is lost by it.
            if unsafe { libc::dup2(report, REPORT_FD) } < 0 {
                return Err(io::Error::last_os_error());
            }
        }
        // SAFETY: prctl with these arguments reads nothing from memory.
        if unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) } != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    };
    // SAFETY: between fork and exec only async-signal-safe calls are allowed. The closure makes system calls and copies
    // integers; it allocates nothing and takes no lock.
    unsafe { command.pre_exec(before_exec) };
}

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
