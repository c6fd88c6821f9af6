//! The JSON bodies of the worker protocol.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;
use uuid::Uuid;
use windlass::pull::{Claim, Heartbeat, PulledJob, WorkerInfo};
use windlass::{Done, Failure, NewJob};

use super::seconds;
use crate::http::Problem;

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RegisterBody {
    /// The name of the worker (default: the name of the credential).
    #[schema(example = "mac-mini-3", min_length = 1, max_length = 200, pattern = "^[A-Za-z0-9._:-]+$")]
    pub(crate) worker_id: Option<String>,
    #[serde(default)]
    pub(crate) hostname: String,
    #[serde(default)]
    pub(crate) version: String,
    #[serde(default)]
    pub(crate) definition_keys: Vec<String>,
    #[serde(default)]
    pub(crate) queues: Vec<String>,
    /// Any metadata, shown with the worker.
    #[serde(default)]
    #[schema(value_type = Object)]
    pub(crate) metadata: serde_json::Map<String, serde_json::Value>,
}

impl From<RegisterBody> for WorkerInfo {
    fn from(body: RegisterBody) -> Self {
        let RegisterBody { worker_id, hostname, version, definition_keys, queues, metadata } = body;
        Self::default()
            .worker_id(worker_id)
            .hostname(hostname)
            .version(version)
            .definition_keys(definition_keys)
            .queues(queues)
            .metadata(metadata)
    }
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Registered {
    pub(crate) worker_id: String,
    /// The worker is drained: its claims return no jobs.
    pub(crate) is_draining: bool,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct StopBody {
    /// The name of the worker (default: the name of the credential).
    #[schema(example = "mac-mini-3", min_length = 1, max_length = 200, pattern = "^[A-Za-z0-9._:-]+$")]
    pub(crate) worker_id: Option<String>,
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Stopped {
    /// Whether the worker has stopped; false while it holds jobs.
    pub(crate) is_stopped: bool,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ClaimBody {
    /// The name of the worker (default: the name of the credential).
    #[schema(min_length = 1, max_length = 200, pattern = "^[A-Za-z0-9._:-]+$")]
    pub(crate) worker_id: Option<String>,
    /// The definitions to claim (default: all in `queues`).
    #[serde(default)]
    #[schema(example = json!(["transcribe_start"]))]
    pub(crate) definition_keys: Vec<String>,
    /// The queues to claim from (default: all).
    #[serde(default)]
    pub(crate) queues: Vec<String>,
    #[serde(default = "one")]
    #[schema(minimum = 1, maximum = 100, default = 1)]
    pub(crate) limit: usize,
    /// How long to wait for the first job, in seconds.
    #[serde(default)]
    #[schema(minimum = 0, maximum = 60, default = 0)]
    pub(crate) wait_seconds: f64,
    /// How long each job is held without a heartbeat, in seconds.
    #[serde(default = "a_minute")]
    #[schema(minimum = 1, maximum = 86400, default = 60)]
    pub(crate) lease_seconds: f64,
}

impl ClaimBody {
    pub(crate) fn read(self) -> Result<Claim, Problem> {
        let (wait, lease) =
            (seconds("wait_seconds", self.wait_seconds)?, seconds("lease_seconds", self.lease_seconds)?);
        let Self { worker_id, definition_keys, queues, limit, .. } = self;
        Ok(Claim::new(definition_keys)
            .worker_id(worker_id)
            .queues(queues)
            .limit(limit)
            .wait(wait)
            .lease(lease))
    }
}

fn one() -> usize {
    1
}

fn a_minute() -> f64 {
    60.0
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ClaimedJobs {
    #[schema(value_type = Vec<ClaimedJob>)]
    pub(crate) jobs: Vec<PulledJob>,
}

/// A claimed job.
#[derive(Debug, ToSchema)]
#[expect(dead_code, reason = "describes windlass::pull::PulledJob")]
pub(crate) struct ClaimedJob {
    id: Uuid,
    tenant_id: Uuid,
    definition_key: String,
    queue: String,
    #[schema(value_type = Value)]
    payload: (),
    attempt: i32,
    max_attempts: i16,
    /// The number of failures before this attempt.
    failures: i16,
    /// Opaque. Send it with every call about this attempt.
    fence: String,
    #[schema(format = DateTime)]
    lease_expires_at: String,
    lease_seconds: i32,
    /// When the attempt times out, with or without heartbeats.
    #[schema(format = DateTime)]
    deadline: String,
    subject_type: Option<String>,
    subject_id: Option<String>,
    correlation_id: Option<String>,
    source_ref: Option<String>,
    /// The W3C traceparent given at enqueue.
    trace: Option<String>,
    tags: Option<Vec<String>>,
    parent_id: Option<Uuid>,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct HeartbeatBody {
    fence: String,
    progress: Option<ProgressBody>,
    /// Lines for the log of the attempt.
    log: Option<LogLines>,
    /// The new duration of the lease (default: that of the claim).
    #[schema(minimum = 1, maximum = 86400)]
    lease_seconds: Option<f64>,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ProgressBody {
    /// Limited to 0 to 100.
    // Parsed as f64, so that no number is out of range.
    #[schema(value_type = Option<f32>)]
    percent: Option<f64>,
    message: Option<String>,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(untagged, expecting = "must be a string or a list of strings")]
pub(crate) enum LogLines {
    One(String),
    Many(Vec<String>),
}

impl HeartbeatBody {
    pub(crate) fn read(self) -> Result<(String, Heartbeat), Problem> {
        let (percent, message) =
            self.progress.map_or((None, None), |progress| (progress.percent, progress.message));
        let percent = percent.map(|percent| percent.clamp(0.0, 100.0) as f32);
        let log = match self.log {
            None => Vec::new(),
            Some(LogLines::One(text)) => vec![text],
            Some(LogLines::Many(lines)) => lines,
        };
        let lease = self.lease_seconds.map(|lease| seconds("lease_seconds", lease)).transpose()?;
        Ok((self.fence, Heartbeat::default().lease(lease).percent(percent).message(message).log(log)))
    }
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct HeartbeatResponse {
    #[schema(format = DateTime)]
    pub(crate) lease_expires_at: String,
    pub(crate) lease_seconds: i32,
    /// Stop the work and settle the attempt in any way: the job then ends as canceled.
    pub(crate) cancel_requested: bool,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CompleteBody {
    pub(crate) fence: String,
    /// The result of the job.
    #[schema(value_type = Option<Value>)]
    pub(crate) result: Option<Box<RawValue>>,
    /// A reference to what the job created outside the database.
    #[schema(value_type = Option<Value>)]
    pub(crate) artifact: Option<Box<RawValue>>,
    /// Jobs to enqueue in the same transaction.
    #[serde(default)]
    #[schema(value_type = Vec<Object>)]
    pub(crate) next: Vec<NewJob>,
}

impl CompleteBody {
    pub(crate) fn read(self) -> (String, Done) {
        let mut done = Done::new();
        if let Some(result) = &self.result {
            done = done.result(result);
        }
        if let Some(artifact) = &self.artifact {
            done = done.artifact(artifact);
        }
        (self.fence, self.next.into_iter().fold(done, Done::then))
    }
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct FailBody {
    pub(crate) fence: String,
    pub(crate) error: String,
    #[serde(default = "yes")]
    #[schema(default = true)]
    pub(crate) retryable: bool,
    #[schema(minimum = 0, maximum = 315_360_000)]
    pub(crate) retry_after_seconds: Option<f64>,
}

impl FailBody {
    pub(crate) fn read(self) -> Result<(String, Failure), Problem> {
        let after =
            self.retry_after_seconds.map(|after| seconds("retry_after_seconds", after)).transpose()?;
        let failure = match (self.retryable, after) {
            (false, _) => Failure::permanent(self.error),
            (true, Some(after)) => Failure::retry_after(after, self.error),
            (true, None) => Failure::retry(self.error),
        };
        Ok((self.fence, failure))
    }
}

fn yes() -> bool {
    true
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SnoozeBody {
    pub(crate) fence: String,
    #[schema(minimum = 0, maximum = 315_360_000)]
    pub(crate) delay_seconds: f64,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReleaseBody {
    pub(crate) fence: String,
}

/// The new status of the job.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct JobStatus {
    #[schema(example = "succeeded")]
    pub(crate) status: String,
}
