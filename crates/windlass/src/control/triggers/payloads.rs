//! The payloads of a manual run, a backfill and a retried event, rendered and checked on a blocking thread: their cost
//! depends on the template and not on the request, which names only a trigger and a range.

use jiff::Timestamp;
use serde_json::Value;

use crate::blocking;
use crate::control::payload::PayloadRules;
use crate::error::{Error, Result};
use crate::model::event::Pending;
use crate::model::new_job::NewJob;
use crate::model::trigger::{MAX_BYTES, Rendered, Renderer, Trigger, job_with};
use crate::queue::slots::SlotGuard;

/// The payloads of one backfill have at most this many bytes together. No more are ever rendered.
const MOST: usize = MAX_BYTES as usize;

/// Returns the checked payload for each instant. The slot is held until all are rendered, even if the caller no longer
/// waits for them.
pub(super) async fn of_instants(
    trigger: &Trigger,
    rules: PayloadRules,
    dues: Vec<Timestamp>,
    slot: SlotGuard,
) -> Result<Vec<String>> {
    let trigger = trigger.clone();
    blocking::run(move || {
        let _slot = slot;
        let renderer = Renderer::of(&trigger)?;
        let mut left = MOST;
        let mut payloads = Vec::with_capacity(dues.len());
        for due in &dues {
            let Some(rendered) = renderer.instant(*due, left) else {
                return Err(too_large(dues.len(), payloads.len(), MOST - left));
            };
            left = left.saturating_sub(rendered.bytes);
            payloads.push(rules.check(job_with(&trigger, &rendered.payload?))?.payload_text()?.to_owned());
        }
        Ok(payloads)
    })
    .await
}

/// The size of the whole range is estimated from the payloads that were rendered before the limit was reached.
fn too_large(instants: usize, rendered: usize, bytes: usize) -> Error {
    let mebibytes = (bytes / rendered.max(1)).saturating_mul(instants).div_ceil(1 << 20);
    let most = MOST >> 20;
    let message = format!(
        "the range creates about {mebibytes} MiB of payloads, and at most {most} MiB are allowed; choose a shorter range"
    );
    Error::refused("until", message)
}

/// Returns the checked payload of a schedule that is run at this instant.
pub(super) async fn of_instant(trigger: &Trigger, rules: PayloadRules, due: Timestamp) -> Result<String> {
    let trigger = trigger.clone();
    let job = blocking::run(move || {
        let rendered = Renderer::of(&trigger)?.instant(due, usize::MAX);
        rules.check(job_with(&trigger, &payload_of(rendered)?))
    });
    job.await?.payload_text().map(str::to_owned)
}

/// Returns the checked job of a trigger for an event.
pub(in crate::control) async fn job_of_event(
    trigger: &Trigger,
    rules: PayloadRules,
    event: Pending,
) -> Result<NewJob> {
    let trigger = trigger.clone();
    blocking::run(move || {
        let rendered = Renderer::of(&trigger)?.event(&event, usize::MAX);
        rules.check(job_with(&trigger, &payload_of(rendered)?))
    })
    .await
}

/// The payload of a rendering with unlimited room, which always has one or an error.
fn payload_of(rendered: Option<Rendered>) -> Result<Value> {
    rendered.map_or_else(|| Ok(Value::default()), |rendered| rendered.payload)
}
