//! One job: its properties on the left, its history on the right, and a summary in one sentence on top.

use askama::Template;
use axum::extract::State as FromState;
use axum::http::header;
use axum::response::IntoResponse as _;
use jiff::Timestamp;
use serde_json::Value;
use uuid::Uuid;
use windlass::internals::headline;
use windlass::job::{Attempt, Filter, Job, LogChunk, LogPosition, State};
use windlass::schedule::Trigger;

use super::frame::{Frame, Section};
use super::jobs::{JobRow, rows, short};
use super::json_view::JsonView;
use super::page::{Page, capital, page, sentence as as_sentence};
use super::relative_time::{RelativeTime, seconds_between, span};
use super::sentence::{reason_words, sentence};
use super::status_mark::StatusMark;
use super::url_parameters::PathId;
use super::viewer::Viewer;
use super::worker_name::brief;
use crate::auth::Permission;
use crate::http::{App, Problem};

#[derive(Template)]
#[template(path = "job.html")]
struct JobView {
    frame: Frame,
    job: Job,
    short: String,
    mark: StatusMark,
    sentence: String,
    /// Why the job is waiting, and how to resolve it.
    why: Option<Vec<(String, String)>>,
    percent: Option<i32>,
    progress_message: String,
    facts: Vec<Fact>,
    /// The trigger that created the job.
    trigger: Option<Trigger>,
    subject: Option<String>,
    children: Vec<JobRow>,
    payload: JsonView,
    /// The whole payload, if it is small.
    payload_text: Option<String>,
    result: Option<JsonView>,
    artifact: Option<JsonView>,
    steps: Vec<Step>,
    may_cancel: bool,
    may_retry: bool,
    may_enqueue: bool,
    cancel_detail: &'static str,
}

struct Fact {
    name: &'static str,
    value: String,
    is_code: bool,
    /// The full value, if a short form is shown.
    whole: String,
}

enum Step {
    Moment(Moment),
    Attempt(Box<AttemptView>),
}

struct Moment {
    role: &'static str,
    shape: &'static str,
    what: &'static str,
    detail: String,
    when: RelativeTime,
}

struct AttemptView {
    number: i32,
    mark: StatusMark,
    /// The short and the full name.
    worker: Option<(String, String)>,
    lasted: Lasted,
    /// Relative to the longest attempt, in percent.
    share: u32,
    facts: String,
    error: Option<String>,
    stdout: String,
    stderr: String,
    is_followed: bool,
}

/// How long an attempt took, or when it started if it is running.
enum Lasted {
    Since(RelativeTime),
    For(String),
}

impl AttemptView {
    fn has_output(&self) -> bool {
        self.is_followed || !self.stdout.is_empty() || !self.stderr.is_empty()
    }

    fn has_body(&self) -> bool {
        self.has_output() || self.error.is_some() || !self.facts.is_empty()
    }
}

/// How many bytes of the end of an output are shown, of the newest attempt and of earlier ones. The log has more, as
/// long as it is kept.
const TAIL: usize = 8_000;
const EARLIER_TAIL: usize = 800;

/// The number of newest attempts that are shown, in addition to the first.
const MAX_ATTEMPTS: i32 = 10;

/// A payload up to this size is in the page, ready to be copied; a larger one is fetched when it is copied.
const COPIED: usize = 8_000;

/// `GET /ui/jobs/{job_id}`
pub(crate) async fn show(FromState(app): FromState<App>, viewer: Viewer, PathId(id): PathId) -> Page {
    let tenant = viewer.caller.tenant();
    let mut frame = viewer.frame(&app, Section::Jobs).await?;
    let reading = app.queue().read(viewer.caller.reach()).await?;
    let job = reading.job(tenant, id).await?.ok_or_else(|| Problem::not_found("job"))?;
    // The first and the last ones: there may be thousands in between.
    let (mut attempts, _) = reading.attempts_after(tenant, id, 0, 1).await?;
    let after = (job.attempt_count - MAX_ATTEMPTS).max(1);
    attempts.extend(reading.attempts_after(tenant, id, after, 2 * MAX_ATTEMPTS as u16).await?.0);
    let why = if job.status.is_terminal() || job.status == State::Running {
        None
    } else {
        Some(reading.why(id).await?)
    };
    let children = reading.children(tenant, id, 20).await?;
    let children = if children.is_empty() {
        Vec::new()
    } else {
        reading.list(&Filter::new(tenant).ids(children)).await?.jobs
    };
    // Applications may store any text there.
    let reference = job.source_ref.as_deref().and_then(|text| Uuid::try_parse(text).ok());
    let trigger = match reference.filter(|_| job.source != "system" && viewer.may(Permission::ReadTriggers)) {
        Some(reference) => reading.trigger(reference).await?,
        None => None,
    };
    let counts = reading.counts().await?;
    reading.end().await?;
    let log = app.queue().read_log(tenant, id, LogPosition::default()).await?;
    frame.dead_letters = counts.iter().map(|each| each.dead_letter).sum();

    let now = frame.now;
    let may_write = viewer.may(Permission::WriteJobs);
    let reasons = why.map(|why| {
        why.reasons.iter().map(|reason| (as_sentence(&reason.message), as_sentence(&reason.remedy))).collect()
    });
    page(&JobView {
        short: short(id),
        mark: StatusMark::of(job.status, job.attempt_count > 0),
        sentence: sentence(&job, &attempts, now),
        why: reasons,
        percent: job
            .progress_percent
            .filter(|_| job.status == State::Running)
            .map(|percent| percent.clamp(0.0, 100.0) as i32),
        progress_message: job.progress_message.clone().unwrap_or_default(),
        facts: facts(&job, trigger.is_some()),
        trigger,
        subject: job
            .subject_type
            .as_ref()
            .zip(job.subject_id.as_ref())
            .map(|(kind, id)| format!("{kind}/{id}")),
        children: rows(&children, now, false),
        payload: JsonView::new(&job.payload),
        payload_text: Some(pretty(&job.payload)).filter(|text| text.len() <= COPIED),
        result: job.result.as_ref().map(JsonView::new),
        artifact: job.artifact.as_ref().map(JsonView::new),
        steps: steps(&job, &attempts, &log.chunks, now),
        may_cancel: may_write && !job.status.is_terminal() && job.cancel_requested_at.is_none(),
        may_retry: may_write && job.status.is_terminal(),
        may_enqueue: may_write,
        cancel_detail: if job.status == State::Running {
            "Its worker is notified at the next heartbeat."
        } else {
            "It will not run."
        },
        job,
        frame,
    })
}

/// `GET /ui/jobs/{job_id}/payload`: the whole payload as text, to be read or copied.
pub(crate) async fn payload(FromState(app): FromState<App>, viewer: Viewer, PathId(id): PathId) -> Page {
    whole(&app, &viewer, id, |job| Some(job.payload)).await
}

/// `GET /ui/jobs/{job_id}/result`: the whole result as text.
pub(crate) async fn result(FromState(app): FromState<App>, viewer: Viewer, PathId(id): PathId) -> Page {
    whole(&app, &viewer, id, |job| job.result).await
}

async fn whole(app: &App, viewer: &Viewer, id: Uuid, part: fn(Job) -> Option<Value>) -> Page {
    let reading = app.queue().read(viewer.caller.reach()).await?;
    let job = reading.job(viewer.caller.tenant(), id).await?;
    reading.end().await?;
    let value = job.and_then(part).ok_or_else(|| Problem::not_found("job"))?;
    Ok(([(header::CONTENT_TYPE, "application/json")], pretty(&value)).into_response())
}

pub(crate) fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default()
}

fn facts(job: &Job, has_trigger: bool) -> Vec<Fact> {
    // The name of the trigger is shown instead of its id.
    let source_ref = job.source_ref.as_ref().filter(|_| !has_trigger);
    let fact = |name, value: String, is_code| Fact { name, value, is_code, whole: String::new() };
    let mut facts = vec![
        fact("Queue", job.queue.clone(), false),
        fact(
            "Source",
            source_words(&job.source).to_owned()
                + &source_ref.map(|from| format!(" {from}")).unwrap_or_default(),
            false,
        ),
        fact("Priority", job.priority.to_string(), true),
        fact("Attempts", format!("{} of {}", job.attempt_count, job.max_attempts), true),
    ];
    if let Some(worker) = &job.claimed_by_worker {
        facts.push(Fact { whole: worker.clone(), ..fact("Worker", brief(worker), true) });
    }
    let optional = [
        ("Dedupe key", &job.dedupe_key),
        ("Ordering key", &job.ordering_key),
        ("Correlation ID", &job.correlation_id),
        ("Trace ID", &job.trace),
    ];
    facts.extend(optional.into_iter().filter_map(|(name, value)| Some(fact(name, value.clone()?, true))));
    if let Some(reason) = &job.reason {
        facts.push(fact("Reason", capital(reason_words(reason)), false));
    }
    if let Some(deadline) = job.deadline {
        facts.push(fact("Deadline", super::relative_time::exact(deadline), true));
    }
    facts
}

fn steps(job: &Job, attempts: &[Attempt], log: &[LogChunk], now: Timestamp) -> Vec<Step> {
    let moment = |role, shape, what, detail: String, at| {
        Step::Moment(Moment { role, shape, what, detail, when: RelativeTime::new(at, now) })
    };
    let mut steps = vec![moment("queued", "ring", "Enqueued", by(&job.source), job.queued_at)];
    let longest = attempts.iter().filter_map(|attempt| lasted(attempt, now)).fold(0.001, f64::max);
    let skipped = match attempts {
        [first, second, ..] => second.attempt_no - first.attempt_no - 1,
        _ => 0,
    };
    for (index, attempt) in attempts.iter().enumerate() {
        let most = if index + 1 == attempts.len() { TAIL } else { EARLIER_TAIL };
        steps.push(Step::Attempt(Box::new(view(attempt, log, (longest, most), now))));
        if index == 0
            && skipped > 0
            && let Some(at) = attempt.finished_at
        {
            steps.push(moment("queued", "back", "More attempts", format!("{skipped} not shown"), at));
        }
    }
    if let Some(at) = job.cancel_requested_at {
        steps.push(moment(
            "canceled",
            "dash",
            "Cancellation requested",
            "the worker is notified at its next heartbeat".to_owned(),
            at,
        ));
    }
    let mark = StatusMark::of(job.status, job.attempt_count > 0);
    match (job.finished_at, job.status) {
        (Some(at), _) => {
            let why = job.reason.as_deref().map(reason_words).unwrap_or_default();
            steps.push(moment(mark.role, mark.shape, mark.word, why.to_owned(), at));
        }
        (None, State::Scheduled) => steps.push(moment(
            mark.role,
            mark.shape,
            if job.attempt_count > 0 { "Next attempt" } else { "Scheduled start" },
            String::new(),
            job.scheduled_for,
        )),
        _ => {}
    }
    steps
}

/// The source in words; the filter of the list uses its name.
fn source_words(source: &str) -> &str {
    match source {
        "manual" => "manual (a person or an application)",
        "system" => "system (another job)",
        other => other,
    }
}

fn by(source: &str) -> String {
    match source {
        "manual" => "by a person or an application".to_owned(),
        "event" => "by an event".to_owned(),
        "schedule" => "by a schedule".to_owned(),
        "system" => "by another job".to_owned(),
        other => format!("by {other}"),
    }
}

fn lasted(attempt: &Attempt, now: Timestamp) -> Option<f64> {
    Some(seconds_between(attempt.started_at?, attempt.finished_at.unwrap_or(now)).max(0.0))
}

/// `longest`: the duration of the longest attempt, in seconds; `most`: the maximum number of bytes of output.
fn view(attempt: &Attempt, log: &[LogChunk], (longest, most): (f64, usize), now: Timestamp) -> AttemptView {
    let is_running = attempt.finished_at.is_none();
    let seconds = lasted(attempt, now);
    // The end of a command's output is stored with its attempt. The output of a handler is in the log, as long as that
    // is kept; while the attempt runs, the terminal follows the log by itself.
    let stdout = match &attempt.stdout_tail {
        Some(text) => tail(Some(text), most),
        None if is_running => String::new(),
        None => {
            let own = log.iter().filter(|chunk| chunk.position.attempt == attempt.attempt_no);
            tail(Some(&own.map(|chunk| chunk.text.as_str()).collect::<String>()), most)
        }
    };
    let mut facts = Vec::new();
    if let Some(code) = attempt.exit_code {
        facts.push(format!("exit code {code}"));
    }
    if let Some(signal) = attempt.signal {
        facts.push(format!("killed by signal {signal}"));
    }
    if let Some(kilobytes) = attempt.max_rss_kb {
        facts.push(format!("peak memory {:.1} MB", kilobytes as f64 / 1024.0));
    }
    if let Some(percent) = attempt.progress_percent.filter(|_| !is_running) {
        facts.push(format!("reached {percent:.0}%"));
    }
    if let Some(pid) = attempt.pid {
        facts.push(format!("PID {pid}"));
    }
    if let Some(reason) = &attempt.reason {
        facts.push(reason_words(reason).to_owned());
    }
    AttemptView {
        number: attempt.attempt_no,
        mark: StatusMark::of_attempt(&attempt.status),
        worker: attempt.worker_id.as_ref().map(|name| (brief(name), name.clone())),
        lasted: match (is_running, attempt.started_at) {
            (true, Some(at)) => Lasted::Since(RelativeTime::age(at, now)),
            _ => Lasted::For(seconds.map(span).unwrap_or_default()),
        },
        share: seconds.map_or(0, |seconds| (seconds / longest * 100.0).clamp(1.0, 100.0) as u32),
        facts: facts.join(", "),
        error: attempt.error_text.as_deref().map(|text| shown_error(text, most / 4)),
        stdout,
        stderr: tail(attempt.stderr_tail.as_deref(), most),
        is_followed: is_running,
    }
}

/// A long error is cut. If that would cut off the line that distinguishes it from others, only that line is shown.
fn shown_error(error: &str, most: usize) -> String {
    let start: String = error.trim_end().chars().take(most).collect();
    let line = headline(error);
    if start.contains(line) { start } else { line.chars().take(most).collect() }
}

fn tail(text: Option<&str>, most: usize) -> String {
    let text = text.unwrap_or_default();
    text[text.ceil_char_boundary(text.len().saturating_sub(most))..].to_owned()
}

#[cfg(test)]
mod tests {
    use super::shown_error;

    #[test]
    fn a_cut_traceback_still_shows_its_exception() {
        let trace =
            "Traceback (most recent call last):\n  File \"w.py\", line 3, in run\n    f()\nKeyError: 'a'\n";
        assert_eq!(shown_error(trace, 2000), trace.trim_end());
        assert_eq!(shown_error(trace, 50), "KeyError: 'a'");
        assert_eq!(shown_error("one\ntwo", 5), "one\nt");
    }
}
