//! The operations of applications: cancel, retry, purge, and the settings of tenants and queues. Each is recorded in
//! the audit trail, under the name of the database login unless the caller gives a name.

mod triggers;

use std::time::Duration;

use uuid::Uuid;

use crate::control::transaction::Acting;
use crate::error::{Error, Result};
use crate::model::actor::{Actor, Reach};
use crate::model::definition::Definition;
use crate::model::filter::Filter;
use crate::model::job::state::State;
use crate::model::record::CapableWorker;
use crate::queue::Queue;
use crate::store;

/// The result of a cancel.
///
/// ```no_run
/// # async fn example(queue: &windlass::Queue, job: uuid::Uuid) -> windlass::Result<()> {
/// use windlass::job::Canceled;
///
/// match queue.cancel(windlass::DEFAULT_TENANT, job).await? {
///     Canceled::Now => println!("it will not run"),
///     Canceled::Requested => println!("it is running; cancellation was requested"),
///     _ => println!("it had already ended"),
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Canceled {
    /// The job was waiting and will not start.
    Now,
    /// The job is running. It keeps running and holds its keys and slots until its worker acknowledges the request or
    /// loses the lease.
    Requested,
    /// The job had already ended.
    AlreadyFinished,
}

/// The role of applications in the audit trail.
const APPLICATION: &str = "application";

/// The number of rows per statement of a bulk operation, so that no transaction is long.
const BATCH: i32 = 1000;

impl Queue {
    /// The live workers with a handler for this definition. If there is none, its jobs stay queued.
    ///
    /// ```no_run
    /// # async fn example(queue: &windlass::Queue) -> windlass::Result<()> {
    /// if queue.workers_for("resize").await?.is_empty() {
    ///     println!("no worker has a handler for resize");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn workers_for(&self, definition_key: &str) -> Result<Vec<CapableWorker>> {
        store::worker::capable_workers(self.database(), definition_key).await
    }

    /// Drains a worker, or resumes it; it is notified with its next heartbeat. Returns whether a live worker has this id.
    ///
    /// ```no_run
    /// # async fn example(queue: &windlass::Queue) -> windlass::Result<()> {
    /// for worker in queue.workers_for("resize").await? {
    ///     queue.set_draining(&worker.worker_id, true).await?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn set_draining(&self, worker_id: &str, is_draining: bool) -> Result<bool> {
        let acting = self.acting_as_login(Reach::Everything).await?;
        match acting.set_draining(worker_id, is_draining).await {
            Ok(()) => acting.commit().await.map(|()| true),
            Err(Error::Unknown { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Cancels a job: immediately if it has not started, by request if it is running.
    ///
    /// ```no_run
    /// # async fn example(queue: &windlass::Queue, job: uuid::Uuid) -> windlass::Result<()> {
    /// let outcome = queue.cancel(windlass::DEFAULT_TENANT, job).await?;
    /// println!("{outcome:?}");
    /// # Ok(())
    /// # }
    /// ```
    pub async fn cancel(&self, tenant: Uuid, job: Uuid) -> Result<Canceled> {
        read_canceled(job, &store::job::cancel(self.database(), tenant, job).await?)
    }

    /// Runs a finished job again, with its attempts reset. `actor` is recorded. Returns the new state, which is
    /// [`State::Canceled`] if a dependency of the job did not succeed meanwhile.
    ///
    /// ```no_run
    /// # async fn example(queue: &windlass::Queue, job: uuid::Uuid) -> windlass::Result<()> {
    /// let state = queue.retry(windlass::DEFAULT_TENANT, job, "on call").await?;
    /// println!("{state}");
    /// # Ok(())
    /// # }
    /// ```
    pub async fn retry(&self, tenant: Uuid, job: Uuid, actor: &str) -> Result<State> {
        let (outcome, holder) = store::job::retry(self.database(), tenant, job, actor).await?;
        read_retried(job, &outcome, holder)
    }

    /// Deletes jobs with their history, in any state. Returns the number of deleted jobs.
    ///
    /// ```no_run
    /// # async fn example(queue: &windlass::Queue, job: uuid::Uuid) -> windlass::Result<()> {
    /// let deleted = queue.purge(windlass::DEFAULT_TENANT, &[job]).await?;
    /// assert!(deleted <= 1);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn purge(&self, tenant: Uuid, jobs: &[Uuid]) -> Result<u64> {
        let mut purged = 0;
        for chunk in jobs.chunks(BATCH.unsigned_abs() as usize) {
            let acting = self.acting_as_login(Reach::Tenant(tenant)).await?;
            purged += acting.purge(&Filter::new(tenant).ids(chunk.iter().copied()), chunk).await?;
            acting.commit().await?;
        }
        Ok(purged)
    }

    /// Deletes every job of a subject.
    ///
    /// ```no_run
    /// # async fn example(queue: &windlass::Queue) -> windlass::Result<()> {
    /// queue.purge_subject(windlass::DEFAULT_TENANT, "customer", "7").await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn purge_subject(&self, tenant: Uuid, kind: &str, id: &str) -> Result<u64> {
        let mut purged = 0;
        loop {
            let acting = self.acting_as_login(Reach::Tenant(tenant)).await?;
            let deleted = acting.purge_subject(tenant, (kind, id), BATCH).await?;
            if deleted == 0 {
                return Ok(purged);
            }
            acting.commit().await?;
            purged += deleted;
        }
    }

    /// Creates a tenant, or updates the one with this slug. `weight` is its share of the workers relative to other tenants.
    ///
    /// ```no_run
    /// # async fn example(queue: &windlass::Queue) -> windlass::Result<()> {
    /// use windlass::NewJob;
    ///
    /// let acme = queue.ensure_tenant("acme", "Acme", 100).await?;
    /// queue.enqueue(NewJob::new("resize").tenant(acme)).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn ensure_tenant(&self, slug: &str, name: &str, weight: u16) -> Result<Uuid> {
        let acting = self.acting_as_login(Reach::Everything).await?;
        let (id, is_changed) = acting.ensure_tenant(slug, name, i32::from(weight)).await?;
        if is_changed {
            acting.commit().await?;
        }
        Ok(id)
    }

    /// Deletes a tenant and all its data, in batches; `progress` is called with the number of jobs deleted so far. If
    /// this is interrupted the tenant stays marked for deletion, accepts no new jobs, and the next call continues.
    ///
    /// ```no_run
    /// # async fn example(queue: &windlass::Queue, tenant: uuid::Uuid) -> windlass::Result<()> {
    /// let deleted = queue.delete_tenant(tenant, |jobs| println!("{jobs} jobs deleted")).await?;
    /// println!("done: {deleted} jobs");
    /// # Ok(())
    /// # }
    /// ```
    pub async fn delete_tenant(&self, tenant: Uuid, mut progress: impl FnMut(u64)) -> Result<u64> {
        let acting = self.acting_as_login(Reach::Everything).await?;
        let (deleted, mut done) = acting.begin_purge(tenant, BATCH).await?;
        acting.commit().await?;
        let mut purged = u64::from(deleted.unsigned_abs());
        progress(purged);
        while !done {
            let deleted;
            (deleted, done) = store::tenant::purge(&self.database().session().await?, tenant, BATCH).await?;
            purged += u64::from(deleted.unsigned_abs());
            progress(purged);
            if deleted == 0 && !done {
                // Waits for a transaction that may still commit a job of the tenant.
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
        Ok(purged)
    }

    /// Pauses or resumes a queue; workers apply it within their poll interval.
    ///
    /// ```no_run
    /// # async fn example(queue: &windlass::Queue) -> windlass::Result<()> {
    /// queue.set_paused("mail", true).await?;
    /// // Running jobs continue; waiting ones start after this:
    /// queue.set_paused("mail", false).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn set_paused(&self, queue: &str, paused: bool) -> Result<()> {
        let acting = self.acting_as_login(Reach::Everything).await?;
        acting.set_paused(queue, paused).await?;
        acting.commit().await
    }

    /// Creates or updates a definition without a handler in this process.
    ///
    /// ```no_run
    /// # async fn example(queue: &windlass::Queue) -> windlass::Result<()> {
    /// use windlass::Definition;
    ///
    /// // A process that only enqueues declares the kinds of jobs that others run.
    /// queue.define(&Definition::new("report.build").queue("reports")).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn define(&self, definition: &Definition) -> Result<Uuid> {
        definition.check()?;
        store::definition::define(self.database(), definition).await
    }

    /// The login of the connection, as reported by the database.
    ///
    /// ```no_run
    /// # async fn example(queue: &windlass::Queue) -> windlass::Result<()> {
    /// println!("connected as {}", queue.login().await?);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn login(&self) -> Result<String> {
        Ok(store::access::login(self.database()).await?.0)
    }

    /// For an application that gives no actor: the login is the actor, as an operator if it is one, otherwise as a
    /// server.
    pub(in crate::control) async fn acting_as_login(&self, reach: Reach) -> Result<Acting> {
        let (login, is_operator) = store::access::login(self.database()).await?;
        let actor =
            Actor { name: format!("login:{login}"), role: APPLICATION.to_owned(), ..Actor::default() };
        if is_operator {
            return self.clone().for_an_operator().act(reach, &actor).await;
        }
        self.act(reach, &actor).await
    }
}

pub(crate) fn read_canceled(job: Uuid, outcome: &str) -> Result<Canceled> {
    match outcome {
        "canceled" => Ok(Canceled::Now),
        "requested" => Ok(Canceled::Requested),
        "finished" => Ok(Canceled::AlreadyFinished),
        "missing" => Err(Error::UnknownJob { job }),
        other => Err(unexpected("cancel", other)),
    }
}

pub(crate) fn read_retried(job: Uuid, outcome: &str, holder: Option<Uuid>) -> Result<State> {
    match (outcome, holder) {
        ("queued", _) => Ok(State::Queued),
        ("blocked", _) => Ok(State::Blocked),
        // A dependency that was still undecided did not succeed.
        ("canceled", _) => Ok(State::Canceled),
        ("not_finished", _) => Err(Error::NotFinished { job }),
        ("past_deadline", _) => Err(Error::DeadlinePassed { job }),
        ("duplicate", Some(holder)) => Err(Error::DedupeSlotTaken { job, holder }),
        ("missing", _) => Err(Error::UnknownJob { job }),
        (other, _) => Err(unexpected("retry", other)),
    }
}

fn unexpected(function: &str, answer: &str) -> Error {
    Error::UnexpectedResult { message: format!("{answer:?} from windlass.{function}") }
}
