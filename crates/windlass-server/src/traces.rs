//! Sends what a worker's jobs did as OpenTelemetry spans: OTLP over HTTP, in JSON. One span for the whole job, from its enqueue
//! to its end, and below it one for each attempt; both by ids that follow from the job (see [`windlass::Trace`]), so nothing
//! has to be carried from the one who enqueues to the one who runs.
//!
//! How it stops: on its token, after sending what it has. A collector that is away costs spans, never jobs.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use tokio::sync::broadcast::{Receiver, error::RecvError};
use tokio_util::sync::CancellationToken;
use windlass::{AttemptOutcome, Transition};

/// Spans of one request, and how long the first waits for company.
const MOST: usize = 500;
const LINGER: Duration = Duration::from_secs(1);
const PATIENCE: Duration = Duration::from_secs(5);

/// Exports the transitions of one worker until told to stop.
pub async fn export(endpoint: String, mut transitions: Receiver<Transition>, stop: CancellationToken) {
    let url = format!("{}/v1/traces", endpoint.trim_end_matches('/'));
    let Ok(http) = reqwest::Client::builder().timeout(PATIENCE).build() else {
        tracing::error!("no HTTP client for traces; none are sent");
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
                // Once per outage: the collector's absence is one fact, not one per second.
                Err(error) if !is_failing => {
                    is_failing = true;
                    tracing::warn!(%error, spans = spans.len(), "spans could not be sent and are dropped");
                }
                Err(_) => {}
            }
        }
        if is_over {
            return;
        }
    }
}

/// Fills a request; answers whether there will be no more.
async fn gather(
    transitions: &mut Receiver<Transition>,
    stop: &CancellationToken,
    spans: &mut Vec<Value>,
) -> bool {
    let mut until = None;
    while spans.len() < MOST {
        let deadline = until.unwrap_or_else(|| tokio::time::Instant::now() + Duration::from_secs(3600));
        let heard = tokio::select! {
            biased;
            heard = transitions.recv() => heard,
            () = stop.cancelled() => return true,
            () = tokio::time::sleep_until(deadline) => return false,
        };
        match heard {
            Ok(transition) => spans.extend(spans_of(&transition, SystemTime::now())),
            Err(RecvError::Lagged(missed)) => {
                tracing::warn!(missed, "spans were missed: jobs end faster than they are told");
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
fn spans_of(told: &Transition, now: SystemTime) -> Vec<Value> {
    let (Some(outcome), Some(ran)) = (told.outcome, told.ran) else { return Vec::new() };
    let started = now - ran;
    let attempt = json!({
        "traceId": told.trace.id(),
        "spanId": told.trace.attempt_span(told.attempt_no),
        "parentSpanId": told.trace.job_span(),
        "name": format!("run {}", told.definition_key),
        "kind": 5,
        "startTimeUnixNano": nanos(started),
        "endTimeUnixNano": nanos(now),
        "attributes": attributes(told, &[
            ("attempt_no", json!({"intValue": told.attempt_no.to_string()})),
            ("worker_id", text(&told.worker_id)),
            ("outcome", text(outcome.as_str())),
            ("queue_ms", json!({"intValue": told.queued.as_millis().to_string()})),
        ]),
        "status": status(outcome == AttemptOutcome::Succeeded || outcome == AttemptOutcome::Snoozed),
    });
    if !told.to.is_terminal() {
        return vec![attempt];
    }
    let mut job = json!({
        "traceId": told.trace.id(),
        "spanId": told.trace.job_span(),
        "name": format!("job {}", told.definition_key),
        "kind": 4,
        "startTimeUnixNano": nanos(made_at(told).filter(|made| *made <= started).unwrap_or(started - told.queued)),
        "endTimeUnixNano": nanos(now),
        "attributes": attributes(told, &[("status", text(told.to.as_str()))]),
        "status": status(told.to == windlass::State::Succeeded),
    });
    if let Some(parent) = told.trace.parent_span() {
        job["parentSpanId"] = json!(parent);
    }
    vec![attempt, job]
}

/// A job's id begins with the time at which it was made.
fn made_at(told: &Transition) -> Option<SystemTime> {
    let (seconds, nanos) = told.job_id.get_timestamp()?.to_unix();
    Some(UNIX_EPOCH + Duration::new(seconds, nanos))
}

fn attributes(told: &Transition, more: &[(&str, Value)]) -> Value {
    let common = [
        ("job_id", text(&told.job_id.to_string())),
        ("tenant_id", text(&told.tenant_id.to_string())),
        ("definition_key", text(&told.definition_key)),
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
