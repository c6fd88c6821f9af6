//! Exports the jobs of a worker as OpenTelemetry spans: OTLP over HTTP, in JSON. One span covers the whole job, from its enqueue
//! to its end; its children are the attempts. The ids are derived from the job (see [`windlass::job::Trace`]), so no context has to
//! be passed from the enqueuer to the worker.
//!
//! How it stops: on its token, after it has sent the spans it has. If the collector is unavailable, spans are lost, never jobs.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use tokio::sync::broadcast::{Receiver, error::RecvError};
use tokio_util::sync::CancellationToken;
use windlass::job::AttemptOutcome;
use windlass::worker::Transition;

/// The maximum number of spans of one request, and how long the first waits for more.
const MAX_SPANS: usize = 500;
const LINGER: Duration = Duration::from_secs(1);
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);

/// Exports the transitions of one worker until stopped.
pub async fn export(endpoint: String, mut transitions: Receiver<Transition>, stop: CancellationToken) {
    let url = format!("{}/v1/traces", endpoint.trim_end_matches('/'));
    let Ok(http) = reqwest::Client::builder().timeout(REQUEST_TIMEOUT).build() else {
        tracing::error!("cannot create an HTTP client; no spans are sent");
        return;
    };
    let mut is_failing = false;
    loop {
        let mut spans = Vec::new();
        let is_over = gather(&mut transitions, &stop, &mut spans).await;
        if !spans.is_empty() {
            let sent = http
                .post(&url)
                .json(&request(&spans))
                .send()
                .await
                .and_then(reqwest::Response::error_for_status);
            match sent {
                Ok(_) => is_failing = false,
                // Logged once per outage, not once per request.
                Err(error) if !is_failing => {
                    is_failing = true;
                    tracing::warn!(%error, spans = spans.len(), "cannot send spans; they are dropped");
                }
                Err(_) => {}
            }
        }
        if is_over {
            return;
        }
    }
}

/// Collects the spans of one request; returns true if there will be no more.
async fn gather(
    transitions: &mut Receiver<Transition>,
    stop: &CancellationToken,
    spans: &mut Vec<Value>,
) -> bool {
    let mut until = None;
    while spans.len() < MAX_SPANS {
        let deadline = until.unwrap_or_else(|| tokio::time::Instant::now() + Duration::from_secs(3600));
        let received = tokio::select! {
            biased;
            received = transitions.recv() => received,
            () = stop.cancelled() => return true,
            () = tokio::time::sleep_until(deadline) => return false,
        };
        match received {
            Ok(transition) => spans.extend(spans_of(&transition, SystemTime::now())),
            Err(RecvError::Lagged(missed)) => {
                tracing::warn!(missed, "spans were lost: jobs end faster than spans are exported");
            }
            Err(RecvError::Closed) => return true,
        }
        if !spans.is_empty() {
            until.get_or_insert_with(|| tokio::time::Instant::now() + LINGER);
        }
    }
    false
}

/// The span of the attempt that ended, and of the job if it ended with it.
fn spans_of(transition: &Transition, now: SystemTime) -> Vec<Value> {
    let (Some(outcome), Some(ran)) = (transition.outcome, transition.ran) else { return Vec::new() };
    let started = now - ran;
    let attempt = json!({
        "traceId": transition.trace.id(),
        "spanId": transition.trace.attempt_span(transition.attempt_no),
        "parentSpanId": transition.trace.job_span(),
        "name": format!("run {}", transition.definition_key),
        "kind": 5,
        "startTimeUnixNano": nanos(started),
        "endTimeUnixNano": nanos(now),
        "attributes": attributes(transition, &[
            ("attempt_no", json!({"intValue": transition.attempt_no.to_string()})),
            ("worker_id", text(&transition.worker_id)),
            ("outcome", text(outcome.as_str())),
            ("queue_ms", json!({"intValue": transition.queued.as_millis().to_string()})),
        ]),
        "status": status(outcome == AttemptOutcome::Succeeded || outcome == AttemptOutcome::Snoozed),
    });
    if !transition.to.is_terminal() {
        return vec![attempt];
    }
    let mut job = json!({
        "traceId": transition.trace.id(),
        "spanId": transition.trace.job_span(),
        "name": format!("job {}", transition.definition_key),
        "kind": 4,
        "startTimeUnixNano": nanos(created_at(transition).filter(|created| *created <= started).unwrap_or(started - transition.queued)),
        "endTimeUnixNano": nanos(now),
        "attributes": attributes(transition, &[("status", text(transition.to.as_str()))]),
        "status": status(transition.to == windlass::job::State::Succeeded),
    });
    if let Some(parent) = transition.trace.parent_span() {
        job["parentSpanId"] = json!(parent);
    }
    vec![attempt, job]
}

/// A job's id starts with the time at which it was created.
fn created_at(transition: &Transition) -> Option<SystemTime> {
    let (seconds, nanos) = transition.job_id.get_timestamp()?.to_unix();
    Some(UNIX_EPOCH + Duration::new(seconds, nanos))
}

fn attributes(transition: &Transition, more: &[(&str, Value)]) -> Value {
    let common = [
        ("job_id", text(&transition.job_id.to_string())),
        ("tenant_id", text(&transition.tenant_id.to_string())),
        ("definition_key", text(&transition.definition_key)),
    ];
    let all = common.iter().chain(more);
    all.map(|(key, value)| json!({"key": format!("windlass.{key}"), "value": value})).collect()
}

fn text(text: &str) -> Value {
    json!({"stringValue": text})
}

fn status(is_good: bool) -> Value {
    json!({"code": if is_good { 1 } else { 2 }})
}

fn nanos(at: SystemTime) -> String {
    at.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos().to_string()
}

fn request(spans: &[Value]) -> Value {
    json!({"resourceSpans": [{
        "resource": {"attributes": [
            {"key": "service.name", "value": text("windlass")},
            {"key": "service.version", "value": text(env!("CARGO_PKG_VERSION"))},
        ]},
        "scopeSpans": [{"scope": {"name": "windlass"}, "spans": spans}],
    }]})
}
