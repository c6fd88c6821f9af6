//! One run of one command.

use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::pipe;

use super::argv::{self, PlaceholderValues};
use super::exit::Meaning;
use super::message::{Exited, FromShim, LeaseEnd, Order, StopCause, ToShim, ns_at};
use super::pool::{Pool, Shim};
use super::report::{ReportEvent, Reports};
use super::spec::CommandSpec;
use super::sys::REPORT_FD;
use super::tail::Tail;
use crate::attempt::done::Done;
use crate::attempt::run_result::{ProcessFacts, RunResult};
use crate::model::job::settle::{Outcome, Retry};
use crate::model::log::LogStream;
use crate::text::redact::{self, Redactor};
use crate::worker::context::Context;
use crate::worker::running::Stop;

/// How long the pipes are read after every process that could write to them has ended.
const DRAIN: Duration = Duration::from_secs(1);
/// A supervisor that sends nothing for this long after it should have is considered suspended.
const PATIENCE: Duration = Duration::from_secs(10);

/// Runs the command for the job and returns its result. It ends by itself, in time: the supervisor enforces the
/// timeout, the lease and the stop switch, and this function monitors the supervisor.
pub(crate) async fn run(spec: &CommandSpec, pool: &Pool, job: &Context) -> RunResult {
    let redactor = job.redactor().and(&spec.redactor);
    let mut facts = ProcessFacts::default();
    let finish = match prepare(spec, job) {
        Err(problem) => RunResult::failed(
            Retry::Permanent,
            format!("cannot build the command from the payload: {problem}"),
        ),
        Ok(order) => match start(spec, pool, order).await {
            Err(error) => RunResult::failed(Retry::ByPolicy, format!("cannot start the command: {error}")),
            Ok((shim, pipes)) => {
                let mut course = Course::new(spec, job, redactor.clone());
                let (end, shim) = course.follow(shim, pipes).await;
                if let Some(shim) = shim {
                    pool.give_back(shim);
                }
                course.conclude(end, &mut facts)
            }
        },
    };
    job.logs.finish(job.fence(), true).await;
    RunResult { facts: Some(Box::new(facts)), ..finish.redacted(&redactor) }
}

fn prepare(spec: &CommandSpec, job: &Context) -> Result<Order, String> {
    let facts = PlaceholderValues {
        tenant: job.tenant_id(),
        job: job.job_id(),
        attempt: job.attempt(),
        payload: job.payload(),
    };
    let argv = argv::build(&spec.argv, &facts)?;
    let mut env = spec.environment.build(&facts)?;
    if spec.reports {
        env.push(("WINDLASS_REPORT".to_owned(), format!("/dev/fd/{REPORT_FD}")));
    }
    Ok(Order {
        argv,
        env,
        cwd: spec.cwd.as_ref().map(|cwd| cwd.to_string_lossy().into_owned()),
        scratch: std::env::temp_dir().to_string_lossy().into_owned(),
        user: spec.user,
        limits: spec.limits,
        has_stdin: spec.gets_payload,
        has_report: spec.reports,
        grace_ms: u64::try_from(spec.grace.as_millis()).unwrap_or(u64::MAX),
        timeout_at: ns_at(job.deadline()),
        lease: lease_of(job),
    })
}

fn lease_of(job: &Context) -> LeaseEnd {
    let (stop_at, kill_at) = job.lease.ends_at();
    LeaseEnd { stop_at: ns_at(stop_at), kill_at: ns_at(kill_at) }
}

/// Our ends of the command's pipes.
struct Pipes {
    stdin: Option<pipe::Sender>,
    stdout: pipe::Receiver,
    stderr: pipe::Receiver,
    report: Option<pipe::Receiver>,
}

async fn start(spec: &CommandSpec, pool: &Pool, order: Order) -> io::Result<(Shim, Pipes)> {
    let mut theirs: Vec<OwnedFd> = Vec::with_capacity(4);
    let mut stdin = None;
    if spec.gets_payload {
        let (reader, writer) = io::pipe()?;
        theirs.push(reader.into());
        stdin = Some(pipe::Sender::from_owned_fd(writer.into())?);
    }
    let mut output = || -> io::Result<pipe::Receiver> {
        let (reader, writer) = io::pipe()?;
        theirs.push(writer.into());
        pipe::Receiver::from_owned_fd(reader.into())
    };
    let (stdout, stderr) = (output()?, output()?);
    let report = if spec.reports { Some(output()?) } else { None };
    if let Some((uid, gid)) = spec.user {
        // The command opens the report by its path, which checks the permissions.
        for fd in &theirs {
            std::os::unix::fs::fchown(fd, Some(uid), Some(gid))?;
        }
    }
    let mut shim = pool.take()?;
    shim.order(order, &theirs).await?;
    Ok((shim, Pipes { stdin, stdout, stderr, report }))
}

/// How a run ended, as far as it is known.
enum End {
    Exited(Exited),
    Refused(String),
    /// The supervisor was killed or suspended.
    Unsupervised,
}

/// The output of a run so far.
struct Course<'a> {
    spec: &'a CommandSpec,
    job: &'a Context,
    streams: [redact::Stream; 2],
    tails: [Tail; 2],
    reports: Reports,
    redactor: Redactor,
    pid: Option<i32>,
    text: String,
}

impl<'a> Course<'a> {
    fn new(spec: &'a CommandSpec, job: &'a Context, redactor: Redactor) -> Self {
        Self {
            spec,
            job,
            streams: [redactor.stream(), redactor.stream()],
            tails: [Tail::new(spec.tail_bytes), Tail::new(spec.tail_bytes)],
            reports: Reports::default(),
            redactor,
            pid: None,
            text: String::new(),
        }
    }

    /// Follows the run until the supervisor reports that everything has ended. Returns the supervisor if it can be
    /// reused.
    async fn follow(&mut self, mut shim: Shim, pipes: Pipes) -> (End, Option<Shim>) {
        let Pipes { stdin, stdout, stderr, report } = pipes;
        let (mut stdout, mut stderr, mut report) = (Some(stdout), Some(stderr), report);
        let mut buffers = [vec![0; 64 * 1024], vec![0; 64 * 1024], vec![0; 4096]];
        let feed = feed(stdin, self.job.payload());
        tokio::pin!(feed);
        let mut is_fed = false;
        let mut renewals = self.job.lease.granted();
        let mut unanswered_since: Option<Instant> = None;
        let mut is_asked = false;
        let mut ended = None;
        let mut drained_by = Instant::now();
        loop {
            let [out, err, rep] = &mut buffers;
            if ended.is_some() && stdout.is_none() && stderr.is_none() && report.is_none() {
                break;
            }
            let patience = unanswered_since.map(|since| since + PATIENCE + self.spec.grace);
            let backstop = self.job.deadline() + self.spec.grace + PATIENCE;
            let give_up =
                if ended.is_some() { drained_by } else { patience.unwrap_or(backstop).min(backstop) };
            tokio::select! {
                message = shim.receive(), if ended.is_none() => match message {
                    Ok(FromShim::Started { pid }) => self.pid = Some(pid),
                    Ok(FromShim::Heard) => unanswered_since = None,
                    Ok(FromShim::Refused { error }) => return (End::Refused(error), Some(shim)),
                    Ok(FromShim::Exited(end)) => {
                        ended = Some(end);
                        drained_by = Instant::now() + DRAIN;
                    }
                    Err(_) => {
                        shim.destroy(self.pid).await;
                        return (End::Unsupervised, None);
                    }
                },
                count = read(&mut stdout, out), if stdout.is_some() => self.receive(LogStream::Stdout, &out[..count]),
                count = read(&mut stderr, err), if stderr.is_some() => self.receive(LogStream::Stderr, &err[..count]),
                count = read(&mut report, rep), if report.is_some() => self.receive_report(&rep[..count]),
                () = &mut feed, if !is_fed => is_fed = true,
                _ = renewals.changed(), if ended.is_none() => {
                    unanswered_since.get_or_insert_with(Instant::now);
                    // A supervisor that has exited is detected by reading.
                    let _ = shim.say(&ToShim::Lease(lease_of(self.job))).await;
                }
                _ = self.job.switch.stopped(), if !is_asked && ended.is_none() => {
                    is_asked = true;
                    unanswered_since.get_or_insert_with(Instant::now);
                    let _ = shim.say(&ToShim::Stop).await;
                }
                () = tokio::time::sleep_until(give_up.into()) => {
                    if ended.is_some() {
                        break;
                    }
                    shim.destroy(self.pid).await;
                    return (End::Unsupervised, None);
                }
            }
            let printed = self.tails.iter().map(|tail| tail.total() as u64).sum::<u64>();
            if !is_asked && ended.is_none() && self.spec.output_limit.is_some_and(|most| printed > most) {
                is_asked = true;
                let _ = shim.say(&ToShim::Kill(StopCause::Output)).await;
            }
        }
        (ended.map_or(End::Unsupervised, End::Exited), Some(shim))
    }

    fn receive(&mut self, stream: LogStream, bytes: &[u8]) {
        let which = usize::from(stream == LogStream::Stderr);
        self.streams[which].push(bytes, &mut self.text);
        self.keep(which, stream);
    }

    fn keep(&mut self, which: usize, stream: LogStream) {
        self.tails[which].push(&self.text);
        self.job.logs.append(self.job.fence(), stream, &self.text);
        self.text.clear();
    }

    fn receive_report(&mut self, bytes: &[u8]) {
        for event in self.reports.push(bytes) {
            self.forward(&event);
        }
    }

    fn forward(&self, event: &ReportEvent) {
        match event {
            ReportEvent::Progress { percent, message } => {
                self.job.progress(*percent, &self.redactor.text(message));
            }
            ReportEvent::Invalid(problem) => {
                let line = format!("{}\n", self.redactor.text(problem));
                self.job.logs.append(self.job.fence(), LogStream::Log, &line);
            }
        }
    }

    /// Computes the result of the run. All buffered output is written first.
    fn conclude(mut self, end: End, facts: &mut ProcessFacts) -> RunResult {
        for (which, stream) in [LogStream::Stdout, LogStream::Stderr].into_iter().enumerate() {
            let held = std::mem::replace(&mut self.streams[which], Redactor::default().stream());
            held.finish(&mut self.text);
            self.keep(which, stream);
        }
        let (events, reported) = std::mem::take(&mut self.reports).finish();
        events.iter().for_each(|event| self.forward(event));
        facts.pid = self.pid;
        let last_words =
            self.tails[1].last_line().or_else(|| self.tails[0].last_line()).map(ToOwned::to_owned);
        let finish = match end {
            End::Refused(error) => {
                RunResult::failed(Retry::ByPolicy, format!("cannot start the command: {error}"))
            }
            End::Unsupervised => self.unsupervised(),
            End::Exited(ended) => {
                facts.exit_code = ended.code;
                facts.signal = ended.signal;
                facts.max_rss_kb = Some(ended.max_rss_kb);
                self.meaning(&ended, reported, last_words.as_deref())
            }
        };
        let [stdout, stderr] = self.tails;
        facts.stdout = stdout.finish();
        facts.stderr = stderr.finish();
        finish
    }

    fn meaning(&self, ended: &Exited, reported: Result<Done, String>, last_words: Option<&str>) -> RunResult {
        let limits = &self.spec.limits;
        match ended.why {
            Some(StopCause::Timeout) => {
                return RunResult::of(Outcome::TimedOut, "the command ran past its timeout and was ended");
            }
            Some(StopCause::Asked) => return self.stopped(),
            Some(StopCause::LeaseOver | StopCause::WorkerGone) => {
                return RunResult::stopped(Stop::LeaseLost);
            }
            Some(StopCause::Processes) => {
                let most = limits.processes.unwrap_or_default();
                return RunResult::failed(
                    Retry::ByPolicy,
                    format!("the command exceeded its limit of {most} processes and was killed"),
                );
            }
            Some(StopCause::Memory) => {
                let most = limits.memory.unwrap_or_default();
                return RunResult::failed(
                    Retry::ByPolicy,
                    format!("the command exceeded its memory limit of {most} bytes and was killed"),
                );
            }
            Some(StopCause::Output) => {
                let most = self.spec.output_limit.unwrap_or_default();
                return RunResult::failed(
                    Retry::ByPolicy,
                    format!("the command exceeded its output limit of {most} bytes and was killed"),
                );
            }
            None => {}
        }
        let because = |what: String| match last_words {
            Some(words) => format!("{what}: {}", crate::text::storable(words.as_bytes(), 500)),
            None => what,
        };
        let Some(code) = ended.code else {
            let signal = ended.signal.unwrap_or_default();
            return RunResult::failed(Retry::ByPolicy, because(format!("killed by signal {signal}")));
        };
        let failed = |retry| RunResult::failed(retry, because(format!("exit code {code}")));
        match (self.spec.exit_codes.of(code), reported) {
            (Meaning::Success | Meaning::Snooze(_), Err(problem)) => {
                RunResult::failed(Retry::ByPolicy, problem)
            }
            (Meaning::Success, Ok(done)) => self.succeeded(done),
            (Meaning::Snooze(delay), Ok(done)) => Ok(Done { snooze: Some(delay), ..done }).into(),
            (Meaning::Retry, _) => failed(Retry::ByPolicy),
            (Meaning::RetryAfter(delay), _) => failed(Retry::After(delay)),
            (Meaning::Permanent, _) => failed(Retry::Permanent),
        }
    }

    /// Secrets are never stored in a job, and a payload without a part of it would run incorrectly.
    fn succeeded(&self, done: Done) -> RunResult {
        let contains_secret = |job: &crate::model::new_job::NewJob| {
            job.payload_text().is_ok_and(|payload| self.redactor.finds_in(payload))
        };
        match done.next.iter().position(contains_secret) {
            Some(position) => {
                let error = format!(
                    "the payload of next[{position}] contains a secret; secrets are not allowed in jobs"
                );
                RunResult::failed(Retry::Permanent, error)
            }
            None => Ok(done).into(),
        }
    }

    fn stopped(&self) -> RunResult {
        RunResult::stopped(self.job.switch.reason().unwrap_or(Stop::LeaseLost))
    }

    fn unsupervised(&self) -> RunResult {
        if self.job.switch.reason().is_some() {
            return self.stopped();
        }
        if self.job.remaining().is_zero() {
            return RunResult::of(Outcome::TimedOut, "the command ran past its timeout and was ended");
        }
        RunResult::failed(
            Retry::ByPolicy,
            "the supervisor of the command was killed or stopped responding, so the command was stopped",
        )
    }
}

/// Reads the available bytes; at the end, or on an error, the pipe is closed.
async fn read(pipe: &mut Option<pipe::Receiver>, into: &mut [u8]) -> usize {
    let Some(open) = pipe else { return 0 };
    let count = open.read(into).await.unwrap_or(0);
    if count == 0 {
        *pipe = None;
    }
    count
}

/// Writes the payload to the command's standard input. A command that does not read all of it is not an error.
async fn feed(stdin: Option<pipe::Sender>, payload: &str) {
    if let Some(mut stdin) = stdin {
        let _ = stdin.write_all(payload.as_bytes()).await;
    }
}
