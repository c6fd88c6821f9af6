//! Why is this job not running? The facts come from the database; what they mean is decided here, and nothing here touches
//! anything.

use jiff::Timestamp;
use serde::Serialize;
use uuid::Uuid;

use crate::model::job::state::State;

/// The answer: the one reason that counts most, and all of them.
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

/// One thing that keeps a job from running, or says that nothing does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Reason {
    /// Stable; one of [`Reason::CODES`].
    pub code: &'static str,
    /// For people.
    pub message: String,
    /// What would change it.
    pub remedy: String,
}

impl Reason {
    /// Every code there is.
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
        "no_worker_knows_key",
        "no_worker_serves_queue",
        "workers_quiet",
        "limit_reached",
        "behind_higher_priority",
        "behind_others_in_line",
        "about_to_start",
    ];

    fn new(code: &'static str, message: impl Into<String>, remedy: impl Into<String>) -> Self {
        debug_assert!(Self::CODES.contains(&code));
        Self { code, message: message.into(), remedy: remedy.into() }
    }
}

/// What is known of a job and its surroundings.
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
    pub(crate) quiet_workers: Vec<String>,
    pub(crate) gone_workers: Vec<String>,
    pub(crate) ahead_in_lane: i64,
    pub(crate) ahead_by_priority: i64,
    /// `definition`, `tenant`, both or none.
    pub(crate) limits_reached: Vec<String>,
    pub(crate) ended_because: Option<String>,
    pub(crate) finished_at: Option<Timestamp>,
}

/// Puts the facts in order of what an operator should look at first.
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
        reasons.extend(in_line(facts));
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
    let message = format!("it has ended as {}{when}{because}", facts.status);
    Reason::new("finished", message, "retry it to run it again")
}

fn running(facts: &JobFacts) -> Vec<Reason> {
    let by = facts.worker_id.as_deref().unwrap_or("a worker");
    let mut reasons = Vec::new();
    if facts.cancel_requested {
        let message = format!("{by} was asked to stop it and has not answered yet");
        let remedy =
            "the worker answers with its next heartbeat; if it died, the lease ends and the job with it";
        reasons.push(Reason::new("cancel_pending", message, remedy));
    }
    reasons.push(Reason::new(
        "running",
        format!("it is running on {by}"),
        "wait for it to end, or cancel it",
    ));
    reasons
}

fn scheduled(facts: &JobFacts) -> Vec<Reason> {
    let Some(due) = facts.due_at else { return Vec::new() };
    if due <= facts.now {
        let message = format!("it was due at {due} and is being queued");
        return vec![Reason::new("not_due", message, "a keeper does it within a second; is one running?")];
    }
    if facts.failures > 0 {
        let message = format!(
            "attempt {} of {} failed; the next one starts at {due}",
            facts.failures, facts.max_attempts
        );
        return vec![Reason::new("backing_off", message, "wait, or cancel and retry it to start at once")];
    }
    vec![Reason::new("not_due", format!("it is scheduled for {due}"), "wait until then")]
}

fn blocked(facts: &JobFacts) -> Reason {
    let shown: Vec<String> =
        facts.waits_for.iter().take(3).map(|(job, state)| format!("{job} ({state})")).collect();
    let more = facts.waits_for.len().saturating_sub(shown.len());
    let and_more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let message = if shown.is_empty() {
        "what it waited for has ended, and it is being queued".to_owned()
    } else {
        format!("it waits for {}{and_more}", shown.join(", "))
    };
    Reason::new("waits_for_job", message, "it starts when they end; look at why they are not running")
}

/// What would keep it from running even if it were at the head of the line.
fn surroundings(facts: &JobFacts) -> Vec<Reason> {
    let mut reasons = Vec::new();
    if facts.tenant_status != "active" {
        let message = format!("the tenant is {}", facts.tenant_status);
        reasons.push(Reason::new("tenant_suspended", message, "a super-admin can make the tenant active"));
    }
    if !facts.definition_is_active {
        let message = format!("the definition {:?} is switched off for new jobs", facts.definition_key);
        reasons.push(Reason::new("definition_inactive", message, "a super-admin can switch it on"));
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
    if let Some(worker) = facts.quiet_workers.first() {
        let message = format!("every worker that knows {key:?} is quiet, {worker} among them");
        return Reason::new("workers_quiet", message, "let the worker take jobs again, or start another");
    }
    if let Some(worker) = facts.workers_of_other_queues.first() {
        let message = format!("{worker} knows {key:?} but does not serve the queue {:?}", facts.queue);
        return Reason::new("no_worker_serves_queue", message, "start a worker that serves the queue");
    }
    let last = facts.gone_workers.first();
    let seen = last.map(|worker| format!("; the last that did was {worker}")).unwrap_or_default();
    let message = format!("no live worker knows {key:?}{seen}");
    Reason::new(
        "no_worker_knows_key",
        message,
        format!("start a worker with a handler or a command for {key:?}"),
    )
}

fn in_line(facts: &JobFacts) -> Vec<Reason> {
    let many = |count: i64| if count >= 1000 { "1000 or more".to_owned() } else { count.to_string() };
    let mut reasons = Vec::new();
    for whose in &facts.limits_reached {
        let message = format!("as many jobs of its {whose} run as may");
        let remedy = format!("one of them ends, or the {whose}'s max_running is raised");
        reasons.push(Reason::new("limit_reached", message, remedy));
    }
    if facts.ahead_by_priority > 0 {
        let message =
            format!("{} of the tenant's jobs have a higher priority", many(facts.ahead_by_priority));
        reasons.push(Reason::new(
            "behind_higher_priority",
            message,
            "they go first, though none waits forever; more workers shorten the line",
        ));
    }
    if facts.ahead_in_lane > 0 {
        let message = format!(
            "{} jobs of the same kind are ahead of it in its tenant's line",
            many(facts.ahead_in_lane)
        );
        let remedy = format!(
            "each line goes in order, and tenants take turns by their weight, which is {} here; more workers shorten the wait",
            facts.tenant_weight
        );
        reasons.push(Reason::new("behind_others_in_line", message, remedy));
    }
    reasons
}

fn about_to_start(facts: &JobFacts) -> Reason {
    let workers = facts.able_workers.len();
    let message = format!("it is at the head of its line, and {workers} live workers know its key");
    Reason::new(
        "about_to_start",
        message,
        format!(
            "a worker takes it as soon as it has a free slot and it is the tenant's turn, by its weight of {}",
            facts.tenant_weight
        ),
    )
}
