//! What is sent: the job, or several, and the headers that name the attempt.

use jiff::Timestamp;
use serde::Serialize;
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::worker::context::Context;

#[derive(Serialize)]
struct Job<'a> {
    id: Uuid,
    tenant_id: Uuid,
    definition_key: &'a str,
    attempt: i32,
    max_attempts: i16,
    failures: i16,
    /// Opaque to the endpoint; it completes or fails the attempt with it after a 202.
    fence: String,
    payload: &'a RawValue,
    /// When the attempt is timed out, by this machine's clock; the seconds until then are by no clock at all.
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
    jobs: Vec<Job<'a>>,
}

pub(super) fn body(jobs: &[Context], is_batch: bool) -> String {
    let mut written: Vec<Job<'_>> = jobs.iter().map(job).collect();
    let text = if is_batch {
        serde_json::to_string(&Jobs { jobs: written })
    } else {
        serde_json::to_string(&written.pop())
    };
    text.expect("names, numbers and JSON that came from the database can be written")
}

fn job(context: &Context) -> Job<'_> {
    let remaining = context.remaining();
    let subject = context.subject();
    Job {
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

/// Names the call, and is the same for nothing else: a job's attempt, or the attempts of a batch.
pub(super) fn id(jobs: &[Context]) -> String {
    let name = |job: &Context| format!("{}:{}", job.job_id(), job.attempt());
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

/// The trace that the job was enqueued in goes on with a span of this call; without one a new trace begins.
pub(super) fn traceparent(given: Option<&str>) -> String {
    let span = format!("{:016x}", rand::random::<u64>() | 1);
    let mut parts = given.unwrap_or_default().split('-');
    let is_hex = |text: &str, length: usize| {
        text.len() == length
            && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
            && text.bytes().any(|b| b != b'0')
    };
    match (parts.next(), parts.next(), parts.next(), parts.next(), parts.next()) {
        (Some("00"), Some(trace), Some(parent), Some(flags), None)
            if is_hex(trace, 32)
                && is_hex(parent, 16)
                && flags.len() == 2
                && u8::from_str_radix(flags, 16).is_ok() =>
        {
            format!("00-{trace}-{span}-{}", flags.to_ascii_lowercase())
        }
        _ => format!("00-{:032x}-{span}-01", rand::random::<u128>() | 1),
    }
}

#[cfg(test)]
mod tests {
    use super::traceparent;

    #[test]
    fn a_trace_goes_on_and_nonsense_begins_a_new_one() {
        let given = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let sent = traceparent(Some(given));
        assert!(sent.starts_with("00-0af7651916cd43dd8448eb211c80319c-") && sent.ends_with("-01"), "{sent}");
        assert_ne!(sent, given);
        for nonsense in [
            None,
            Some(""),
            Some("00-xyz"),
            Some("00-00000000000000000000000000000000-b7ad6b7169203331-01"),
            Some("01\r\nevil: 1"),
        ] {
            let sent = traceparent(nonsense);
            assert_eq!(sent.len(), 55, "{sent}");
            assert!(sent.bytes().all(|b| b.is_ascii_hexdigit() || b == b'-'), "{sent}");
        }
    }
}
