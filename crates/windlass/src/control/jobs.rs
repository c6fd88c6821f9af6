//! What callers do to jobs, inside their own transaction: enqueue, cancel, retry, delete, one or many.

mod list;
pub(crate) mod search;

use jiff::Timestamp;
use serde::Serialize;
use serde_json::json;
use uuid::Uuid;

use crate::control::application::{Canceled, read_canceled, read_retried};
use crate::control::transaction::Acting;
use crate::enqueue::batching;
use crate::enqueue::plan::{Plan, checked_route, enqueued, plan};
use crate::error::{Error, Result};
use crate::model::actor::{Actor, Reach};
use crate::model::audit::{Act, Action};
use crate::model::filter::Filter;
use crate::model::job::state::State;
use crate::model::new_job::{Enqueued, NewJob};
use crate::queue::{CheckedRoute, Queue};
use crate::store;
use crate::store::bulk::Found;
use crate::store::enqueue_as::ByCaller;
use crate::telemetry;
use crate::text::redact::{self, PLACEHOLDER};

/// A job that was enqueued, and since when it is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Placed {
    /// The id and state of the job.
    pub enqueued: Enqueued,
    /// None if it was purged.
    pub queued_at: Option<Timestamp>,
}

/// A job that was checked for a caller, with the way it will take.
///
/// It is made before the caller's transaction begins: a transaction holds a connection, and must not wait for another one.
#[derive(Debug)]
pub struct CheckedJob<'a> {
    job: &'a NewJob,
    route: CheckedRoute,
}

/// What a verb on many did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Bulk {
    /// Of each, what came of it: `canceled`, `requested`, `queued`, `deleted`, `finished`, `missing`, …
    pub outcomes: Vec<(Uuid, String)>,
    /// More match than one call takes.
    pub has_more: bool,
}

impl Bulk {
    /// How many were changed.
    pub fn changed(&self) -> usize {
        let changes = ["canceled", "requested", "queued", "blocked", "deleted"];
        self.outcomes.iter().filter(|(_, outcome)| changes.contains(&outcome.as_str())).count()
    }
}

/// Jobs of one verb on many: one transaction, so not too many.
pub(crate) const MOST_AT_ONCE: u16 = 1000;

impl Queue {
    /// Checks a caller's job and finds its route. Call it before [`Queue::act`], never while a transaction is open.
    #[doc(hidden)]
    pub async fn check_job<'a>(&self, job: &'a NewJob) -> Result<CheckedJob<'a>> {
        refuse_hidden(job)?;
        Ok(CheckedJob { job, route: checked_route(self, job).await? })
    }

    /// Enqueues one job of a caller's and writes it into the audit trail, in one statement if the job has no guard; together with
    /// others if many callers wait for a connection.
    #[doc(hidden)]
    pub async fn enqueue_as(&self, tenant: Uuid, actor: &Actor, job: &NewJob) -> Result<Placed> {
        let checked = self.check_job(job).await?;
        if let Plan::Plain(routed) = plan(self, &checked.route, job)? {
            let enqueued = enqueued(&routed);
            let act = enqueued_act(enqueued.id, &job.definition_key, enqueued.state);
            let caller = ByCaller { new: routed.into_owned(), by: actor.clone(), act };
            let queued_at = batching::enqueue(self, tenant, caller).await?;
            telemetry::enqueued([(job, &enqueued)]);
            return Ok(Placed { enqueued, queued_at: Some(queued_at) });
        }
        let acting = self.act(Reach::Tenant(tenant), actor).await?;
        let placed = acting.enqueue(&checked).await?;
        acting.commit().await?;
        Ok(placed)
    }
}

/// A caller who copies a job from where it is shown copies its hidden texts as placeholders: they are no secrets.
fn refuse_hidden(job: &NewJob) -> Result<()> {
    let payload = job.payload_text()?;
    if !payload.contains(PLACEHOLDER) {
        return Ok(());
    }
    match serde_json::from_str(payload).ok().and_then(|payload| redact::copied_placeholder(&payload)) {
        None => Ok(()),
        Some(pointer) => Err(Error::Refused {
            field: "payload".to_owned(),
            pointer: Some(pointer),
            message: format!(
                "is {PLACEHOLDER}, which stands for a text that is not shown: write the text again"
            ),
        }),
    }
}

/// The payload is not in it: it may hold what nobody should read.
fn enqueued_act(id: Uuid, definition_key: &str, state: Option<State>) -> Act {
    Act::new(Action::JobEnqueue, id).after(&json!({"definition_key": definition_key, "status": state}))
}

impl Acting {
    /// Enqueues one job. The tenant is this transaction's.
    #[doc(hidden)]
    pub async fn enqueue(&self, checked: &CheckedJob<'_>) -> Result<Placed> {
        let CheckedJob { job, route } = checked;
        let enqueued = match plan(&self.queue, route, job)? {
            Plan::Guarded => store::enqueue::door(&self.session, job).await?,
            Plan::Plain(routed) => {
                store::enqueue::routed_many(&self.session, std::slice::from_ref(&routed)).await?;
                enqueued(&routed)
            }
        };
        let queued_at = store::enqueue::queued_at(&self.session, route.0.tenant, enqueued.id).await?;
        // The holder of a dedupe key may be a job of another definition.
        let known = match enqueued.is_duplicate {
            true => self.job(enqueued.id).await?.map(|known| known.definition_key),
            false => None,
        };
        let definition_key = known.as_deref().unwrap_or(&job.definition_key);
        self.record(enqueued_act(enqueued.id, definition_key, enqueued.state)).await?;
        telemetry::enqueued([(*job, &enqueued)]);
        Ok(Placed { enqueued, queued_at })
    }

    /// Enqueues many, each with its own answer: what is refused does not keep the others out. Plain jobs go in one statement;
    /// those with keys go one by one, each behind a savepoint.
    #[doc(hidden)]
    pub async fn enqueue_each(&self, jobs: &[CheckedJob<'_>]) -> Result<Vec<Result<Placed>>> {
        let mut answers: Vec<Option<Result<Enqueued>>> = vec![None; jobs.len()];
        let mut plain = Vec::new();
        let mut guarded = Vec::new();
        for (position, checked) in jobs.iter().enumerate() {
            match plan(&self.queue, &checked.route, checked.job) {
                Ok(Plan::Guarded) => guarded.push(position),
                Ok(Plan::Plain(routed)) => {
                    answers[position] = Some(Ok(enqueued(&routed)));
                    plain.push(routed);
                }
                Err(error) => answers[position] = Some(Err(error)),
            }
        }
        if !plain.is_empty() {
            store::enqueue::routed_many(&self.session, &plain).await?;
        }
        // In the order of their keys, as every batch takes them.
        guarded.sort_by_key(|&position| {
            let options = &jobs[position].job.options;
            (&options.idempotency_key, &options.dedupe_key, &options.ordering_key, position)
        });
        for position in guarded {
            self.session.batch("savepoint one").await?;
            let answer = store::enqueue::door(&self.session, jobs[position].job).await;
            let after = if answer.is_ok() { "release one" } else { "rollback to one" };
            self.session.batch(after).await?;
            answers[position] = Some(answer);
        }
        telemetry::enqueued(jobs.iter().zip(&answers).filter_map(|(checked, answer)| match answer {
            Some(Ok(enqueued)) => Some((checked.job, enqueued)),
            _ => None,
        }));
        let ids: Vec<Uuid> = answers.iter().flatten().flatten().map(|enqueued| enqueued.id).collect();
        let since = match jobs.first().map(|first| first.route.0.tenant) {
            Some(tenant) => store::enqueue::queued_at_each(&self.session, tenant, &ids).await?,
            None => std::collections::HashMap::new(),
        };
        let made = answers.iter().flatten().flatten().filter(|enqueued| !enqueued.is_duplicate);
        let made: Vec<Uuid> = made.map(|enqueued| enqueued.id).collect();
        let after = json!({"created": made.len(), "ids": made});
        self.record(Act::new(Action::JobEnqueueMany, format!("{} jobs", made.len())).after(&after)).await?;
        let placed = |enqueued: Enqueued| Placed { enqueued, queued_at: since.get(&enqueued.id).copied() };
        Ok(answers.into_iter().flatten().map(|answer| answer.map(placed)).collect())
    }

    /// Cancels a job. A job that had ended before is left as it is, and nothing is recorded.
    pub async fn cancel(&self, job: Uuid) -> Result<Canceled> {
        let tenant = self.tenant(job)?;
        let answer = store::job::cancel_as(&self.session, tenant, job, &self.actor).await?;
        let canceled = read_canceled(job, &answer)?;
        if canceled != Canceled::AlreadyFinished {
            self.was_recorded();
        }
        Ok(canceled)
    }

    /// Runs a finished job again, with a fresh budget.
    pub async fn retry(&self, job: Uuid) -> Result<State> {
        let tenant = self.tenant(job)?;
        let (answer, holder) = store::job::retry_as(&self.session, tenant, job, &self.actor).await?;
        let state = read_retried(job, &answer, holder)?;
        self.was_recorded();
        Ok(state)
    }

    /// Cancels what matches, a thousand at most.
    pub async fn cancel_many(&self, filter: &Filter) -> Result<Bulk> {
        let (ids, has_more) = self.cancelable(filter).await?;
        let found = Found { tenant: filter.tenant, jobs: &ids, filter: &filter.recorded() };
        let outcomes = store::bulk::cancel_many_as(&self.session, &found, &self.actor).await?;
        self.was_recorded();
        Ok(Bulk { outcomes, has_more })
    }

    /// Runs what matches again, a thousand at most; what has not ended is left alone.
    pub async fn retry_many(&self, filter: &Filter) -> Result<Bulk> {
        let (ids, has_more) = self.retryable(filter).await?;
        let found = Found { tenant: filter.tenant, jobs: &ids, filter: &filter.recorded() };
        let outcomes = store::bulk::retry_many_as(&self.session, &found, &self.actor).await?;
        self.was_recorded();
        Ok(Bulk { outcomes, has_more })
    }

    /// Deletes what matches whole, whatever its state, a thousand at most.
    pub async fn delete_many(&self, filter: &Filter) -> Result<Bulk> {
        let (ids, has_more) = self.matching(filter).await?;
        self.purge(filter, &ids).await?;
        let outcomes = ids.into_iter().map(|id| (id, "deleted".to_owned())).collect();
        Ok(Bulk { outcomes, has_more })
    }

    /// Deletes the jobs that a filter found. Answers how many there were.
    pub(super) async fn purge(&self, filter: &Filter, ids: &[Uuid]) -> Result<u64> {
        let purged = store::job::purge(&self.session, filter.tenant, ids).await?.unsigned_abs();
        let after = json!({"filter": filter.recorded(), "changed": purged, "ids": ids});
        self.record(Act::new(Action::JobDeleteMany, format!("{} jobs", ids.len())).after(&after)).await?;
        Ok(purged.into())
    }

    /// Deletes jobs of a subject, so many at most. Answers how many there were.
    pub(super) async fn purge_subject(&self, tenant: Uuid, subject: (&str, &str), most: i32) -> Result<u64> {
        let purged = store::job::purge_subject(&self.session, tenant, subject, most).await?.unsigned_abs();
        let filter = Filter::new(tenant).subject(subject.0, subject.1);
        let after = json!({"filter": filter.recorded(), "changed": purged});
        self.record(Act::new(Action::JobDeleteMany, format!("{purged} jobs")).after(&after)).await?;
        Ok(purged.into())
    }

    /// The ids that match, and whether there are more: what a deletion would meet.
    pub async fn matching(&self, filter: &Filter) -> Result<(Vec<Uuid>, bool)> {
        self.some(filter, MOST_AT_ONCE).await
    }

    /// Those that a cancel would meet. Without a state in the filter, only what has not ended: what was canceled by one call
    /// must not be in the way of the next.
    pub async fn cancelable(&self, filter: &Filter) -> Result<(Vec<Uuid>, bool)> {
        self.in_states(filter, &[State::Queued, State::Scheduled, State::Blocked, State::Running]).await
    }

    /// Those that a retry would meet: likewise, only what has ended.
    pub async fn retryable(&self, filter: &Filter) -> Result<(Vec<Uuid>, bool)> {
        self.in_states(filter, &[State::DeadLetter, State::Failed, State::Canceled, State::Succeeded]).await
    }

    async fn in_states(&self, filter: &Filter, states: &[State]) -> Result<(Vec<Uuid>, bool)> {
        // Whoever names ids hears of each, whatever its state.
        if filter.state.is_some() || filter.ids.is_some() {
            return self.matching(filter).await;
        }
        let mut ids = Vec::new();
        for state in states {
            let room = MOST_AT_ONCE - u16::try_from(ids.len()).unwrap_or(MOST_AT_ONCE);
            if room == 0 {
                return Ok((ids, true));
            }
            let (found, has_more) = self.some(&filter.clone().state(*state), room).await?;
            ids.extend(found);
            if has_more {
                return Ok((ids, true));
            }
        }
        Ok((ids, false))
    }

    async fn some(&self, filter: &Filter, most: u16) -> Result<(Vec<Uuid>, bool)> {
        store::act::plan_as_a_list(&self.session).await?;
        let filter = filter.clone().limit(most);
        let (ids, next) = if filter.is_search() {
            let (ids, next, _) = search::within(&self.session, &filter).await?;
            (ids, next)
        } else {
            store::list::ids_in(&self.session, &filter).await?
        };
        Ok((ids, next.is_some()))
    }

    fn tenant(&self, job: Uuid) -> Result<Uuid> {
        self.reach.tenant().ok_or(Error::UnknownJob { job })
    }
}
