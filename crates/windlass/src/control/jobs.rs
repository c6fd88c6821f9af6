//! Operations on jobs within the caller's transaction: enqueue, cancel, retry, delete; on one job or many.

mod bulk;
mod list;
pub(crate) mod search;

pub use bulk::{Bulk, BulkCursor, BulkPage};
use jiff::Timestamp;
use serde_json::json;
use uuid::Uuid;

use crate::control::application::{Canceled, read_canceled, read_retried};
use crate::control::transaction::Acting;
use crate::enqueue::batching;
use crate::enqueue::plan::{Batch, Plan, checked_route, enqueued, plan};
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
use crate::store::keys::BatchKeys;
use crate::telemetry;
use crate::text::redact::{self, PLACEHOLDER};

/// An enqueued job, or the existing one that holds its dedupe key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placed {
    /// The id and state of the job.
    pub enqueued: Enqueued,
    /// The key of its definition. An existing job may have another one than the job that was to be enqueued; if it was
    /// purged, this is the key of the latter.
    pub definition_key: String,
    /// None if the job was purged.
    pub queued_at: Option<Timestamp>,
}

/// A validated job of a caller, with its route.
///
/// It is created before the caller's transaction starts: a transaction holds a connection, and must not wait for
/// another one.
#[derive(Debug)]
pub struct CheckedJob<'a> {
    job: &'a NewJob,
    route: CheckedRoute,
}

impl Queue {
    /// Validates a caller's job and finds its route. Call it before [`Queue::act`], never while a transaction is open.
    #[doc(hidden)]
    pub async fn check_job<'a>(&self, job: &'a NewJob) -> Result<CheckedJob<'a>> {
        refuse_hidden(job)?;
        Ok(CheckedJob { job, route: checked_route(self, job).await? })
    }

    /// Enqueues one job of a caller and records it in the audit trail: in one statement if the job needs no guard, and
    /// together with others if many callers wait for a connection.
    #[doc(hidden)]
    pub async fn enqueue_as(&self, tenant: Uuid, actor: &Actor, job: &NewJob) -> Result<Placed> {
        let checked = self.check_job(job).await?;
        if let Plan::Plain(routed) = plan(self, &checked.route, job)? {
            let enqueued = enqueued(&routed);
            let act = enqueued_act(enqueued.id, &job.definition_key, enqueued.state);
            let caller = ByCaller { new: routed.into_owned(), by: actor.clone(), act };
            let queued_at = batching::enqueue(self, tenant, caller).await?;
            telemetry::enqueued([(job, &enqueued)]);
            let definition_key = job.definition_key.clone();
            return Ok(Placed { enqueued, definition_key, queued_at: Some(queued_at) });
        }
        let acting = self.act(Reach::Tenant(tenant), actor).await?;
        let placed = acting.enqueue(&checked).await?;
        acting.commit().await?;
        Ok(placed)
    }
}

/// A caller that copies a displayed job copies its redacted values as placeholders, which are not the secrets.
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
            message: format!("is {PLACEHOLDER}, the placeholder of a hidden value: enter the value again"),
        }),
    }
}

/// The payload is omitted, because it may contain secrets.
fn enqueued_act(id: Uuid, definition_key: &str, state: Option<State>) -> Act {
    Act::new(Action::JobEnqueue, id).after(&json!({"definition_key": definition_key, "status": state}))
}

fn placed(job: &NewJob, enqueued: Enqueued, known: Option<(Timestamp, String)>) -> Placed {
    let (queued_at, definition_key) = known.map_or_else(
        || (None, job.definition_key.clone()),
        |(queued_at, definition_key)| (Some(queued_at), definition_key),
    );
    Placed { enqueued, definition_key, queued_at }
}

impl Acting {
    /// Enqueues one job in the tenant of this transaction.
    #[doc(hidden)]
    pub async fn enqueue(&self, checked: &CheckedJob<'_>) -> Result<Placed> {
        let CheckedJob { job, route } = checked;
        let enqueued = match plan(&self.queue, route, job)? {
            Plan::Guarded => store::enqueue::guarded(&self.session, job).await?,
            Plan::Plain(routed) => {
                store::enqueue::routed_many(&self.session, std::slice::from_ref(&routed)).await?;
                enqueued(&routed)
            }
        };
        let mut known = store::enqueue::placed(&self.session, route.0.tenant, &[enqueued.id]).await?;
        let act = enqueued_act(enqueued.id, &job.definition_key, enqueued.state);
        self.record_if(!enqueued.is_duplicate, act).await?;
        telemetry::enqueued([(*job, &enqueued)]);
        Ok(placed(job, enqueued, known.remove(&enqueued.id)))
    }

    /// Enqueues many jobs, each with its own result: a rejected job does not affect the others. Plain jobs are inserted
    /// in one statement; those with keys one by one, each after a savepoint.
    #[doc(hidden)]
    pub async fn enqueue_each(&self, jobs: &[CheckedJob<'_>]) -> Result<Vec<Result<Placed>>> {
        let mut results: Vec<Option<Result<Enqueued>>> = Vec::with_capacity(jobs.len());
        let mut batch = Batch::default();
        for (position, checked) in jobs.iter().enumerate() {
            let plan = plan(&self.queue, &checked.route, checked.job);
            results.push(plan.map(|plan| batch.add(position, plan)).transpose());
        }
        let Batch { plain, guarded } = batch;
        if !plain.is_empty() {
            store::enqueue::routed_many(&self.session, &plain).await?;
        }
        let keys = BatchKeys::of(guarded.iter().map(|&position| jobs[position].job));
        keys.lock(&self.session).await?;
        for position in guarded {
            self.check_time()?;
            self.session.batch("savepoint one").await?;
            let result = store::enqueue::guarded(&self.session, jobs[position].job).await;
            let after = if result.is_ok() { "release one" } else { "rollback to one; release one" };
            self.session.batch(after).await?;
            results[position] = Some(result);
        }
        keys.unlock(&self.session).await?;
        telemetry::enqueued(jobs.iter().zip(&results).filter_map(|(checked, result)| match result {
            Some(Ok(enqueued)) => Some((checked.job, enqueued)),
            _ => None,
        }));
        let ids: Vec<Uuid> = results.iter().flatten().flatten().map(|enqueued| enqueued.id).collect();
        let known = match jobs.first().map(|first| first.route.0.tenant) {
            Some(tenant) => store::enqueue::placed(&self.session, tenant, &ids).await?,
            None => std::collections::HashMap::new(),
        };
        let made = results.iter().flatten().flatten().filter(|enqueued| !enqueued.is_duplicate);
        let made: Vec<Uuid> = made.map(|enqueued| enqueued.id).collect();
        let after = json!({"created": made.len(), "ids": made});
        let target = if made.len() == 1 { "1 job".to_owned() } else { format!("{} jobs", made.len()) };
        let act = Act::new(Action::JobEnqueueMany, target).after(&after);
        self.record_if(!made.is_empty(), act).await?;
        let of = |checked: &CheckedJob<'_>, enqueued: Enqueued| {
            placed(checked.job, enqueued, known.get(&enqueued.id).cloned())
        };
        let results = jobs.iter().zip(results.into_iter().flatten());
        Ok(results.map(|(checked, result)| result.map(|enqueued| of(checked, enqueued))).collect())
    }

    /// Cancels a job. A job that has already ended does not change, and nothing is recorded.
    ///
    /// ```no_run
    /// # async fn example(acting: &windlass::admin::Acting, job: uuid::Uuid) -> windlass::Result<()> {
    /// acting.cancel(job).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn cancel(&self, job: Uuid) -> Result<Canceled> {
        let tenant = self.tenant(job)?;
        let result = store::job::cancel_as(&self.session, tenant, job, &self.actor).await?;
        let canceled = read_canceled(job, &result)?;
        self.was_recorded();
        Ok(canceled)
    }

    /// Runs a finished job again, with its attempts reset. Returns the new state, which is [`State::Canceled`] if a
    /// dependency of the job did not succeed meanwhile.
    ///
    /// ```no_run
    /// # async fn example(acting: &windlass::admin::Acting, job: uuid::Uuid) -> windlass::Result<()> {
    /// let state = acting.retry(job).await?;
    /// println!("{state}");
    /// # Ok(())
    /// # }
    /// ```
    pub async fn retry(&self, job: Uuid) -> Result<State> {
        let tenant = self.tenant(job)?;
        let (result, holder) = store::job::retry_as(&self.session, tenant, job, &self.actor).await?;
        let state = read_retried(job, &result, holder)?;
        self.was_recorded();
        Ok(state)
    }

    /// Deletes the jobs that a filter found. Returns the number of deleted jobs.
    pub(super) async fn purge(&self, filter: &Filter, ids: &[Uuid]) -> Result<u64> {
        let found = Found { tenant: filter.tenant, jobs: ids, filter: &filter.recorded() };
        let purged = store::job::purge(&self.session, &found).await?.unsigned_abs();
        self.was_recorded();
        Ok(purged.into())
    }

    /// Deletes at most `most` jobs of a subject. Returns the number of deleted jobs.
    pub(super) async fn purge_subject(&self, tenant: Uuid, subject: (&str, &str), most: i32) -> Result<u64> {
        let purged = store::job::purge_subject(&self.session, tenant, subject, most).await?.unsigned_abs();
        self.was_recorded();
        Ok(purged.into())
    }

    fn tenant(&self, job: Uuid) -> Result<Uuid> {
        self.reach.tenant().ok_or(Error::UnknownJob { job })
    }
}
