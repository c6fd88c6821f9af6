//! What a worker knows of each kind of job it can run: its handler, and its definition's policies as last read.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use super::handler::{AnyHandler, Finish};
use super::running::Slot;
use super::settler::Ended;
use crate::definition::{self, Policies};
use crate::error::Result;
use crate::job::claimed::Claimed;
use crate::job::settle::{Outcome, Retry};
use crate::redact::Rules;
use crate::store;
use crate::store::database::Database;
use crate::telemetry::Meters;

/// One kind of job this worker can run.
pub(crate) struct Kind {
    pub(crate) handler: Arc<dyn AnyHandler>,
    pub(crate) known: RwLock<Arc<Known>>,
    pub(crate) meters: Arc<Meters>,
}

/// A definition's policies as last read.
#[derive(Debug)]
pub(crate) struct Known {
    pub(crate) policies: Arc<Policies>,
    validator: Option<jsonschema::Validator>,
    pub(crate) rules: Arc<Rules>,
}

impl std::fmt::Debug for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Kind").finish_non_exhaustive()
    }
}

/// What one run takes from its kind, as it is now.
pub(crate) struct Kit {
    pub(crate) handler: Arc<dyn AnyHandler>,
    pub(crate) known: Arc<Known>,
    pub(crate) meters: Arc<Meters>,
}

impl Kit {
    pub(crate) fn end(&self, claimed: Arc<Claimed>, slot: Slot, finish: Finish, ran: Duration) -> Ended {
        Ended::new(claimed, slot, self.known.policies.clone(), self.meters.clone(), finish, ran)
    }
}

impl Kind {
    pub(crate) fn kit(&self) -> Kit {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner).clone();
        Kit { handler: self.handler.clone(), known, meters: self.meters.clone() }
    }
}

impl Known {
    /// As it stands in the database now.
    pub(crate) async fn read(database: &Database, key: &str) -> Result<Self> {
        let policies = store::definition::policies(database, key).await?;
        let validator = definition::validator(&policies.arg_schema.to_string())?;
        let rules = Rules::of(&policies.redaction)?;
        Ok(Self { policies: Arc::new(policies), validator, rules })
    }

    /// What ends a job before it runs: its deadline has passed, or its payload does not fit the schema, which the SQL
    /// door cannot check.
    pub(crate) fn refusal(&self, job: &Claimed) -> Option<Finish> {
        if job.budget.remaining.is_some_and(|remaining| remaining.is_zero()) {
            return Some(Finish::of(Outcome::TimedOut, "its deadline passed before it could start"));
        }
        let error = definition::check_payload(self.validator.as_ref()?, &job.payload).err()?;
        Some(Finish::failed(
            Retry::Permanent,
            format!("the payload does not fit the definition's schema: {error}"),
        ))
    }

    pub(crate) fn allowed_time(&self, job: &Claimed, waited: Duration) -> Duration {
        let timeout = Duration::from_secs(self.policies.timeout_seconds);
        job.budget.remaining.map_or(timeout, |remaining| timeout.min(remaining.saturating_sub(waited)))
    }
}
