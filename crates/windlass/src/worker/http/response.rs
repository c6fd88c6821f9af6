//! The meaning of an endpoint's response for the job. Decides only the outcome: the definition's policy determines
//! whether and when to retry, as for every other handler.
//!
//! The status takes precedence. A JSON body may contain more in one reserved member, `windlass`; the rest of the body
//! is the result.

use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;
use uuid::Uuid;

use crate::attempt::done::{Done, Failure};
use crate::attempt::run_result::RunResult;
use crate::model::job::settle::{Outcome, Retry};
use crate::model::new_job::NewJob;

/// The result of a call.
pub(super) enum CallResult {
    Response(CallResponse),
    Fault(CallFault),
}

pub(super) struct CallResponse {
    pub(super) status: u16,
    pub(super) reason: &'static str,
    pub(super) retry_after: Option<Duration>,
    pub(super) body: Vec<u8>,
}

/// Why there is no response.
pub(super) enum CallFault {
    /// The address may not be called.
    Refused(String),
    Redirect(String),
    TooLarge(usize),
    Late(Duration),
    Transport(String),
}

impl CallResult {
    /// Whether the endpoint itself seems to be failing.
    pub(super) fn is_fault(&self) -> bool {
        match self {
            Self::Response(response) => response.status >= 500 && response.retry_after.is_none(),
            Self::Fault(CallFault::Late(_) | CallFault::Transport(_)) => true,
            Self::Fault(CallFault::Refused(_) | CallFault::Redirect(_) | CallFault::TooLarge(_)) => false,
        }
    }
}

/// The progress of the job, as reported by the endpoint.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Progress {
    pub(super) percent: Option<f32>,
    pub(super) message: Option<String>,
}

/// The fields of a response in addition to its result.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct AnswerBody {
    result: Option<Box<RawValue>>,
    artifact: Option<Box<RawValue>>,
    #[serde(default)]
    next: Vec<NewJob>,
    snooze_seconds: Option<f64>,
    progress: Option<Progress>,
    error: Option<String>,
    retryable: Option<bool>,
    retry_after_seconds: Option<f64>,
    /// Not done: the job continues, and is ended through the worker protocol.
    #[serde(default)]
    accepted: bool,
    lease_seconds: Option<f64>,
    /// In a batch: the job of this outcome.
    id: Option<Uuid>,
}

pub(super) type EndpointResult = (RunResult, Option<Progress>);

const MAX_EXCERPT: usize = 1000;
/// The maximum delay of a job by a header.
const MAX_PAUSE: Duration = Duration::from_secs(24 * 3600);

/// Reads the response to a call with one job.
pub(super) fn read(call: &CallResult, lease: Duration) -> EndpointResult {
    match success(call) {
        Err(finish) => (*finish, None),
        Ok(response) => match parse_body(&response.body) {
            Ok((mut parsed, rest)) => {
                parsed.accepted |= response.status == 202;
                if parsed.result.is_none() {
                    parsed.result = rest;
                }
                parsed.read(lease)
            }
            Err(error) => (not_understood(&error), None),
        },
    }
}

/// Reads the response to a call with several jobs: `{"outcomes": [{"id": …, …}, …]}`, or one error status for all.
pub(super) fn read_batch(call: &CallResult, jobs: &[Uuid], lease: Duration) -> Vec<EndpointResult> {
    #[derive(Deserialize)]
    struct Outcomes {
        outcomes: Vec<AnswerBody>,
    }
    let response = match success(call) {
        Ok(response) => response,
        Err(_) => return jobs.iter().map(|_| read(call, lease)).collect(),
    };
    if response.status == 202 {
        let accepted = || AnswerBody { accepted: true, ..AnswerBody::default() }.read(lease);
        return jobs.iter().map(|_| accepted()).collect();
    }
    let mut outcomes = match serde_json::from_slice::<Outcomes>(&response.body) {
        Ok(read) => read.outcomes,
        Err(error) => return jobs.iter().map(|_| (not_understood(&error.to_string()), None)).collect(),
    };
    jobs.iter()
        .map(|job| match outcomes.iter().position(|parsed| parsed.id == Some(*job)) {
            Some(position) => outcomes.swap_remove(position).read(lease),
            None => (RunResult::failed(Retry::ByPolicy, "the response has no outcome for this job"), None),
        })
        .collect()
}

/// Returns the response if its status is a success, and otherwise the result of the attempt.
fn success(call: &CallResult) -> Result<&CallResponse, Box<RunResult>> {
    let response = match call {
        CallResult::Response(response) => response,
        CallResult::Fault(fault) => return Err(Box::new(fault.finish())),
    };
    if (200..300).contains(&response.status) {
        return Ok(response);
    }
    let CallResponse { status, reason, .. } = response;
    let excerpt = crate::text::storable(&response.body, MAX_EXCERPT);
    let error = format!("the endpoint returned {status} {reason}: {excerpt}");
    let error = error.trim_end_matches([' ', ':']).to_owned();
    Err(Box::new(match (status, response.retry_after) {
        (429 | 503, Some(delay)) => RunResult::of(Outcome::Snoozed { delay: delay.min(MAX_PAUSE) }, error),
        (429 | 500.., _) => RunResult::failed(Retry::ByPolicy, error),
        _ => RunResult::failed(Retry::Permanent, error),
    }))
}

impl CallFault {
    fn finish(&self) -> RunResult {
        match self {
            Self::Refused(why) => RunResult::failed(Retry::ByPolicy, format!("not called: {why}")),
            Self::Redirect(where_to) => {
                RunResult::failed(Retry::Permanent, format!("the redirect was not followed: {where_to}"))
            }
            Self::TooLarge(most) => {
                RunResult::failed(Retry::Permanent, format!("the response is larger than {most} bytes"))
            }
            Self::Late(within) => {
                let error = format!("no response within {} s", within.as_secs_f64());
                RunResult::failed(Retry::ByPolicy, error)
            }
            Self::Transport(error) => RunResult::failed(Retry::ByPolicy, error.as_str()),
        }
    }
}

/// Returns the reserved member of the body, and the rest of it, which is the result.
fn parse_body(body: &[u8]) -> Result<(AnswerBody, Option<Box<RawValue>>), String> {
    let Ok(text) = std::str::from_utf8(body) else {
        return Ok((AnswerBody::default(), as_json(&crate::text::storable(body, MAX_EXCERPT))));
    };
    if text.trim().is_empty() {
        return Ok((AnswerBody::default(), None));
    }
    let Ok(whole) = serde_json::from_str::<&RawValue>(text) else {
        // Not JSON: stored as text.
        return Ok((AnswerBody::default(), as_json(&crate::text::storable(body, MAX_EXCERPT))));
    };
    let mut members: serde_json::Map<String, serde_json::Value> =
        match text.trim_start().starts_with('{') && text.contains("\"windlass\"") {
            true => serde_json::from_str(text).unwrap_or_default(),
            false => serde_json::Map::new(),
        };
    let Some(member) = members.remove("windlass") else {
        return Ok((AnswerBody::default(), Some(whole.to_owned())));
    };
    let parsed = serde_json::from_value(member).map_err(|error| error.to_string())?;
    Ok((parsed, if members.is_empty() { None } else { as_json(&members) }))
}

fn as_json(value: &impl serde::Serialize) -> Option<Box<RawValue>> {
    serde_json::value::to_raw_value(value).ok()
}

impl AnswerBody {
    fn read(self, lease: Duration) -> EndpointResult {
        let progress = self.progress.clone();
        let finish = self.finish(lease).unwrap_or_else(|error| not_understood(&error));
        (finish, progress)
    }

    fn finish(self, lease: Duration) -> Result<RunResult, String> {
        let seconds = |name: &str, value: Option<f64>| {
            let duration = value.map(|value| crate::model::new_job::read::duration(name, value));
            duration.transpose().map_err(|error| error.to_string())
        };
        let (snooze, after) = (
            seconds("snooze_seconds", self.snooze_seconds)?,
            seconds("retry_after_seconds", self.retry_after_seconds)?,
        );
        if let Some(error) = self.error {
            let failure = match (self.retryable, after) {
                (Some(false), _) => Failure::permanent(error),
                (_, Some(after)) => Failure::retry_after(after, error),
                (_, None) => Failure::retry(error),
            };
            return Ok(Err(failure).into());
        }
        if let Some(delay) = snooze {
            return Ok(Ok(Done::snooze(delay)).into());
        }
        if self.accepted {
            let lease = seconds("lease_seconds", self.lease_seconds)?.unwrap_or(lease);
            let done = Done { hand_over: Some(lease), ..Done::default() };
            return Ok(RunResult {
                outcome: Outcome::Released,
                error: None,
                done,
                facts: None,
                progress: None,
            });
        }
        let mut done = Done::new();
        if let Some(result) = self.result {
            done = done.result(&result);
        }
        if let Some(artifact) = self.artifact {
            done = done.artifact(&artifact);
        }
        done.next = self.next;
        Ok(Ok(done).into())
    }
}

fn not_understood(error: &str) -> RunResult {
    RunResult::failed(Retry::ByPolicy, format!("invalid response: {error}"))
}

#[cfg(test)]
mod tests;
