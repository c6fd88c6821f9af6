//! The transaction of a caller: it runs as the server's role, for the caller's tenant. Each operation that changes
//! something has an entry in the audit trail in the same transaction, which the function of the database writes; a
//! transaction without an operation cannot be committed.
//!
//! Row-level security applies even if a statement omits the tenant. A request of a super-admin that affects several
//! tenants runs as another role.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use serde_json::Value;
use uuid::Uuid;

use crate::control::jobs::search;
use crate::error::{Error, Result};
use crate::model::actor::{Actor, Reach};
use crate::model::audit::{Act, Action};
use crate::model::filter::Filter;
use crate::model::record::{Attempt, Counts, Job, Page, shown};
use crate::queue::Queue;
use crate::queue::slots::Slots;
use crate::store;
use crate::store::database::Session;

impl Queue {
    /// Starts a transaction that changes something.
    ///
    /// ```no_run
    /// # async fn example(queue: &windlass::Queue, job: uuid::Uuid) -> windlass::Result<()> {
    /// use windlass::admin::{Actor, Reach};
    ///
    /// let actor = Actor::new("user:7").role("operator");
    /// let acting = queue.act(Reach::Tenant(windlass::DEFAULT_TENANT), &actor).await?;
    /// acting.cancel(job).await?;
    /// acting.commit().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn act(&self, reach: Reach, actor: &Actor) -> Result<Acting> {
        let session = store::act::write(self.database(), reach.tenant(), actor).await?;
        let (began, has_recorded) = (Instant::now(), AtomicBool::new(false));
        Ok(Acting { queue: self.clone(), session, reach, actor: actor.clone(), began, has_recorded })
    }

    /// Records in the audit trail that a request of a caller was denied. `details` describe the request.
    ///
    /// ```no_run
    /// # async fn example(queue: &windlass::Queue, job: uuid::Uuid) -> windlass::Result<()> {
    /// use windlass::admin::{Action, Actor, Reach};
    ///
    /// let caller = (Reach::Tenant(windlass::DEFAULT_TENANT), &Actor::new("user:7").role("viewer"));
    /// let details = serde_json::json!({ "needs": "operator" });
    /// queue.record_denied(caller, Action::JobCancel, &job.to_string(), &details).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn record_denied(
        &self,
        (reach, actor): (Reach, &Actor),
        action: Action,
        target: &str,
        details: &Value,
    ) -> Result<()> {
        let acting = self.act(reach, actor).await?;
        acting.record(Act::new(action, target).denied().after(details)).await?;
        acting.commit().await
    }

    /// Checks that the database responds.
    ///
    /// ```no_run
    /// # async fn example(queue: &windlass::Queue) -> windlass::Result<()> {
    /// let is_ready = queue.ping().await.is_ok();
    /// # Ok(())
    /// # }
    /// ```
    pub async fn ping(&self) -> Result<()> {
        self.read_clock().await
    }

    /// Starts a transaction that only reads, in one snapshot.
    ///
    /// ```no_run
    /// # async fn example(queue: &windlass::Queue) -> windlass::Result<()> {
    /// use windlass::admin::Reach;
    ///
    /// let reading = queue.read(Reach::Everything).await?;
    /// println!("{} tenants", reading.tenants().await?.len());
    /// reading.end().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn read(&self, reach: Reach) -> Result<Reading> {
        let session = store::act::read(self.database(), reach.tenant()).await?;
        Ok(Reading { session, reach, dry_runs: self.dry_runs() })
    }
}

/// A caller's transaction. If it is dropped without [`Acting::commit`], it changes nothing.
///
/// ```no_run
/// # async fn example(queue: &windlass::Queue, job: uuid::Uuid) -> windlass::Result<()> {
/// use windlass::admin::{Actor, Reach};
///
/// let acting = queue.act(Reach::Tenant(windlass::DEFAULT_TENANT), &Actor::new("user:7")).await?;
/// println!("{} {:?}", acting.now().await?, acting.job(job).await?.map(|job| job.status));
/// acting.retry(job).await?;
/// // The retry and its entry in the audit trail are durable after this.
/// acting.commit().await?;
/// # Ok(())
/// # }
/// ```
pub struct Acting {
    pub(crate) queue: Queue,
    pub(crate) session: Session,
    pub(crate) reach: Reach,
    pub(crate) actor: Actor,
    began: Instant,
    has_recorded: AtomicBool,
}

impl Acting {
    /// Commits the transaction. If no operation recorded anything, or noted that it changed nothing, it is rolled back with
    /// [`Error::Unrecorded`].
    pub async fn commit(self) -> Result<()> {
        if !self.has_recorded.load(Ordering::Relaxed) {
            return Err(Error::Unrecorded);
        }
        self.session.commit().await
    }

    /// Fails if the transaction has taken longer than one statement may take. Called between the statements of an
    /// operation whose number of statements depends on the request: the server limits each one, but not their sum.
    pub(in crate::control) fn check_time(&self) -> Result<()> {
        let most = self.queue.database().statement_timeout();
        if self.began.elapsed() > most {
            return Err(Error::TransactionTimeout { seconds: most.as_secs() });
        }
        Ok(())
    }

    /// Writes an action to the audit trail that no function of the database records: the jobs and events of a caller, and
    /// what was denied.
    pub(in crate::control) async fn record(&self, act: Act) -> Result<()> {
        store::audit::record(&self.session, self.reach.owner(), &self.actor, &act).await?;
        self.was_recorded();
        Ok(())
    }

    /// The same if the action has changed something: what changes nothing is not recorded.
    pub(in crate::control) async fn record_if(&self, is_changed: bool, act: Act) -> Result<()> {
        if is_changed {
            self.record(act).await?;
        }
        self.was_recorded();
        Ok(())
    }

    /// Notes that there is nothing left to record: the function of the operation has written the entry, or changed
    /// nothing. Every operation that changes something calls this or [`Self::record`].
    pub(in crate::control) fn was_recorded(&self) {
        self.has_recorded.store(true, Ordering::Relaxed);
    }

    /// The time of the database, which is the only clock that is used.
    pub async fn now(&self) -> Result<jiff::Timestamp> {
        Ok(store::trigger::now(&self.session, self.reach.owner()).await?.0)
    }

    /// One job as this transaction sees it.
    pub async fn job(&self, id: Uuid) -> Result<Option<Job>> {
        let Some(tenant) = self.reach.tenant() else { return Ok(None) };
        Ok(shown(store::list::jobs_in(&self.session, tenant, &[id]).await?).pop())
    }

    /// Claims an idempotency key for this request. `Some` is the stored response of the same request: nothing must be
    /// done again. If the key belongs to another request, the error is [`crate::Error::RequestKeyTaken`].
    ///
    /// `named`: the tenant of the request, if the transaction is not restricted to one.
    #[doc(hidden)]
    pub async fn remember_request(
        &self,
        named: Option<Uuid>,
        key: &str,
        fingerprint: &[u8],
    ) -> Result<Option<(u16, Value)>> {
        store::request::remember(&self.session, self.keys_of(named), key, fingerprint).await
    }

    /// Stores the response for repeated requests.
    #[doc(hidden)]
    pub async fn answer_request(
        &self,
        named: Option<Uuid>,
        key: &str,
        status: u16,
        answer: &Value,
    ) -> Result<()> {
        store::request::answer(&self.session, self.keys_of(named), key, status, answer).await
    }

    /// The tenant to which the idempotency keys of this request belong.
    fn keys_of(&self, named: Option<Uuid>) -> Uuid {
        self.reach.tenant().or(named).unwrap_or(crate::model::tenant::INSTALLATION)
    }
}

/// A read transaction of a caller, in one snapshot. Payloads are redacted ([`crate::text::redact`]).
///
/// ```no_run
/// # async fn example(queue: &windlass::Queue, id: uuid::Uuid) -> windlass::Result<()> {
/// use windlass::DEFAULT_TENANT;
/// use windlass::admin::Reach;
/// use windlass::job::Filter;
///
/// let reading = queue.read(Reach::Tenant(DEFAULT_TENANT)).await?;
/// println!("{} jobs on the first page", reading.list(&Filter::new(DEFAULT_TENANT)).await?.jobs.len());
/// if let Some(job) = reading.job(DEFAULT_TENANT, id).await? {
///     println!("{} {} attempts", job.status, reading.attempts(DEFAULT_TENANT, id).await?.len());
///     let (later, _) = reading.attempts_after(DEFAULT_TENANT, id, 10, 100).await?;
///     println!("{} after the tenth", later.len());
/// }
/// println!("{} definitions have jobs", reading.counts().await?.len());
/// reading.end().await?;
/// # Ok(())
/// # }
/// ```
pub struct Reading {
    pub(crate) session: Session,
    pub(crate) reach: Reach,
    pub(crate) dry_runs: Slots,
}

impl Reading {
    /// Ends the transaction and releases its connection. Dropping it does the same a little later.
    pub async fn end(self) -> Result<()> {
        self.session.commit().await
    }

    /// One page of the matching jobs, newest first. It may have fewer jobs than the limit, because a page ends after
    /// about 4 MiB.
    pub async fn list(&self, filter: &Filter) -> Result<Page> {
        if filter.mentions.is_some() {
            let (ids, next, searched) = search::within(&self.session, filter).await?;
            let (jobs, next) = store::page::jobs_of(&self.session, filter.tenant, &ids, &ids, next).await?;
            return Ok(Page { jobs: shown(jobs), next, searched: Some(searched) });
        }
        let (jobs, next) = store::page::page_in(&self.session, filter).await?;
        Ok(Page { jobs: shown(jobs), next, searched: None })
    }

    /// Returns one job.
    pub async fn job(&self, tenant: Uuid, id: Uuid) -> Result<Option<Job>> {
        Ok(shown(store::list::jobs_in(&self.session, tenant, &[id]).await?).pop())
    }

    /// The attempts of a job, oldest first, including the running one.
    pub async fn attempts(&self, tenant: Uuid, id: Uuid) -> Result<Vec<Attempt>> {
        store::attempt::all(&self.session, tenant, id).await
    }

    /// A job's attempts after the one with this number, oldest first, and whether there are more. A page ends after
    /// `limit` attempts or about 4 MiB.
    pub async fn attempts_after(
        &self,
        tenant: Uuid,
        id: Uuid,
        after: i32,
        limit: u16,
    ) -> Result<(Vec<Attempt>, bool)> {
        store::attempt::page(&self.session, tenant, id, after, limit).await
    }

    /// Jobs per queue, definition and status: of the tenant, or of all tenants.
    pub async fn counts(&self) -> Result<Vec<Counts>> {
        store::list::counts_in(&self.session, self.reach.tenant()).await
    }
}

impl std::fmt::Debug for Acting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Acting")
            .field("reach", &self.reach)
            .field("actor", &self.actor)
            .finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Reading {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reading").field("reach", &self.reach).finish_non_exhaustive()
    }
}
