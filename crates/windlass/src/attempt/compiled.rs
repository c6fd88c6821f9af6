//! The data of a definition: its policies, its schema and its redaction rules, as last read.

use std::sync::Arc;
use std::time::Duration;

use super::run_result::RunResult;
use crate::error::Result;
use crate::model::definition::{self, Policies};
use crate::model::job::claimed::Claimed;
use crate::model::job::settle::{Outcome, Retry};
use crate::store;
use crate::store::database::Database;
use crate::text::redact::Rules;

/// A definition's policies as last read.
#[derive(Debug)]
pub(crate) struct CompiledDefinition {
    pub(crate) policies: Arc<Policies>,
    validator: Option<jsonschema::Validator>,
    pub(crate) rules: Arc<Rules>,
}

impl CompiledDefinition {
    /// Reads the current data from the database.
    pub(crate) async fn read(database: &Database, key: &str) -> Result<Self> {
        Self::of(store::definition::policies(database, key).await?)
    }

    /// Builds it from policies that were read.
    pub(crate) fn of(policies: Policies) -> Result<Self> {
        let validator = definition::validator(&policies.arg_schema.to_string())?;
        let rules = Rules::of(&policies.redaction)?;
        Ok(Self { policies: Arc::new(policies), validator, rules })
    }

    /// Returns the result that ends a job before it runs: its deadline has passed, or its payload does not match the
    /// schema, which the SQL functions cannot check.
    pub(crate) fn refusal(&self, job: &Claimed) -> Option<RunResult> {
        if job.budget.remaining.is_some_and(|remaining| remaining.is_zero()) {
            return Some(RunResult::of(Outcome::TimedOut, "the deadline passed before the job could start"));
        }
        let error = definition::check_payload(self.validator.as_ref()?, &job.payload).err()?;
        Some(RunResult::failed(
            Retry::Permanent,
            format!("the payload does not match the definition's schema: {error}"),
        ))
    }

    pub(crate) fn allowed_time(&self, job: &Claimed, waited: Duration) -> Duration {
        let timeout = self.policies.timeout();
        job.budget.remaining.map_or(timeout, |remaining| timeout.min(remaining.saturating_sub(waited)))
    }

    /// Whether the job's deadline ends an attempt that starts after this time before the timeout of the definition does.
    pub(crate) fn has_own_deadline(&self, job: &Claimed, waited: Duration) -> bool {
        self.allowed_time(job, waited) < self.policies.timeout()
    }
}
