//! One sentence about the state of a job.

use jiff::Timestamp;
use windlass::internals::headline;
use windlass::job::{Attempt, Job, State};

use super::count::count_words;
use super::relative_time::{RelativeTime, seconds_between, span};
use super::worker_name::brief;

/// The number of characters of an error in the sentence.
const MAX_ERROR: usize = 160;

/// `attempts`: oldest first.
pub(crate) fn sentence(job: &Job, attempts: &[Attempt], now: Timestamp) -> String {
    let last = attempts.iter().rev().find(|attempt| attempt.finished_at.is_some());
    let worker =
        job.claimed_by_worker.as_deref().map(|name| format!(" on {}", brief(name))).unwrap_or_default();
    match job.status {
        State::Queued if job.attempt_count > 0 => {
            format!("Queued again after {}.", count_words(job.attempt_count, "attempt"))
        }
        State::Queued => {
            format!("Queued in {} for {}.", job.queue, ago(job.queued_at, now))
        }
        State::Blocked => "Waiting for other jobs to finish.".to_owned(),
        State::Scheduled => scheduled(job, last, now),
        State::Running if job.cancel_requested_at.is_some() => {
            format!("Cancellation requested, still running{worker}.")
        }
        State::Running => {
            let since =
                job.last_started_at.map(|at| format!(" for {}", span(seconds_between(at, now).max(0.0))));
            format!(
                "Running{worker}{}, attempt {} of {}.",
                since.unwrap_or_default(),
                job.attempt_count,
                job.max_attempts
            )
        }
        State::Succeeded => {
            let took = last.and_then(lasted).map(|seconds| format!(" after running for {}", span(seconds)));
            let tries = if job.attempt_count > 1 {
                format!(", on the {} attempt", nth(job.attempt_count))
            } else {
                String::new()
            };
            format!("Succeeded {}{}{tries}.", ended(job, now), took.unwrap_or_default())
        }
        State::Failed => format!("Failed permanently {}{}.", ended(job, now), because(job, last)),
        State::DeadLetter => {
            format!(
                "Became a dead letter {} after {}{}.",
                ended(job, now),
                count_words(job.attempt_count, "attempt"),
                because(job, last)
            )
        }
        State::Canceled => {
            let why = job.reason.as_deref().map(clause).unwrap_or_default();
            format!("Canceled {}{why}.", ended(job, now))
        }
    }
}

fn scheduled(job: &Job, last: Option<&Attempt>, now: Timestamp) -> String {
    let due = RelativeTime::new(job.scheduled_for, now).words();
    if job.attempt_count == 0 {
        return format!("Scheduled to start {due}.");
    }
    match last.map(|attempt| attempt.status.as_str()) {
        Some("snoozed") => format!("Snoozed; runs again {due}."),
        _ => {
            format!("Attempt {} starts {due}{}.", job.attempt_count + 1, because(job, last))
        }
    }
}

/// The last attempt explains the end of a job better than these reasons do.
const EXPLAINED_BY_ATTEMPT: [&str; 4] = ["attempts_exhausted", "permanent", "timeout", "lost"];

fn because(job: &Job, last: Option<&Attempt>) -> String {
    let of_attempt = last.and_then(because_of_attempt);
    match job.reason.as_deref() {
        Some(reason) if !EXPLAINED_BY_ATTEMPT.contains(&reason) => clause(reason),
        reason => of_attempt.or_else(|| reason.map(clause)).unwrap_or_default(),
    }
}

fn because_of_attempt(last: &Attempt) -> Option<String> {
    Some(match (last.status.as_str(), last.exit_code) {
        ("timeout", _) => " because the last attempt timed out".to_owned(),
        ("lost", _) => " because the last attempt lost its lease".to_owned(),
        (_, Some(code)) => format!(" because the last attempt exited with code {code}"),
        ("failed", None) => match last.error_text.as_deref().map(headline).filter(|line| !line.is_empty()) {
            Some(line) => {
                let line: String = line.chars().take(MAX_ERROR).collect();
                format!(" because the last attempt failed: {}", line.trim_end_matches('.'))
            }
            None => " because the last attempt failed".to_owned(),
        },
        _ => return None,
    })
}

/// Why a job or an attempt ended: the name, a label, and the end of a sentence about it.
const REASONS: [(&str, &str, &str); 11] = [
    ("attempts_exhausted", "out of attempts", "because it is out of attempts"),
    ("poison", "crashed its workers", "because it crashed its workers"),
    ("snooze_budget", "snoozed too often", "because it snoozed too often"),
    ("deadline_passed", "deadline passed", "because its deadline is before the next start"),
    ("permanent", "not retryable", "because its failure is not retryable"),
    ("timeout", "timed out", "because it timed out"),
    ("lost", "lease lost", "because its lease was lost"),
    ("canceled", "on request", "on request"),
    ("cancel_requested", "on request", "on request"),
    ("expired", "did not start in time", "because it did not start in time"),
    ("dependency", "a job it depends on did not succeed", "because a job it depends on did not succeed"),
];

/// The label of a reason; an unknown one is returned unchanged.
pub(crate) fn reason_words(reason: &str) -> &str {
    REASONS.iter().find(|(name, ..)| *name == reason).map_or(reason, |(_, label, _)| label)
}

/// The end of a sentence, with a space before it; empty for an unknown reason.
fn clause(reason: &str) -> String {
    let known = REASONS.iter().find(|(name, ..)| *name == reason);
    known.map(|(_, _, clause)| format!(" {clause}")).unwrap_or_default()
}

fn lasted(attempt: &Attempt) -> Option<f64> {
    Some(seconds_between(attempt.started_at?, attempt.finished_at?).max(0.0))
}

fn ended(job: &Job, now: Timestamp) -> String {
    job.finished_at.map_or_else(|| "just now".to_owned(), |at| RelativeTime::new(at, now).words())
}

fn ago(at: Timestamp, now: Timestamp) -> String {
    span(seconds_between(at, now).max(0.0))
}

pub(crate) fn nth(number: i32) -> String {
    let ending = match (number % 100, number % 10) {
        (11..=13, _) => "th",
        (_, 1) => "st",
        (_, 2) => "nd",
        (_, 3) => "rd",
        _ => "th",
    };
    format!("{number}{ending}")
}

#[cfg(test)]
mod tests {
    use super::{clause, nth, reason_words};

    #[test]
    fn reasons_are_spelled_out_and_unknown_ones_unchanged() {
        assert_eq!(["attempts_exhausted", "odd"].map(reason_words), ["out of attempts", "odd"]);
        assert_eq!(clause("snooze_budget"), " because it snoozed too often");
        assert_eq!(clause("odd"), "");
    }

    #[test]
    fn ordinals_are_english() {
        assert_eq!(
            [1, 2, 3, 4, 11, 12, 13, 21, 102, 111].map(nth).join(" "),
            "1st 2nd 3rd 4th 11th 12th 13th 21st 102nd 111th"
        );
    }
}
