//! The operator's verbs: cancel, retry, purge, and the settings of tenants and queues. Each records itself, in the name of the
//! database login unless the caller gives a name.

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

/// What a cancel did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Canceled {
    /// It was waiting and will never start.
    Now,
    /// It is running. It stays running, with its keys and slots, until its holder acknowledges or is reaped.
    Requested,
    /// It had ended before.
    AlreadyFinished,
}

/// The role of those who act through the library, as the audit trail names it.
const APPLICATION: &str = "application";

/// Rows per statement of a bulk verb, so that no transaction is long.
const BATCH: i32 = 1000;

impl Queue {
    /// The live workers that run jobs of this definition. Where there is none, its jobs stay queued.
    pub async fn workers_for(&self, definition_key: &str) -> Result<Vec<CapableWorker>> {
        store::worker::knowing(self.database(), definition_key).await
    }

    /// Asks a worker to finish what it has and take nothing new, or to go on; it hears of it with its next heartbeat.
    /// Answers whether a live worker has this id.
    pub async fn set_quiet(&self, worker_id: &str, is_quiet: bool) -> Result<bool> {
        let acting = self.acting_as_login(Reach::Everything).await?;
        match acting.set_quiet(worker_id, is_quiet).await {
            Ok(()) => acting.commit().await.map(|()| true),
            Err(Error::Unknown { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Cancels a job: at once if it waits, by request if it runs.
    pub async fn cancel(&self, tenant: Uuid, job: Uuid) -> Result<Canceled> {
        read_canceled(job, &store::job::cancel(self.database(), tenant, job).await?)
    }

    /// Runs a finished job again, with a fresh budget. `actor` is recorded. Answers its new state.
    pub async fn retry(&self, tenant: Uuid, job: Uuid, actor: &str) -> Result<State> {
        let (answer, holder) = store::job::retry(self.database(), tenant, job, actor).await?;
        read_retried(job, &answer, holder)
    }

    /// Deletes jobs whole, whatever their state. Answers how many there were.
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
    pub async fn purge_subject(&self, tenant: Uuid, kind: &str, id: &str) -> Result<u64> {
        let mut purged = 0;
        loop {
            let acting = self.acting_as_login(Reach::Tenant(tenant)).await?;
            let gone = acting.purge_subject(tenant, (kind, id), BATCH).await?;
            if gone == 0 {
                return Ok(purged);
            }
            acting.commit().await?;
            purged += gone;
        }
    }

    /// Makes a tenant, or updates the one with this slug. Weight is its share of workers beside other tenants.
    pub async fn ensure_tenant(&self, slug: &str, name: &str, weight: u16) -> Result<Uuid> {
        let acting = self.acting_as_login(Reach::Everything).await?;
        let (id, is_changed) = acting.ensure_tenant(slug, name, i32::from(weight)).await?;
        if is_changed {
            acting.commit().await?;
        }
        Ok(id)
    }

    /// Deletes a tenant and everything of it, in batches; `progress` hears how many jobs are gone so far. If this is
    /// interrupted the tenant stays marked for deletion, takes no new jobs, and the next call goes on.
    pub async fn delete_tenant(&self, tenant: Uuid, mut progress: impl FnMut(u64)) -> Result<u64> {
        let acting = self.acting_as_login(Reach::Everything).await?;
        let (gone, mut done) = acting.begin_purge(tenant, BATCH).await?;
        acting.commit().await?;
        let mut purged = u64::from(gone.unsigned_abs());
        progress(purged);
        while !done {
            let gone;
            (gone, done) = store::tenant::purge(&self.database().session().await?, tenant, BATCH).await?;
            purged += u64::from(gone.unsigned_abs());
            progress(purged);
            if gone == 0 && !done {
                // Only a transaction is waited for that may yet commit a job of the tenant.
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
        Ok(purged)
    }

    /// Pauses or resumes a queue; workers honour it within their poll interval.
    pub async fn set_paused(&self, queue: &str, paused: bool) -> Result<()> {
        let acting = self.acting_as_login(Reach::Everything).await?;
        acting.set_paused(queue, paused).await?;
        acting.commit().await
    }

    /// Creates or updates a definition without a handler in this process.
    pub async fn define(&self, definition: &Definition) -> Result<Uuid> {
        definition.check()?;
        store::definition::define(self.database(), definition).await
    }

    /// The login of the connection, as the database knows it.
    pub async fn login(&self) -> Result<String> {
        Ok(store::access::login(self.database()).await?.0)
    }

    /// For an application that names nobody: the login acts, as an operator if it is one, otherwise as a server.
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

pub(crate) fn read_canceled(job: Uuid, answer: &str) -> Result<Canceled> {
    match answer {
        "canceled" => Ok(Canceled::Now),
        "requested" => Ok(Canceled::Requested),
        "finished" => Ok(Canceled::AlreadyFinished),
        _ => Err(Error::UnknownJob { job }),
    }
}

pub(crate) fn read_retried(job: Uuid, answer: &str, holder: Option<Uuid>) -> Result<State> {
    match (answer, holder) {
        ("queued", _) => Ok(State::Queued),
        ("blocked", _) => Ok(State::Blocked),
        ("not_finished", _) => Err(Error::NotFinished { job }),
        ("duplicate", Some(holder)) => Err(Error::DedupeSlotTaken { job, holder }),
        _ => Err(Error::UnknownJob { job }),
    }
}
