//! What a caller from outside does: a transaction that runs as the server's role, for the caller's tenant. Each verb that changes
//! something writes its own row of the audit trail, in the same transaction; one that recorded nothing cannot be committed.
//!
//! Row-level security holds in it even if a statement forgets its tenant. A super-admin's request that reaches across tenants
//! runs as another role.

use std::sync::atomic::{AtomicBool, Ordering};

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
    /// Begins what will change something.
    pub async fn act(&self, reach: Reach, actor: &Actor) -> Result<Acting> {
        let session = store::act::write(self.database(), reach.tenant()).await?;
        let has_recorded = AtomicBool::new(false);
        Ok(Acting { queue: self.clone(), session, reach, actor: actor.clone(), has_recorded })
    }

    /// Writes into the audit trail that a caller asked for something and was denied. `details` say how they came.
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

    /// Whether the database answers.
    pub async fn ping(&self) -> Result<()> {
        store::tenant::clock_offset(&self.database().session().await?).await.map(drop)
    }

    /// Begins what only looks, in one snapshot.
    pub async fn look(&self, reach: Reach) -> Result<Looking> {
        let session = store::act::read(self.database(), reach.tenant()).await?;
        Ok(Looking { session, reach, dry_runs: self.dry_runs() })
    }
}

/// A caller's transaction. Dropped without [`Acting::commit`] it changes nothing.
pub struct Acting {
    pub(crate) queue: Queue,
    pub(crate) session: Session,
    pub(crate) reach: Reach,
    pub(crate) actor: Actor,
    has_recorded: AtomicBool,
}

impl Acting {
    /// Makes all of it true. A transaction in which no verb recorded anything is rolled back: [`Error::Unrecorded`].
    pub async fn commit(self) -> Result<()> {
        if !self.has_recorded.load(Ordering::Relaxed) {
            return Err(Error::Unrecorded);
        }
        self.session.commit().await
    }

    /// Writes an act into the audit trail. Every verb that changes something calls it, or [`Self::was_recorded`].
    pub(in crate::control) async fn record(&self, act: Act) -> Result<()> {
        store::audit::record(&self.session, self.reach.owner(), &self.actor, &act).await?;
        self.was_recorded();
        Ok(())
    }

    /// The statement of the verb has written the row itself.
    pub(in crate::control) fn was_recorded(&self) {
        self.has_recorded.store(true, Ordering::Relaxed);
    }

    /// The database's time, which is the only one that counts.
    pub async fn now(&self) -> Result<jiff::Timestamp> {
        Ok(store::trigger::now(&self.session, self.reach.owner()).await?.0)
    }

    /// One job as this transaction sees it.
    pub async fn job(&self, id: Uuid) -> Result<Option<Job>> {
        let Some(tenant) = self.reach.tenant() else { return Ok(None) };
        Ok(shown(store::list::jobs_in(&self.session, tenant, &[id]).await?).pop())
    }

    /// Takes an idempotency key for this request. `Some` is what the same request was answered before: nothing is to be
    /// done again. A key of another request is [`crate::Error::RequestKeyTaken`].
    ///
    /// `named`: the tenant that the request is about, where the transaction reaches further than one.
    #[doc(hidden)]
    pub async fn remember_request(
        &self,
        named: Option<Uuid>,
        key: &str,
        fingerprint: &[u8],
    ) -> Result<Option<(u16, Value)>> {
        store::request::remember(&self.session, self.keys_of(named), key, fingerprint).await
    }

    /// What to answer when the request comes again.
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

    /// Whose idempotency keys this request uses.
    fn keys_of(&self, named: Option<Uuid>) -> Uuid {
        self.reach.tenant().or(named).unwrap_or(crate::model::tenant::INSTALLATION)
    }
}

/// A caller's view, in one snapshot. Payloads are shown without what is hidden in them ([`crate::text::redact`]).
pub struct Looking {
    pub(crate) session: Session,
    pub(crate) reach: Reach,
    pub(crate) dry_runs: Slots,
}

impl Looking {
    /// Ends it, so that its connection serves the next. Dropping does the same a little later.
    pub async fn end(self) -> Result<()> {
        self.session.commit().await
    }

    /// One page of the jobs that match, newest first. It may have fewer than asked for: it ends after about 4 MiB.
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

    /// The attempts of a job, oldest first, the one under way included.
    pub async fn attempts(&self, tenant: Uuid, id: Uuid) -> Result<Vec<Attempt>> {
        store::attempt::all(&self.session, tenant, id).await
    }

    /// A job's attempts after the one with this number, oldest first, and whether there are more. A page has at most `limit` of them
    /// and ends after about 4 MiB.
    pub async fn attempts_after(
        &self,
        tenant: Uuid,
        id: Uuid,
        after: i32,
        limit: u16,
    ) -> Result<(Vec<Attempt>, bool)> {
        store::attempt::page(&self.session, tenant, id, after, limit).await
    }

    /// Jobs per queue, definition and status: the tenant's, or everyone's.
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

impl std::fmt::Debug for Looking {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Looking").field("reach", &self.reach).finish_non_exhaustive()
    }
}
