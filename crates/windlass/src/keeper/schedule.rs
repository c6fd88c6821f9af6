//! Fires schedules. Reads what is due, decides in pure code, and applies the decision with one statement that re-checks
//! every trigger: whoever comes second finds the instant gone on. Nothing is held in between, so a scheduler may die,
//! freeze or wake up hours later at any point.

use std::time::Duration;

use jiff::Timestamp;
use uuid::Uuid;

use super::{Round, leader};
use crate::enqueue::plan::{Plan, checked_route, plan as plan_job};
use crate::error::Result;
use crate::model::new_job::NewJob;
use crate::model::trigger::{Decision, Overlap, Trigger, jitter, plan, rendered};
use crate::queue::Queue;
use crate::store;
use crate::store::trigger::{DecidedFires, DueInstant, What};

/// Triggers and instants per statement, so that no transaction is long.
const MOST: i32 = 500;
const MOST_INSTANTS: usize = 1000;
/// Of templates that are read, and of payloads that are made, in one round. What is left over is for the next one.
const MOST_BYTES: i32 = 8 << 20;
/// Rest after a round in which nothing could be done about what is due: another node may be able to.
const AT_LEAST: Duration = Duration::from_millis(100);

pub(super) async fn run_once(queue: &Queue, holder: Uuid) -> Result<Round> {
    let database = queue.database();
    let patience = leader::patience(database, "schedule", holder).await?;
    let due = store::trigger::due(database, patience, MOST, MOST_BYTES).await?;
    let mut is_full = due.len() >= MOST.unsigned_abs() as usize;
    let mut decided = DecidedFires::default();
    for (trigger, now) in due {
        if decided.instants.len() >= MOST_INSTANTS || decided.bytes() >= MOST_BYTES.unsigned_abs() as usize {
            is_full = true;
            break;
        }
        match trigger {
            Ok(trigger) => is_full |= decide(queue, &mut decided, &trigger, now).await?,
            Err(bad) => {
                tracing::error!(trigger_id = %bad.id, tenant_id = %bad.tenant, reason = bad.reason, "a trigger cannot be read");
                store::trouble::note(database, "schedule", bad.tenant, bad.id, &bad.reason).await?;
            }
        }
    }
    let moved = if decided.triggers.is_empty() {
        0
    } else {
        let (fired, skipped) = store::trigger::fire(database, &decided).await?;
        metrics::counter!("windlass_fires_total", "outcome" => "fired").increment(fired);
        metrics::counter!("windlass_fires_total", "outcome" => "skipped").increment(skipped);
        fired + skipped
    };
    let next = store::trigger::next_due(database).await?;
    let rest = if moved == 0 { AT_LEAST } else { Duration::ZERO };
    Ok(Round { moved, is_full: is_full && moved > 0, next: next.map(|next| (next + patience).max(rest)) })
}

/// Adds one trigger's plan. Answers whether more of it is due.
async fn decide(
    queue: &Queue,
    decided: &mut DecidedFires,
    trigger: &Trigger,
    now: Timestamp,
) -> Result<bool> {
    let Some(from) = trigger.next_due_at else { return Ok(false) };
    let fields = &trigger.fields;
    let schedule = match fields.parse_schedule() {
        Ok(schedule) => schedule,
        Err(error) => {
            // This machine may lack a time zone that another has, so the trigger stays due.
            tracing::error!(trigger_id = %trigger.id, tenant_id = %trigger.tenant_id, %error, "a schedule cannot be computed here");
            let reason = format!("the schedule cannot be computed: {error}");
            store::trouble::note(queue.database(), "schedule", trigger.tenant_id, trigger.id, &reason)
                .await?;
            return Ok(false);
        }
    };
    let plan = plan(fields, &schedule, from, now);
    decided.tenants.push(trigger.tenant_id);
    decided.triggers.push(trigger.id);
    decided.generations.push(trigger.generation);
    decided.expected.push(from);
    decided.next_dues.push(plan.next);
    let ord = i32::try_from(decided.triggers.len()).unwrap_or(i32::MAX);
    for &(due, decision) in &plan.instants {
        let what = match decision {
            Decision::Skip(reason) => What::Skip(reason.to_owned()),
            Decision::Fire => match fire(queue, trigger, due).await {
                Ok(fire) => fire,
                Err(error) if error.is_transient() => return Err(error),
                Err(error) => What::Skip(crate::text::storable(error.to_string().as_bytes(), 500)),
            },
        };
        decided.instants.push(DueInstant { ord, due, what });
    }
    Ok(plan.next.is_some_and(|next| next <= now))
}

async fn fire(queue: &Queue, trigger: &Trigger, due: Timestamp) -> Result<What> {
    let fields = &trigger.fields;
    let delay = jitter(fields, trigger.id, due);
    let mut job =
        NewJob::new(&fields.definition_key).tenant(trigger.tenant_id).payload(&rendered(trigger, due)?);
    if delay > 0.0 {
        job = job.delay(Duration::from_secs_f64(delay));
    }
    let route = checked_route(queue, &job).await?;
    // Whether an earlier job is in the way is decided by the statement, under the trigger's lock.
    let is_plain =
        fields.overlap == Overlap::Allow && matches!(plan_job(queue, &route, &job)?, Plan::Plain(_));
    Ok(What::Fire {
        job: queue.new_id(),
        lane: is_plain.then_some(route.0.lane),
        max_attempts: route.0.max_attempts,
        key: fields.definition_key.clone(),
        payload: job.payload_text()?.to_owned(),
        delay,
    })
}
