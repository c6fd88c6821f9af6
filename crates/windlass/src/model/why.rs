//! Why a job is not running. The facts come from the database; this module interprets them and has no side effects.

use jiff::Timestamp;
use serde::Serialize;
use uuid::Uuid;

use crate::model::job::state::State;

/// Why a job is not running: the main reason, and all reasons.
///
/// ```no_run
/// # async fn example(reading: &windlass::admin::Reading, job: uuid::Uuid) -> windlass::Result<()> {
/// let why = reading.why(job).await?;
/// println!("{}: {} {}", why.status, why.reason.message, why.reason.remedy);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Why {
    /// The status of the job.
    pub status: State,
    /// The first of `reasons`.
    pub reason: Reason,
    /// Every reason, the most important first.
    pub reasons: Vec<Reason>,
}

/// One reason why a job is not running, or that nothing prevents it.
///
/// ```
/// use windlass::job::Reason;
///
/// assert!(Reason::CODES.contains(&"queue_paused"));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Reason {
    /// Stable; one of [`Reason::CODES`].
    pub code: &'static str,
    /// The message for people.
    pub message: String,
    /// How to resolve it.
    pub remedy: String,
}

impl Reason {
    /// Every code.
    pub const CODES: [&'static str; 16] = [
        "finished",
        "cancel_pending",
        "running",
        "tenant_suspended",
        "definition_inactive",
        "not_due",
        "backing_off",
        "waits_for_job",
        "queue_paused",
        "no_worker_for_definition",
        "no_worker_serves_queue",
        "workers_drained",
        "limit_reached",
        "behind_higher_priority",
        "behind_earlier_jobs",
        "about_to_start",
    ];

    fn new(code: &'static str, message: impl Into<String>, remedy: impl Into<String>) -> Self {
        debug_assert!(Self::CODES.contains(&code));
        Self { code, message: message.into(), remedy: remedy.into() }
    }
}

/// The facts about a job and its environment.
#[derive(Debug, Clone)]
pub(crate) struct JobFacts {
    pub(crate) status: State,
    pub(crate) definition_key: String,
    pub(crate) definition_is_active: bool,
    pub(crate) queue: String,
    pub(crate) queue_is_paused: bool,
    pub(crate) tenant_status: String,
    pub(crate) tenant_weight: i32,
    pub(crate) due_at: Option<Timestamp>,
    pub(crate) now: Timestamp,
    pub(crate) cancel_requested: bool,
    pub(crate) worker_id: Option<String>,
    pub(crate) failures: i16,
    pub(crate) max_attempts: i16,
    pub(crate) waits_for: Vec<(Uuid, String)>,
    pub(crate) able_workers: Vec<String>,
    pub(crate) workers_of_other_queues: Vec<String>,
    pub(crate) drained_workers: Vec<String>,
    pub(crate) gone_workers: Vec<String>,
    pub(crate) ahead_in_lane: i64,
    pub(crate) ahead_by_priority: i64,
    /// `definition`, `tenant`, both or none.
    pub(crate) limits_reached: Vec<String>,
    pub(crate) ended_because: Option<String>,
    pub(crate) finished_at: Option<Timestamp>,
}

/// Orders the reasons by what an operator should check first.
pub(crate) fn explain(facts: &JobFacts) -> Why {
    let mut reasons = match facts.status {
        State::Succeeded | State::Failed | State::DeadLetter | State::Canceled => vec![finished(facts)],
        State::Running => running(facts),
        State::Scheduled => scheduled(facts),
        State::Blocked => vec![blocked(facts)],
        State::Queued => Vec::new(),
    };
    if !facts.status.is_terminal() && facts.status != State::Running {
        reasons.extend(surroundings(facts));
    }
    if facts.status == State::Queued {
        reasons.extend(queue_reasons(facts));
    }
    let reason = reasons.first().cloned().unwrap_or_else(|| about_to_start(facts));
    if reasons.is_empty() {
        reasons.push(reason.clone());
    }
    Why { status: facts.status, reason, reasons }
}

fn finished(facts: &JobFacts) -> Reason {
    let when = facts.finished_at.map(|at| format!(" at {at}")).unwrap_or_default();
    let because = facts.ended_because.as_deref().map(|why| format!(" ({why})")).unwrap_or_default();
    let message = format!("the job ended as {}{when}{because}", facts.status);
    Reason::new("finished", message, "retry it to run it again")
}

fn running(facts: &JobFacts) -> Vec<Reason> {
    let by = facts.worker_id.as_deref().unwrap_or("a worker");
    let mut reasons = Vec::new();
    if facts.cancel_requested {
        let message = format!("cancellation was requested, and {by} has not responded yet");
        let remedy = "the worker responds with its next heartbeat; if it crashed, the job is canceled when its lease expires";
        reasons.push(Reason::new("cancel_pending", message, remedy));
    }
    reasons.push(Reason::new(
        "running",
        format!("the job is running on {by}"),
        "wait for it to end, or cancel it",
    ));
    reasons
}

fn scheduled(facts: &JobFacts) -> Vec<Reason> {
    let Some(due) = facts.due_at else { return Vec::new() };
    let is_due = due <= facts.now;
    // Microseconds are omitted: they carry no useful information.
    let due = due.strftime("%Y-%m-%dT%H:%M:%SZ");
    if is_due {
        let message = format!("it was due at {due} and is being queued");
        return vec![Reason::new(
            "not_due",
            message,
            "a keeper queues it within a second; check that one is running",
        )];
    }
    if facts.failures > 0 {
        let message = format!(
            "attempt {} of {} failed; the next one starts at {due}",
            facts.failures, facts.max_attempts
        );
        return vec![Reason::new(
            "backing_off",
            message,
            "wait, or cancel and retry the job to start it immediately",
        )];
    }
    vec![Reason::new("not_due", format!("the job is scheduled for {due}"), "wait until then")]
}

fn blocked(facts: &JobFacts) -> Reason {
    let shown: Vec<String> =
        facts.waits_for.iter().take(3).map(|(job, state)| format!("{job} ({state})")).collect();
    let more = facts.waits_for.len().saturating_sub(shown.len());
    let and_more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let message = if shown.is_empty() {
        "the jobs that it depends on have ended, and it is being queued".to_owned()
    } else {
        format!("waiting for {}{and_more}", shown.join(", "))
    };
    Reason::new("waits_for_job", message, "it starts when they have ended")
}

/// What would prevent it from running even if it were the next job of its lane.
fn surroundings(facts: &JobFacts) -> Vec<Reason> {
    let mut reasons = Vec::new();
    if facts.tenant_status != "active" {
        let message = format!("the tenant is {}", facts.tenant_status);
        reasons.push(Reason::new("tenant_suspended", message, "a super-admin can reactivate the tenant"));
    }
    if !facts.definition_is_active {
        let message = format!("the definition {:?} is not active", facts.definition_key);
        reasons.push(Reason::new("definition_inactive", message, "a super-admin can activate it"));
    }
    if facts.queue_is_paused {
        let message = format!("the queue {:?} is paused", facts.queue);
        reasons.push(Reason::new("queue_paused", message, "resume the queue"));
    }
    if facts.able_workers.is_empty() {
        reasons.push(no_worker(facts));
    }
    reasons
}

fn no_worker(facts: &JobFacts) -> Reason {
    let key = &facts.definition_key;
    if let Some(worker) = facts.drained_workers.first() {
        let message = format!("every worker with a handler for {key:?} is drained, including {worker}");
        return Reason::new("workers_drained", message, "resume the worker, or start another one");
    }
    if let Some(worker) = facts.workers_of_other_queues.first() {
        let message =
            format!("{worker} has a handler for {key:?} but does not serve the queue {:?}", facts.queue);
        return Reason::new("no_worker_serves_queue", message, "start a worker that serves the queue");
    }
    let last = facts.gone_workers.first();
    let seen = last.map(|worker| format!("; the last one was {worker}")).unwrap_or_default();
    let message = format!("no live worker has a handler for {key:?}{seen}");
    Reason::new(
        "no_worker_for_definition",
        message,
        format!("start a worker with a handler or a command for {key:?}"),
    )
}

fn queue_reasons(facts: &JobFacts) -> Vec<Reason> {
    let many = |count: i64| if count >= 1000 { "1000 or more".to_owned() } else { count.to_string() };
    let mut reasons = Vec::new();
    for whose in &facts.limits_reached {
        let message = format!("max_running of its {whose} is reached");
        let remedy = format!("wait until one of them ends, or increase max_running of the {whose}");
        reasons.push(Reason::new("limit_reached", message, remedy));
    }
    if facts.ahead_by_priority > 0 {
        let message = format!("{} jobs of the tenant have a higher priority", many(facts.ahead_by_priority));
        reasons.push(Reason::new(
            "behind_higher_priority",
            message,
            "they run first; waiting jobs gain priority over time, and more workers shorten the wait",
        ));
    }
    if facts.ahead_in_lane > 0 {
        let message = format!("{} earlier jobs of the same lane are queued", many(facts.ahead_in_lane));
        let remedy = format!(
            "the jobs of a lane run in order, and tenants take turns by weight (this tenant's is {}); more workers shorten the wait",
            facts.tenant_weight
        );
        reasons.push(Reason::new("behind_earlier_jobs", message, remedy));
    }
    reasons
}

fn about_to_start(facts: &JobFacts) -> Reason {
    let able = match facts.able_workers.len() {
        1 => "1 live worker has".to_owned(),
        workers => format!("{workers} live workers have"),
    };
    let message = format!("it is the next job of its lane, and {able} a handler for it");
    Reason::new(
        "about_to_start",
        message,
        format!(
            "it starts as soon as a worker has a free slot and it is the tenant's turn (weight {})",
            facts.tenant_weight
        ),
    )
}
