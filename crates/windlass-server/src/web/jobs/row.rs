//! One row of a list of jobs.

use jiff::Timestamp;
use uuid::Uuid;
use windlass::internals::headline;
use windlass::job::{Job, State};

use crate::web::relative_time::{RelativeTime, seconds_between, span};
use crate::web::status_mark::StatusMark;
use crate::web::worker_name::brief;

pub(crate) struct JobRow {
    pub(crate) id: Uuid,
    pub(crate) short: String,
    pub(crate) mark: StatusMark,
    pub(crate) definition_key: String,
    pub(super) about: Option<String>,
    pub(super) source: String,
    pub(super) attempts: String,
    pub(super) queued: RelativeTime,
    pub(super) started: Option<RelativeTime>,
    /// When a job that is not ready starts, or starts again.
    pub(super) due: Option<RelativeTime>,
    pub(super) finished: Option<RelativeTime>,
    pub(super) lasted: Option<DurationBar>,
    /// The short and the full name.
    pub(super) worker: Option<(String, String)>,
    pub(super) may_cancel: bool,
    pub(super) may_retry: bool,
    pub(super) revision: String,
}

pub(super) struct DurationBar {
    pub(super) words: String,
    /// Relative to the longest duration on the page, in percent.
    pub(super) share: u32,
}

/// The maximum number of characters below the name of the definition.
const MAX_ABOUT: usize = 120;

pub(crate) fn rows(jobs: &[Job], now: Timestamp, may_act: bool) -> Vec<JobRow> {
    let longest = jobs.iter().filter_map(|job| lasted(job, now)).fold(0.001, f64::max);
    jobs.iter().map(|job| row(job, now, may_act, longest)).collect()
}

/// `longest`: the longest duration on the page, in seconds.
fn row(job: &Job, now: Timestamp, may_act: bool, longest: f64) -> JobRow {
    let bar = |seconds: f64| DurationBar {
        words: span(seconds),
        share: (seconds / longest * 100.0).clamp(1.0, 100.0) as u32,
    };
    JobRow {
        id: job.id,
        short: short(job.id),
        mark: StatusMark::of(job.status, job.attempt_count > 0),
        definition_key: job.definition_key.clone(),
        about: about(job).map(|text| text.chars().take(MAX_ABOUT).collect()),
        source: job.source.clone(),
        attempts: format!("{}/{}", job.attempt_count, job.max_attempts),
        queued: RelativeTime::new(job.queued_at, now),
        started: job.last_started_at.map(|at| RelativeTime::new(at, now)),
        due: (job.status == State::Scheduled).then(|| RelativeTime::new(job.scheduled_for, now)),
        finished: job.finished_at.map(|at| RelativeTime::new(at, now)),
        lasted: lasted(job, now).map(bar),
        worker: job.claimed_by_worker.as_ref().map(|name| (brief(name), name.clone())),
        may_cancel: may_act && !job.status.is_terminal() && job.cancel_requested_at.is_none(),
        may_retry: may_act && job.status.is_terminal(),
        revision: format!("{} {}", job.status, job.attempt_count),
    }
}

/// The progress, the subject, or the error.
fn about(job: &Job) -> Option<String> {
    let subject = job.subject_type.as_ref().zip(job.subject_id.as_ref());
    match (job.progress_percent, subject) {
        (Some(percent), _) if job.status == State::Running => {
            Some(format!("{percent:.0}% {}", job.progress_message.as_deref().unwrap_or_default()))
        }
        (_, Some((kind, id))) => Some(format!("{kind} {id}")),
        _ if job.status.is_terminal() => job.last_error.as_deref().map(|error| headline(error).to_owned()),
        _ => None,
    }
}

/// How long the last attempt ran, or runs, in seconds.
fn lasted(job: &Job, now: Timestamp) -> Option<f64> {
    let has_run = job.status.is_terminal() || job.status == State::Running;
    let start = job.last_started_at.filter(|_| has_run)?;
    Some(seconds_between(start, job.finished_at.unwrap_or(now)).max(0.0))
}

/// The last eight characters, because the first ones are the time and are similar for all jobs.
pub(crate) fn short(id: Uuid) -> String {
    let text = id.simple().to_string();
    text[text.len() - 8..].to_owned()
}
