//! The supervising process between a worker and its commands. It is the same program, started again; it runs one
//! command after another and ensures that no process of a command outlives it.
//!
//! It ends a command on request, when the timeout passes, when the worker has exited (the connection closes), and when
//! the worker is suspended or disconnected (no renewal in time, by the machine's monotonic clock): SIGTERM to the
//! group, a grace time, SIGKILL. After every command it kills the remaining processes: it adopts orphans, so it also
//! finds a process that left its session. The worker keeps a few shims and reuses them: starting one costs as much as
//! starting a command.
//!
//! It stops when the connection closes, after the running command has been ended.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{
    Pid, PidfdFlags, Signal, getpid, kill_process, kill_process_group, pidfd_open, set_child_subreaper,
    setsid,
};

use super::link::Link;
use super::message::{Exited, FromShim, Order, StopCause, ToShim, now_ns};
use super::scratch::Scratch;
use super::{spawn, sweep, sys};

/// The first argument that marks a process as a shim.
pub(crate) const ARGUMENT: &str = "windlass-shim";

static IS_READY: AtomicBool = AtomicBool::new(false);

/// Call this at the start of `main`, before any runtime, in every program whose workers run commands. In a process that
/// was started as a shim it supervises commands and does not return; in any other it returns immediately.
///
/// ```no_run
/// // The first line of `main`.
/// windlass::worker::run_shim_if_requested();
/// // Start the runtime and the worker after this.
/// ```
pub fn run_shim_if_requested() {
    IS_READY.store(true, Ordering::Release);
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().is_some_and(|first| first == ARGUMENT) && arguments.next().is_none() {
        let ended = serve();
        std::process::exit(i32::from(ended.is_err()));
    }
}

/// Whether this program can be its own shim. A program that cannot would start itself again and again.
pub(crate) fn is_ready() -> bool {
    IS_READY.load(Ordering::Acquire)
}

fn serve() -> io::Result<()> {
    let socket = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    // Fails only for the leader of a group, which already has its own session.
    let _ = setsid();
    set_child_subreaper(Some(getpid()))?;
    rustix::thread::set_no_new_privs(true)?;
    sys::close_on_exec_above_stderr()?;
    let _reserved = reserve_report_fd()?;
    let mut link = Link::new(socket);
    let mut scratch = Scratch::default();
    loop {
        match link.wait()? {
            Some(ToShim::Run(order)) => {
                let fds = link.take_descriptors();
                match RunningCommand::start(&order, fds, &mut scratch) {
                    Ok(run) => {
                        link.say(&FromShim::Started { pid: run.pid.as_raw_nonzero().get() });
                        let ended = run.supervise(&mut link);
                        link.say(&FromShim::Exited(ended));
                    }
                    Err(error) => link.say(&FromShim::Refused { error: error.to_string() }),
                }
                scratch.clear();
            }
            // Sent for a command that has ended meanwhile.
            Some(ToShim::Lease(_) | ToShim::Stop | ToShim::Kill(_)) => {}
            None => return Ok(()),
        }
    }
}

/// Occupies the number of the report's descriptor in this process, so that passing it to a child replaces no other
/// descriptor.
fn reserve_report_fd() -> io::Result<Vec<File>> {
    use std::os::fd::AsRawFd;
    let mut taken = Vec::new();
    while taken.last().is_none_or(|file: &File| file.as_raw_fd() < sys::REPORT_FD) {
        taken.push(File::open("/dev/null")?);
    }
    Ok(taken)
}

/// A running command.
struct RunningCommand<'a> {
    order: &'a Order,
    pid: Pid,
    pidfd: OwnedFd,
    stop_at: u64,
    lease_kill_at: u64,
    stopping: Option<Stopping>,
    is_alone: bool,
}

struct Stopping {
    why: StopCause,
    kill_at: u64,
    is_killed: bool,
}

impl<'a> RunningCommand<'a> {
    fn start(order: &'a Order, fds: Vec<OwnedFd>, scratch: &mut Scratch) -> io::Result<Self> {
        let mut fds = fds.into_iter();
        let mut next = || fds.next().ok_or_else(|| io::Error::other("a descriptor did not arrive"));
        let stdin = if order.has_stdin { next()? } else { File::open("/dev/null")?.into() };
        let stdio = [stdin, next()?, next()?];
        let report = if order.has_report { Some(next()?) } else { None };
        let cwd = match &order.cwd {
            Some(cwd) => Path::new(cwd),
            None => scratch.ready(order)?,
        };
        let pid = spawn::spawn(order, cwd, &stdio, report.as_ref())?;
        let pid = Pid::from_raw(pid).ok_or_else(|| io::Error::other("the process has no id"))?;
        let pidfd = pidfd_open(pid, PidfdFlags::empty())?;
        Ok(Self {
            order,
            pid,
            pidfd,
            stop_at: order.lease.stop_at,
            lease_kill_at: order.lease.kill_at,
            stopping: None,
            is_alone: false,
        })
    }

    /// Runs until the command has ended and no process of it is left.
    fn supervise(mut self, link: &mut Link) -> Exited {
        let mut watch = Watch::new(self.order);
        loop {
            self.check_clock();
            let timeout =
                Duration::from_nanos(self.next_instant().saturating_sub(now_ns())).min(watch.pause());
            let timeout =
                Timespec { tv_sec: timeout.as_secs().cast_signed(), tv_nsec: timeout.subsec_nanos().into() };
            let mut fds =
                [PollFd::new(&self.pidfd, PollFlags::IN), PollFd::new(link.socket(), PollFlags::IN)];
            let watched = if self.is_alone { &mut fds[..1] } else { &mut fds[..] };
            // An interrupted wait only ends early.
            let _ = poll(watched, Some(&timeout));
            let (has_ended, has_news) = (!fds[0].revents().is_empty(), !fds[1].revents().is_empty());
            if has_news && !self.is_alone {
                self.receive(link);
            }
            if has_ended {
                break;
            }
            if watch.is_due() {
                self.count(&mut watch);
            }
        }
        // The leader's process id stays in use until it is reaped, so the group cannot be another one.
        let _ = kill_process_group(self.pid, Signal::KILL);
        let reaped = self.reap();
        sweep_the_rest();
        Exited {
            code: reaped.and_then(|reaped| reaped.code),
            signal: reaped.and_then(|reaped| reaped.signal),
            max_rss_kb: reaped.map_or(0, |reaped| reaped.max_rss_kb),
            why: self.stopping.map(|stopping| stopping.why),
        }
    }

    fn receive(&mut self, link: &mut Link) {
        loop {
            match link.poll() {
                Ok(Some(ToShim::Lease(lease))) => {
                    self.stop_at = lease.stop_at;
                    self.lease_kill_at = lease.kill_at;
                    link.say(&FromShim::Heard);
                }
                Ok(Some(ToShim::Stop)) => self.stop(StopCause::Asked),
                Ok(Some(ToShim::Kill(why))) => self.kill_now(why),
                Ok(Some(ToShim::Run(_))) => {}
                Ok(None) => return,
                Err(_) => {
                    self.is_alone = true;
                    return self.stop(StopCause::WorkerGone);
                }
            }
        }
    }

    /// Counts while the group is suspended: a process that multiplies would be faster than a slow count, and leave no
    /// time for anything else on the machine.
    fn count(&mut self, watch: &mut Watch) {
        let is_killed = self.stopping.as_ref().is_some_and(|stopping| stopping.is_killed);
        if is_killed {
            return;
        }
        let _ = kill_process_group(self.pid, Signal::STOP);
        match watch.count() {
            Some(why) => self.kill_now(why),
            None => {
                let _ = kill_process_group(self.pid, Signal::CONT);
            }
        }
    }

    fn check_clock(&mut self) {
        let now = now_ns();
        if now >= self.stop_at {
            self.stop(StopCause::LeaseOver);
        } else if now >= self.order.timeout_at {
            self.stop(StopCause::Timeout);
        }
        if self
            .stopping
            .as_ref()
            .is_some_and(|stopping| !stopping.is_killed && now >= stopping.kill_at.min(self.lease_kill_at))
        {
            self.kill();
        }
    }

    fn next_instant(&self) -> u64 {
        match &self.stopping {
            None => self.stop_at.min(self.order.timeout_at),
            Some(stopping) if stopping.is_killed => u64::MAX,
            Some(stopping) => stopping.kill_at.min(self.lease_kill_at),
        }
    }

    /// Requests it to end. The first reason is kept.
    fn stop(&mut self, why: StopCause) {
        if self.stopping.is_some() {
            return;
        }
        let kill_at = now_ns().saturating_add(self.order.grace_ms.saturating_mul(1_000_000));
        self.stopping = Some(Stopping { why, kill_at, is_killed: false });
        let _ = kill_process_group(self.pid, Signal::TERM);
        // A suspended process would receive it only when it continues.
        let _ = kill_process_group(self.pid, Signal::CONT);
    }

    fn kill_now(&mut self, why: StopCause) {
        if self.stopping.is_none() {
            self.stopping = Some(Stopping { why, kill_at: 0, is_killed: false });
        }
        self.kill();
    }

    fn kill(&mut self) {
        if let Some(stopping) = &mut self.stopping {
            stopping.is_killed = true;
        }
        let _ = kill_process_group(self.pid, Signal::KILL);
        let _ = kill_process(self.pid, Signal::KILL);
    }

    fn reap(&self) -> Option<sys::Reaped> {
        loop {
            match sys::reap(self.pid.as_raw_nonzero().get()) {
                Ok(Some(reaped)) => return Some(reaped),
                Ok(None) => std::thread::yield_now(),
                Err(_) => return None,
            }
        }
    }
}

/// Reaps and kills until this process has no children. Orphans of the command are among them.
fn sweep_the_rest() {
    let give_up = Instant::now() + Duration::from_secs(5);
    loop {
        match sys::reap(-1) {
            Ok(Some(_)) => continue,
            Ok(None) if Instant::now() > give_up => return,
            Ok(None) => sweep::kill_descendants(getpid().as_raw_nonzero().get()),
            Err(_) => return,
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Monitors a command's processes and their memory. A count reads a file per process of the machine, so it runs only if
/// the machine has so many more tasks that the limit may be exceeded, and for memory every two seconds.
struct Watch {
    processes: Option<u64>,
    memory: Option<u64>,
    /// The number of tasks without those of the command, at most.
    others: u64,
    last: Instant,
}

impl Watch {
    const EVERY: Duration = Duration::from_millis(20);
    const MEMORY_EVERY: Duration = Duration::from_secs(2);

    fn new(order: &Order) -> Self {
        let (processes, memory) = (order.limits.processes, order.limits.memory);
        let others = if processes.is_some() { sweep::tasks() } else { 0 };
        Self { processes, memory, others, last: Instant::now() }
    }

    fn pause(&self) -> Duration {
        match (self.processes, self.memory) {
            (Some(_), _) => Self::EVERY,
            (None, Some(_)) => Self::MEMORY_EVERY,
            (None, None) => Duration::from_secs(3600),
        }
    }

    fn is_due(&mut self) -> bool {
        let may_be_too_many = self.processes.is_some_and(|most| {
            let tasks = sweep::tasks();
            self.others = self.others.min(tasks);
            tasks - self.others > most
        });
        may_be_too_many || (self.memory.is_some() && self.last.elapsed() >= Self::MEMORY_EVERY)
    }

    fn count(&mut self) -> Option<StopCause> {
        let (processes, memory) = sweep::census(getpid().as_raw_nonzero().get());
        self.last = Instant::now();
        self.others = sweep::tasks().saturating_sub(processes);
        if self.processes.is_some_and(|most| processes > most) {
            return Some(StopCause::Processes);
        }
        self.memory.is_some_and(|most| memory > most).then_some(StopCause::Memory)
    }
}
