//! The request: the job, or several, and the headers that identify the attempt.

use jiff::Timestamp;
use serde::Serialize;
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::worker::context::Context;

#[derive(Serialize)]
struct JobBody<'a> {
    id: Uuid,
    tenant_id: Uuid,
    definition_key: &'a str,
    attempt: i32,
    max_attempts: i16,
    failures: i16,
    /// Opaque to the endpoint; it completes or fails the attempt with it after a 202.
    fence: String,
    payload: &'a RawValue,
    /// When the attempt times out, by this machine's clock; the seconds until then do not depend on a clock.
    deadline: Option<Timestamp>,
    deadline_seconds: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    subject_type: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    subject_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    correlation_id: Option<&'a str>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    tags: &'a [String],
}

#[derive(Serialize)]
struct Jobs<'a> {
    jobs: Vec<JobBody<'a>>,
}

pub(super) fn body(jobs: &[Context], is_batch: bool) -> String {
    let mut written: Vec<JobBody<'_>> = jobs.iter().map(job).collect();
    let text = if is_batch {
        serde_json::to_string(&Jobs { jobs: written })
    } else {
        serde_json::to_string(&written.pop())
    };
    text.expect("names, numbers and JSON that came from the database can be written")
}

fn job(context: &Context) -> JobBody<'_> {
    let remaining = context.remaining();
    let subject = context.subject();
    JobBody {
        id: context.job_id(),
        tenant_id: context.tenant_id(),
        definition_key: context.definition_key(),
        attempt: context.attempt(),
        max_attempts: context.max_attempts(),
        failures: context.failures(),
        fence: context.fence().encode(),
        payload: serde_json::from_str(context.payload()).unwrap_or(RawValue::NULL),
        deadline: Timestamp::now().checked_add(remaining).ok(),
        deadline_seconds: remaining.as_secs_f64(),
        subject_type: subject.map(|(kind, _)| kind),
        subject_id: subject.map(|(_, id)| id),
        correlation_id: context.correlation_id(),
        tags: context.tags(),
    }
}

/// Returns a unique id of the call: an attempt of a job, or the attempts of a batch. Includes the tenant, because two
/// tenants may give their jobs the same id.
pub(super) fn id(jobs: &[Context]) -> String {
    let name = |job: &Context| format!("{}:{}:{}", job.tenant_id(), job.job_id(), job.attempt());
    match jobs {
        [only] => name(only),
        several => {
            let mut names: Vec<String> = several.iter().map(name).collect();
            names.sort_unstable();
            let digest = Sha256::digest(names.join(",").as_bytes());
            let digest: String = digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
            format!("batch:{digest}")
        }
    }
}
