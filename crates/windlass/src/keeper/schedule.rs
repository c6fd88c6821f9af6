//! Fires schedules. Reads the due triggers, decides in pure code, and applies the decision with one statement that
//! checks every trigger again: the second scheduler finds that the instant has advanced. No lock is held in between, so
//! a scheduler can crash, hang or resume hours later at any point.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use uuid::Uuid;

use super::share::RoundShare;
use super::{Round, leader};
use crate::blocking::{self, by_size};
use crate::enqueue::plan::{Plan, check_payload, plan as plan_job};
use crate::error::Result;
use crate::model::new_job::NewJob;
use crate::model::trigger::{
    Decision, FirePlan, Overlap, Rendered, Renderer, Trigger, jitter, job_with, plan,
};
use crate::queue::{CheckedRoute, Queue};
use crate::store;
use crate::store::database::Database;
use crate::store::trigger::{DecidedFires, DueInstant, What};

/// The maximum number of triggers and instants per statement, so that no transaction is long.
const MAX: i32 = 500;
const MAX_INSTANTS: usize = 1000;
/// The maximum size of the templates of one round; that of the payloads is the share of each tenant. The rest is left
/// for the next round.
const MAX_BYTES: i32 = 8 << 20;
/// How much larger than its template the payload of a schedule can become: a short path inserts a long label.
const EXPANSION: usize = 16;
/// The instants of a longer backlog are not computed on a thread of the runtime.
const LONG: jiff::SignedDuration = jiff::SignedDuration::from_hours(1);
/// After this many lock timeouts, the rest of a tenant's schedules is not tried in this round: each would wait as long.
const MAX_LOCKED: usize = 3;
/// The pause after a round in which nothing could be done about due triggers: another node may be able to.
const AT_LEAST: Duration = Duration::from_millis(100);

pub(super) async fn run_once(queue: &Queue, holder: Uuid) -> Result<Round> {
    let database = queue.database();
    let patience = leader::patience(database, "schedule", holder).await?;
    let due = store::trigger::due(database, patience, MAX, MAX_BYTES).await?;
    let mut is_full = due.len() >= MAX.unsigned_abs() as usize;
    let mut decided = DecidedFires::default();
    let tenants: HashSet<Uuid> =
        due.iter().filter_map(|(trigger, _)| Some(trigger.as_ref().ok()?.tenant_id)).collect();
    let mut shares: HashMap<Uuid, RoundShare> = HashMap::new();
    let mut locked: HashMap<Uuid, usize> = HashMap::new();
    for (trigger, now) in due {
        if decided.instants.len() >= MAX_INSTANTS {
            is_full = true;
            break;
        }
        match trigger {
            Ok(trigger) if locked.get(&trigger.tenant_id) == Some(&MAX_LOCKED) => {}
            Ok(trigger) => {
                let (tenant, id) = (trigger.tenant_id, trigger.id);
                let share =
                    shares.entry(tenant).or_insert_with(|| RoundShare::among(MAX_INSTANTS, tenants.len()));
                match decide(queue, &mut decided, &Arc::new(trigger), now, share).await {
                    Err(error) if error.is_lock_timeout() => {
                        let waits = locked.entry(tenant).or_default();
                        *waits += 1;
                        hold_back(database, tenant, id, *waits == MAX_LOCKED).await?;
                    }
                    has_more => is_full |= has_more?,
                }
            }
            Err(bad) => {
                tracing::error!(trigger_id = %bad.id, tenant_id = %bad.tenant, reason = bad.reason, "invalid trigger");
                store::problem::note(database, "schedule", bad.tenant, bad.id, &bad.reason).await?;
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

/// Delays a schedule whose route an open transaction of its tenant has locked, and all schedules of the tenant if there
/// are several such ones.
async fn hold_back(database: &Database, tenant: Uuid, trigger: Uuid, is_last: bool) -> Result<()> {
    let reason = "another transaction holds a lock that its job needs";
    store::problem::note_locked(database, "schedule", tenant, trigger, reason).await?;
    if is_last {
        let reason = "another transaction holds a lock that the jobs of several schedules need";
        store::problem::note_locked(database, "schedule", tenant, tenant, reason).await?;
    }
    Ok(())
}

/// Adds the plan of one trigger, as far as the share of its tenant allows. Returns whether more of it is due.
async fn decide(
    queue: &Queue,
    decided: &mut DecidedFires,
    trigger: &Arc<Trigger>,
    now: Timestamp,
    share: &mut RoundShare,
) -> Result<bool> {
    let Some(from) = trigger.next_due_at else { return Ok(false) };
    if share.room().is_none() {
        return Ok(true);
    }
    let planning = {
        let trigger = trigger.clone();
        move || -> Result<FirePlan> {
            Ok(plan(&trigger.fields, &trigger.fields.parse_schedule()?, from, now))
        }
    };
    let is_long = now.duration_since(from) > LONG;
    let planned = if is_long { blocking::run(planning).await } else { planning() };
    let mut plan = match planned {
        Ok(plan) => plan,
        Err(error) => {
            // This machine may lack a time zone that another has, so the trigger stays due.
            tracing::error!(trigger_id = %trigger.id, tenant_id = %trigger.tenant_id, %error, "cannot compute a schedule");
            let reason = format!("the schedule cannot be computed: {error}");
            store::problem::note(queue.database(), "schedule", trigger.tenant_id, trigger.id, &reason)
                .await?;
            return Ok(false);
        }
    };
    let mut fires = fires(queue, trigger, &plan, share).await?.into_iter();
    let mut instants = Vec::with_capacity(plan.instants.len());
    for &(due, decision) in &plan.instants {
        let what = match decision {
            Decision::Skip(reason) => What::Skip(reason.to_owned()),
            Decision::Fire => match fires.next() {
                Some(Ok(fire)) => fire,
                Some(Err(error)) => What::Skip(crate::text::storable(error.to_string().as_bytes(), 500)),
                None => {
                    // The share ends here: the trigger stays due from this instant on.
                    plan.next = Some(due);
                    break;
                }
            },
        };
        instants.push((due, what));
    }
    if instants.is_empty() && plan.next == Some(from) {
        return Ok(true);
    }
    decided.tenants.push(trigger.tenant_id);
    decided.triggers.push(trigger.id);
    decided.generations.push(trigger.generation);
    decided.expected.push(from);
    decided.next_dues.push(plan.next);
    let ord = i32::try_from(decided.triggers.len()).unwrap_or(i32::MAX);
    decided.instants.extend(instants.into_iter().map(|(due, what)| DueInstant { ord, due, what }));
    Ok(plan.next.is_some_and(|next| next <= now))
}

/// Returns what each firing instant of the plan does, or why it does nothing; fewer if the share of the tenant has no
/// room for more.
async fn fires(
    queue: &Queue,
    trigger: &Arc<Trigger>,
    plan: &FirePlan,
    share: &mut RoundShare,
) -> Result<Vec<Result<What>>> {
    let fires = plan.instants.iter().filter(|(_, decision)| *decision == Decision::Fire);
    let dues: Vec<Timestamp> = fires.map(|(due, _)| *due).collect();
    if dues.is_empty() {
        return Ok(Vec::new());
    }
    let route = queue.keeper_route(trigger.tenant_id, &trigger.fields.definition_key).await;
    if let Err(error) = &route
        && error.is_transient()
    {
        return Err(error.clone());
    }
    let template = trigger.fields.payload_template.to_string().len();
    let size = template.saturating_mul(EXPANSION).saturating_mul(dues.len());
    let (jobs, rest) = {
        let (trigger, route) = (trigger.clone(), route.clone());
        let mut share = std::mem::take(share);
        by_size(size, move || (rendered(&trigger, &route, &dues, &mut share), share)).await
    };
    *share = rest;
    let made = |job: Result<(NewJob, f64)>| {
        let ((job, delay), route) = (job?, route.clone()?);
        fire(queue, trigger, &route, &job, delay)
    };
    jobs.into_iter()
        .map(made)
        .map(|made| match made {
            Err(error) if error.is_transient() => Err(error),
            made => Ok(made),
        })
        .collect()
}

/// Renders the payloads of these instants until the share ends, and checks each against its definition.
fn rendered(
    trigger: &Trigger,
    route: &Result<CheckedRoute>,
    dues: &[Timestamp],
    share: &mut RoundShare,
) -> Vec<Result<(NewJob, f64)>> {
    let renderer = Renderer::of(trigger);
    let mut jobs = Vec::with_capacity(dues.len());
    for &due in dues {
        let Some(room) = share.room() else { break };
        let rendered = match &renderer {
            Ok(renderer) => renderer.instant(due, room),
            Err(error) => Some(Rendered::nothing(error.clone())),
        };
        let Some(Rendered { payload, bytes }) = rendered else { break };
        share.take(bytes);
        let checked = payload.and_then(|payload| {
            let mut job = job_with(trigger, &payload);
            let delay = jitter(&trigger.fields, trigger.id, due);
            if delay > 0.0 {
                job = job.delay(Duration::from_secs_f64(delay));
            }
            job.check()?;
            check_payload(&job, route.as_ref().map_err(Clone::clone)?)?;
            Ok((job, delay))
        });
        jobs.push(checked);
    }
    jobs
}

fn fire(queue: &Queue, trigger: &Trigger, route: &CheckedRoute, job: &NewJob, delay: f64) -> Result<What> {
    let fields = &trigger.fields;
    // The statement checks, under the trigger's lock, whether an earlier job prevents this one.
    let is_plain = fields.overlap == Overlap::Allow && matches!(plan_job(queue, route, job)?, Plan::Plain(_));
    Ok(What::Fire {
        job: queue.new_id(),
        lane: is_plain.then_some(route.0.lane),
        max_attempts: route.0.max_attempts,
        key: fields.definition_key.clone(),
        payload: job.payload_text()?.to_owned(),
        delay,
    })
}
