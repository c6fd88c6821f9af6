//! One run of one command: from the job to what became of it.

use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::pipe;

use super::argv::{self, PlaceholderValues};
use super::exit::Meaning;
use super::message::{Exited, FromShim, LeaseEnd, Order, StopCause, ToShim, ns_at};
use super::pool::{Pool, Shim};
use super::report::{Heard, Reports};
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

/// How long what is left in the pipes is read after everything that could write to them was ended.
const DRAIN: Duration = Duration::from_secs(1);
/// A supervisor that says nothing for this long after it should have is taken for frozen.
const PATIENCE: Duration = Duration::from_secs(10);

/// Runs the command for the job and answers how it went. It ends by itself, in time: the timeout, the lease and the
/// switch are looked after by the supervisor, and the supervisor is looked after here.
pub(crate) async fn run(spec: &CommandSpec, pool: &Pool, job: &Context) -> RunResult {
    let redactor = job.redactor().and(&spec.redactor);
    let mut facts = ProcessFacts::default();
    let finish = match prepare(spec, job) {
        Err(problem) => RunResult::failed(
            Retry::Permanent,
            format!("the command cannot be made from the payload: {problem}"),
        ),
        Ok(order) => match start(spec, pool, job, order).await {
            Err(error) => {
                RunResult::failed(Retry::ByPolicy, format!("the command cannot be started: {error}"))
            }
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

async fn start(spec: &CommandSpec, pool: &Pool, _: &Context, order: Order) -> io::Result<(Shim, Pipes)> {
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
        // It opens the report by its name, which asks for its rights.
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
    /// The supervisor was killed or froze.
    Unsupervised,
}

/// What a run has said so far.
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

    /// Until the supervisor says that everything has ended. Gives it back if it can be used again.
    async fn follow(&mut self, mut shim: Shim, pipes: Pipes) -> (End, Option<Shim>) {
        let Pipes { stdin, stdout, stderr, report } = pipes;
        let (mut stdout, mut stderr, mut report) = (Some(stdout), Some(stderr), report);
        let mut buffers = [vec![0; 64 * 1024], vec![0; 64 * 1024], vec![0; 4096]];
        let feed = feed(stdin, self.job.payload());
        tokio::pin!(feed);
        let mut is_fed = false;
        let mut renewals = self.job.lease.granted();
        let mut silent_since: Option<Instant> = None;
        let mut is_asked = false;
        let mut ended = None;
        let mut drained_by = Instant::now();
        loop {
            let [out, err, rep] = &mut buffers;
            if ended.is_some() && stdout.is_none() && stderr.is_none() && report.is_none() {
                break;
            }
            let patience = silent_since.map(|since| since + PATIENCE + self.spec.grace);
            let backstop = self.job.deadline() + self.spec.grace + PATIENCE;
            let give_up =
                if ended.is_some() { drained_by } else { patience.unwrap_or(backstop).min(backstop) };
            tokio::select! {
                word = shim.hear(), if ended.is_none() => match word {
                    Ok(FromShim::Started { pid }) => self.pid = Some(pid),
                    Ok(FromShim::Heard) => silent_since = None,
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
                count = read(&mut stdout, out), if stdout.is_some() => self.hear(LogStream::Stdout, &out[..count]),
                count = read(&mut stderr, err), if stderr.is_some() => self.hear(LogStream::Stderr, &err[..count]),
                count = read(&mut report, rep), if report.is_some() => self.hear_report(&rep[..count]),
                () = &mut feed, if !is_fed => is_fed = true,
                _ = renewals.changed(), if ended.is_none() => {
                    silent_since.get_or_insert_with(Instant::now);
                    // One that is gone is seen by hearing.
                    let _ = shim.say(&ToShim::Lease(lease_of(self.job))).await;
                }
                _ = self.job.switch.stopped(), if !is_asked && ended.is_none() => {
                    is_asked = true;
                    silent_since.get_or_insert_with(Instant::now);
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

    fn hear(&mut self, stream: LogStream, bytes: &[u8]) {
        let which = usize::from(stream == LogStream::Stderr);
        self.streams[which].push(bytes, &mut self.text);
        self.keep(which, stream);
    }

    fn keep(&mut self, which: usize, stream: LogStream) {
        self.tails[which].push(&self.text);
        self.job.logs.append(self.job.fence(), stream, &self.text);
        self.text.clear();
    }

    fn hear_report(&mut self, bytes: &[u8]) {
        for heard in self.reports.push(bytes) {
            self.tell(&heard);
        }
    }

    fn tell(&self, heard: &Heard) {
        match heard {
            Heard::Progress { percent, message } => self.job.progress(*percent, &self.redactor.text(message)),
            Heard::Nonsense(problem) => {
                let line = format!("{}\n", self.redactor.text(problem));
                self.job.logs.append(self.job.fence(), LogStream::Log, &line);
            }
        }
    }

    /// What it all means. Everything that was held back is written first.
    fn conclude(mut self, end: End, facts: &mut ProcessFacts) -> RunResult {
        for (which, stream) in [LogStream::Stdout, LogStream::Stderr].into_iter().enumerate() {
            let held = std::mem::replace(&mut self.streams[which], Redactor::default().stream());
            held.finish(&mut self.text);
            self.keep(which, stream);
        }
        let (heard, reported) = std::mem::take(&mut self.reports).finish();
        heard.iter().for_each(|heard| self.tell(heard));
        facts.pid = self.pid;
        let last_words =
            self.tails[1].last_line().or_else(|| self.tails[0].last_line()).map(ToOwned::to_owned);
        let finish = match end {
            End::Refused(error) => {
                RunResult::failed(Retry::ByPolicy, format!("the command cannot be started: {error}"))
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
                return RunResult::of(Outcome::Released, "the worker lost its lease");
            }
            Some(StopCause::Processes) => {
                let most = limits.processes.unwrap_or_default();
                return RunResult::failed(
                    Retry::ByPolicy,
                    format!("the command had more than {most} processes and was killed"),
                );
            }
            Some(StopCause::Memory) => {
                let most = limits.memory.unwrap_or_default();
                return RunResult::failed(
                    Retry::ByPolicy,
                    format!("the command held more than {most} bytes of memory and was killed"),
                );
            }
            Some(StopCause::Output) => {
                let most = self.spec.output_limit.unwrap_or_default();
                return RunResult::failed(
                    Retry::ByPolicy,
                    format!("the command printed more than {most} bytes and was killed"),
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

    /// Secrets never enter a job's row, and a payload without a part of it would run wrong.
    fn succeeded(&self, done: Done) -> RunResult {
        let holds_secret = |job: &crate::model::new_job::NewJob| {
            job.payload_text().is_ok_and(|payload| self.redactor.finds_in(payload))
        };
        match done.next.iter().position(holds_secret) {
            Some(position) => {
                let error =
                    format!("the payload of next[{position}] holds a secret, and secrets never enter a job");
                RunResult::failed(Retry::Permanent, error)
            }
            None => Ok(done).into(),
        }
    }

    fn stopped(&self) -> RunResult {
        match self.job.switch.reason() {
            Some(Stop::Canceled) => RunResult::of(Outcome::Canceled, "canceled"),
            Some(Stop::Shutdown) => RunResult::of(Outcome::Released, "the worker shut down"),
            Some(Stop::LeaseLost) | None => RunResult::of(Outcome::Released, "the worker lost its lease"),
        }
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
            "the command's supervisor was killed or froze, so the command was ended",
        )
    }
}

/// Reads what is there; at its end, or when it breaks, the pipe goes.
async fn read(pipe: &mut Option<pipe::Receiver>, into: &mut [u8]) -> usize {
    let Some(open) = pipe else { return 0 };
    let count = open.read(into).await.unwrap_or(0);
    if count == 0 {
        *pipe = None;
    }
    count
}

/// Writes the payload to the command's standard input. One that does not read it all is no error.
async fn feed(stdin: Option<pipe::Sender>, payload: &str) {
    if let Some(mut stdin) = stdin {
        let _ = stdin.write_all(payload.as_bytes()).await;
    }
}
