//! Converts the result of a run into the parameters of the settle statement.

use std::time::Duration;

use serde::Serialize;
use serde_json::value::RawValue;

use super::run_result::{LEASE_EXPIRED, RunResult, TIMED_OUT};
use crate::error::Error;
use crate::model::definition::Policies;
use crate::model::job::claimed::Claimed;
use crate::model::job::settle::{Budget, Next, Outcome, Settlement, settle};
use crate::model::job::state::{AttemptOutcome, State};
use crate::model::new_job::{ChainedJob, NewJob};
use crate::store::settle::SettleEntry;
use crate::text;

/// The maximum length of an error text that is stored with an attempt.
pub(crate) const ERROR_BYTES: usize = 8 * 1024;

/// Decides what the run means for the job. Returns the entry to write, and how the attempt and the job end.
pub(crate) fn decide(
    claimed: &Claimed,
    policies: &Policies,
    result: &RunResult,
    ran: Duration,
) -> (SettleEntry, AttemptOutcome, State) {
    if let Some(error) = result.done.next.iter().find_map(|job| job.check().err()) {
        let failed = RunResult { progress: result.progress.clone(), ..RunResult::not_followed(&error) };
        return decide(claimed, policies, &failed, ran);
    }
    let ran_ms = i32::try_from(ran.as_millis()).ok();
    if is_plain_success(result) {
        let (fence, place) = (claimed.fence, claimed.place);
        let ending = SettleEntry { fence, place, ran_ms, detail: None, has_chain: false };
        return (ending, AttemptOutcome::Succeeded, State::Succeeded);
    }
    let budget = budget_of(&claimed.budget, policies, ran);
    let settlement = settle(&budget, &policies.retry(), result.outcome, rand::random());
    let detail = Some(detail(&settlement, result));
    let has_chain = !result.done.next.is_empty();
    let ending = SettleEntry { fence: claimed.fence, place: claimed.place, ran_ms, detail, has_chain };
    (ending, settlement.attempt_outcome, settlement.next.state())
}

/// The same for a job whose worker missed its heartbeats, or that exceeded its timeout in a pull worker.
pub(crate) fn settlement_of_lost(
    budget: &Budget,
    policies: &Policies,
    outcome: Outcome,
) -> (String, AttemptOutcome, State) {
    let budget = budget_of(budget, policies, Duration::ZERO);
    let settlement = settle(&budget, &policies.retry(), outcome, rand::random());
    let error = match outcome {
        Outcome::TimedOut => TIMED_OUT,
        _ => LEASE_EXPIRED,
    };
    let detail = detail(&settlement, &RunResult::of(outcome, error));
    (detail, settlement.attempt_outcome, settlement.next.state())
}

/// Returns the same end without any free text, which is written if the database refuses the first one.
pub(crate) fn without_texts(ending: &SettleEntry) -> SettleEntry {
    let bare = ending.detail.as_deref().and_then(|detail| {
        let mut fields: serde_json::Map<String, serde_json::Value> = serde_json::from_str(detail).ok()?;
        for text in ["error", "result", "artifact", "stdout", "stderr", "progress"] {
            fields.remove(text);
        }
        fields.insert("error".to_owned(), "its output and error could not be stored".into());
        serde_json::to_string(&fields).ok()
    });
    SettleEntry { detail: bare, ..ending.clone() }
}

/// Returns the same end as a failure that is retried, which is written if a chained job cannot be enqueued.
pub(crate) fn as_failure(
    claimed: &Claimed,
    policies: &Policies,
    error: &Error,
    ran_ms: Option<i32>,
) -> SettleEntry {
    let ran = Duration::from_millis(ran_ms.and_then(|ms| u64::try_from(ms).ok()).unwrap_or(0));
    decide(claimed, policies, &RunResult::not_followed(error), ran).0
}

/// Returns the details of an attempt that never started and is released, not counted as a failure.
pub(crate) fn released(error: &str) -> String {
    let (outcome, next) = (AttemptOutcome::Released.code(), State::Queued.code());
    serde_json::json!({"outcome": outcome, "next": next, "error": error}).to_string()
}

fn is_plain_success(result: &RunResult) -> bool {
    matches!(result.outcome, Outcome::Succeeded)
        && result.error.is_none()
        && result.facts.is_none()
        && result.progress.is_none()
        && result.done.result.is_none()
        && result.done.artifact.is_none()
        && result.done.next.is_empty()
}

pub(crate) fn budget_of(budget: &Budget, policies: &Policies, ran: Duration) -> Budget {
    Budget {
        max_lost: policies.max_lost,
        max_snoozes: policies.max_snoozes,
        remaining: budget.remaining.map(|remaining| remaining.saturating_sub(ran)),
        ..*budget
    }
}

fn detail(settlement: &Settlement, result: &RunResult) -> String {
    let facts = result.facts.as_deref();
    let detail = SettleDetail {
        outcome: settlement.attempt_outcome.code(),
        next: settlement.next.state().code(),
        delay_ms: match settlement.next {
            Next::Scheduled { after } => Some(i64::try_from(after.as_millis()).unwrap_or(i64::MAX / 2)),
            Next::Succeeded | Next::Failed | Next::DeadLetter | Next::Canceled | Next::Queued => None,
        },
        failures: settlement.failures,
        lost: settlement.lost,
        snoozes: i16::try_from(settlement.snoozes).unwrap_or(i16::MAX),
        reason: settlement.reason.map(|reason| reason.as_str()),
        error: result.error.as_deref().map(|error| text::storable(error.as_bytes(), ERROR_BYTES)),
        result: result.done.result.as_deref().and_then(raw),
        artifact: result.done.artifact.as_deref().and_then(raw),
        chain: result.done.next.iter().map(NewJob::as_link).collect(),
        pid: facts.and_then(|facts| facts.pid),
        exit_code: facts.and_then(|facts| facts.exit_code),
        signal: facts.and_then(|facts| facts.signal),
        max_rss_kb: facts.and_then(|facts| facts.max_rss_kb),
        stdout: facts.map(|facts| facts.stdout.as_str()).filter(|text| !text.is_empty()),
        stderr: facts.map(|facts| facts.stderr.as_str()).filter(|text| !text.is_empty()),
        progress: result
            .progress
            .as_ref()
            .map(|report| ProgressDetail { percent: report.percent, message: report.message.as_deref() }),
    };
    serde_json::to_string(&detail).unwrap_or_else(|_| {
        format!(
            r#"{{"outcome":{},"next":{}}}"#,
            settlement.attempt_outcome.code(),
            settlement.next.state().code()
        )
    })
}

fn raw(text: &str) -> Option<&RawValue> {
    serde_json::from_str(text).ok()
}

#[derive(Serialize)]
struct SettleDetail<'a> {
    outcome: i16,
    next: i16,
    #[serde(skip_serializing_if = "Option::is_none")]
    delay_ms: Option<i64>,
    failures: i16,
    lost: i16,
    snoozes: i16,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    artifact: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    chain: Vec<ChainedJob<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pid: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    exit_code: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    signal: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_rss_kb: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stdout: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stderr: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    progress: Option<ProgressDetail<'a>>,
}

#[derive(Serialize)]
struct ProgressDetail<'a> {
    percent: Option<f32>,
    message: Option<&'a str>,
}
