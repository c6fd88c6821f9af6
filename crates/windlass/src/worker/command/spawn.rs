//! Starts a program in a child that shares this process's memory until it executes the program (`CLONE_VM |
//! CLONE_VFORK`).
//!
//! The standard library does the same if the child needs no extra steps. Limits and termination with the supervisor are
//! such steps, and then it copies the whole address space, which with the following page faults was a quarter of the
//! cost of a short command. Hence this implementation: everything is prepared here, and the child only makes system
//! calls.
#![expect(
    unsafe_code,
    reason = "a child that shares our memory has no safe interface; each call documents why it is sound"
)]

use std::ffi::{CString, c_char, c_int, c_void};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;

use super::message::Order;
use super::sys::REPORT_FD;

/// The C libraries differ.
#[cfg(target_env = "gnu")]
type Resource = libc::__rlimit_resource_t;
#[cfg(not(target_env = "gnu"))]
type Resource = c_int;

/// The child runs a few frames of ours and of the C library on it.
const STACK: usize = 64 * 1024;

/// The data of the child, in a form that it can use without allocating. It writes only `errno`.
struct SpawnPlan {
    program: *const c_char,
    argv: *const *const c_char,
    env: *const *const c_char,
    cwd: *const c_char,
    stdio: [RawFd; 3],
    report: Option<RawFd>,
    user: Option<(u32, u32)>,
    is_root: bool,
    limits: [(Resource, libc::rlimit); 5],
    parent: libc::pid_t,
    errno: c_int,
}

/// Starts the order's program as the leader of a new group and returns its process id.
pub(crate) fn spawn(
    order: &Order,
    cwd: &Path,
    stdio: &[OwnedFd; 3],
    report: Option<&OwnedFd>,
) -> io::Result<libc::pid_t> {
    let argv: Vec<CString> =
        order.argv.iter().map(|word| c_string(word.as_bytes())).collect::<Result<_, _>>()?;
    let env: Vec<CString> = order
        .env
        .iter()
        .map(|(name, value)| c_string(format!("{name}={value}").as_bytes()))
        .collect::<Result<_, _>>()?;
    let cwd = c_string(cwd.as_os_str().as_bytes())?;
    let (argv, env) = (pointers(&argv), pointers(&env));
    if argv[0].is_null() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "there is no program to start"));
    }
    let mut plan = SpawnPlan {
        program: argv[0],
        argv: argv.as_ptr(),
        env: env.as_ptr(),
        cwd: cwd.as_ptr(),
        stdio: [stdio[0].as_raw_fd(), stdio[1].as_raw_fd(), stdio[2].as_raw_fd()],
        report: report.map(AsRawFd::as_raw_fd),
        user: order.user,
        is_root: rustix::process::geteuid().is_root(),
        limits: limits(order),
        parent: rustix::process::getpid().as_raw_nonzero().get(),
        errno: 0,
    };
    let mut stack = vec![0_u8; STACK];
    // SAFETY: sigset_t is plain bits, and both calls only write to locals. No signal may run a handler of ours in the
    // child, which shares our memory; the child sets an empty mask before it executes the program.
    let pid = unsafe {
        let (mut all, mut before): (libc::sigset_t, libc::sigset_t) =
            (std::mem::zeroed(), std::mem::zeroed());
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
        // SAFETY: the stack grows downwards from its aligned end and outlives the call, because CLONE_VFORK blocks this
        // thread until the child has executed the program or has ended. `begin` makes system calls, copies integers and
        // allocates nothing. Descriptors, signal dispositions and limits belong to the child: only memory is shared.
        let top = stack.as_mut_ptr().add(STACK & !15).cast::<c_void>();
        let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
        let pid = libc::clone(begin, top, flags, (&raw mut plan).cast());
        let failed = io::Error::last_os_error();
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, ptr::null_mut());
        if pid < 0 { Err(failed) } else { Ok(pid) }
    }?;
    // SAFETY: the child wrote it before it ended; the compiler cannot see that.
    let errno = unsafe { ptr::read_volatile(&raw const plan.errno) };
    if errno == 0 {
        return Ok(pid);
    }
    // SAFETY: the child has ended and is ours to reap; a null pointer requests no status.
    unsafe { libc::waitpid(pid, ptr::null_mut(), 0) };
    Err(io::Error::from_raw_os_error(errno))
}

fn c_string(bytes: &[u8]) -> io::Result<CString> {
    CString::new(bytes).map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))
}

fn pointers(strings: &[CString]) -> Vec<*const c_char> {
    strings.iter().map(|string| string.as_ptr()).chain([ptr::null()]).collect()
}

/// A limit that is not given is set to its current value.
fn limits(order: &Order) -> [(Resource, libc::rlimit); 5] {
    let limits = order.limits;
    [
        (libc::RLIMIT_DATA, limits.memory, 0),
        // The first second over the limit causes SIGXCPU, which a program may handle; the next one kills.
        (libc::RLIMIT_CPU, limits.cpu_seconds, 1),
        (libc::RLIMIT_NOFILE, limits.open_files, 0),
        (libc::RLIMIT_FSIZE, limits.file_size, 0),
        (libc::RLIMIT_CORE, Some(0), 0),
    ]
    .map(|(resource, limit, more)| {
        let mut now = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
        match limit {
            Some(limit) => now = libc::rlimit { rlim_cur: limit, rlim_max: limit.saturating_add(more) },
            // SAFETY: getrlimit only writes the struct, which lives on this stack.
            None => unsafe {
                libc::getrlimit(resource, &raw mut now);
            },
        }
        (resource, now)
    })
}

extern "C" fn begin(plan: *mut c_void) -> c_int {
    // SAFETY: `spawn` passes its plan, which no other code accesses during this call.
    unsafe {
        let plan = plan.cast::<SpawnPlan>();
        become_program(&*plan);
        ptr::write_volatile(&raw mut (*plan).errno, *libc::__errno_location());
        libc::_exit(127)
    }
}

/// Returns only if a call failed; the error is in errno. Each step may remove the privilege for the previous ones,
/// hence the order: the user before the directory, which the user must be able to enter, and termination with the
/// supervisor last, because a change of user resets it.
///
/// SAFETY: for the child only, before it executes the program. Raw system calls are used where the C library's wrappers
/// would handle threads, of which the child has none.
unsafe fn become_program(plan: &SpawnPlan) {
    // SAFETY: descriptors and pointers belong to the plan, which outlives this; the shim keeps REPORT_FD occupied, so
    // every passed descriptor is above it and none is replaced by another.
    unsafe {
        for (target, fd) in [0, 1, 2].into_iter().zip(plan.stdio).chain(plan.report.map(|fd| (REPORT_FD, fd)))
        {
            if libc::dup2(fd, target) < 0 {
                return;
            }
        }
        if let Some((uid, gid)) = plan.user
            && ((plan.is_root && libc::syscall(libc::SYS_setgroups, 0, ptr::null::<libc::gid_t>()) != 0)
                || libc::syscall(libc::SYS_setgid, gid) != 0
                || libc::syscall(libc::SYS_setuid, uid) != 0)
        {
            return;
        }
        if libc::chdir(plan.cwd) != 0 || libc::setpgid(0, 0) != 0 {
            return;
        }
        for (resource, limit) in &plan.limits {
            if libc::setrlimit(*resource, limit) != 0 {
                return;
            }
        }
        if libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) != 0 {
            return;
        }
        // The supervisor may have died before the call above.
        if libc::getppid() != plan.parent {
            libc::_exit(127);
        }
        // Rust programs ignore SIGPIPE, and an ignored signal stays ignored.
        libc::signal(libc::SIGPIPE, libc::SIG_DFL);
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const none, ptr::null_mut());
        libc::execve(plan.program, plan.argv, plan.env);
    }
}
