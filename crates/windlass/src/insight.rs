//! Reads for people who look rather than query: what happened over time, how long things take, and what jobs die of.
//! Each costs the same however long the history is: it reads sums made by the keeper, or a bounded sample of the newest.

mod error_group;

use jiff::Timestamp;
use serde::Serialize;
use uuid::Uuid;

use crate::act::Looking;
use crate::error::Result;
use crate::record::Trouble;
use crate::store;

pub use error_group::ErrorGroup;

/// Dead letters that are looked at for grouping. Older ones are counted by the counters only.
pub const DEAD_LETTERS_SEEN: u16 = 2000;

/// What ended and what waited in one queue during one span of time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Activity {
    pub from: Timestamp,
    pub queue: String,
    /// Attempts that ended so.
    pub succeeded: i64,
    pub failed: i64,
    /// The most jobs at once.
    pub queued: i64,
    pub running: i64,
}

/// One attempt that has ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Run {
    pub job_id: Uuid,
    pub attempt: i32,
    pub queue: String,
    pub definition_key: String,
    pub outcome: String,
    /// When it could have started: only known of first attempts.
    pub ready_at: Option<Timestamp>,
    pub started_at: Option<Timestamp>,
    pub finished_at: Timestamp,
}

impl Run {
    /// Seconds between being ready and being started.
    pub fn waited(&self) -> Option<f64> {
        Some(self.started_at?.duration_since(self.ready_at?).as_secs_f64().max(0.0))
    }

    /// Seconds it ran.
    pub fn lasted(&self) -> Option<f64> {
        Some(self.finished_at.duration_since(self.started_at?).as_secs_f64().max(0.0))
    }
}

/// A dead letter and what it died of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct DeadLetter {
    pub job_id: Uuid,
    pub definition_key: String,
    pub finished_at: Timestamp,
    pub attempts: i32,
    pub reason: Option<String>,
    pub error_text: Option<String>,
}

impl Looking {
    /// What the keeper set aside and what is stored but cannot be used, with the reasons; of the tenant or of all.
    pub async fn troubles(&self) -> Result<Vec<Trouble>> {
        store::trouble::list(&self.session).await
    }

    /// The database's clock.
    pub async fn now(&self) -> Result<Timestamp> {
        store::tenant::now(&self.session).await
    }

    /// Some tenants by name, in its order: those whose ids are given, or the first ones.
    pub async fn tenant_names(&self, ids: Option<&[Uuid]>, most: u16) -> Result<Vec<(Uuid, String)>> {
        store::insight::tenant_names(&self.session, ids, most).await
    }

    /// The jobs that another one asked for when it ended, oldest first.
    pub async fn children(&self, tenant: Uuid, job: Uuid, most: u16) -> Result<Vec<Uuid>> {
        store::insight::children(&self.session, tenant, job, most).await
    }

    /// Sums per queue and span of `seconds` since an instant, oldest first; a span in which nothing was is not there.
    /// Kept for a day, in steps of 15 seconds, as long as a keeper runs.
    pub async fn activity(&self, since: Timestamp, seconds: u32) -> Result<Vec<Activity>> {
        store::insight::activity(&self.session, self.reach.owner(), since, seconds).await
    }

    /// The newest runs of some tenants, at most this many of each, oldest first. A view of one tenant sees only its own.
    pub async fn runs(&self, tenants: &[Uuid], most_of_each: u16) -> Result<Vec<Run>> {
        store::insight::runs(&self.session, tenants, most_of_each).await
    }

    /// The tenant's newest dead letters, gathered by definition and by what they died of, largest group first.
    pub async fn error_groups(&self, tenant: Uuid) -> Result<Vec<ErrorGroup>> {
        let letters = store::insight::dead_letters(&self.session, tenant, DEAD_LETTERS_SEEN).await?;
        Ok(error_group::gather(letters))
    }
}
