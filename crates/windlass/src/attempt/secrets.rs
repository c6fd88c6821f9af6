//! Takes a job's secrets out of what its run says. Both building a redactor and using it cost time in proportion to texts
//! that tenants choose, so long ones are handled on a thread where nothing else waits.

use std::sync::{Arc, OnceLock};

use super::run_result::RunResult;
use crate::blocking::{self, by_size};
use crate::model::job::claimed::Claimed;
use crate::text::redact::{Redactor, Rules};

/// What one job must not say. Most jobs say nothing, so it is put together with the first text.
#[derive(Debug)]
pub(crate) struct JobRedactor {
    base: Redactor,
    rules: Arc<Rules>,
    made: OnceLock<Redactor>,
}

impl JobRedactor {
    pub(crate) fn new(base: Redactor, rules: Arc<Rules>) -> Self {
        Self { base, rules, made: OnceLock::new() }
    }

    /// Puts it together now. For long payloads, because the first text may be said where nobody can wait.
    pub(crate) async fn prepare(&self, job: &Arc<Claimed>) {
        let _ = self.made.set(redactor(&self.rules, &self.base, job).await);
    }

    pub(crate) fn get(&self, job: &Claimed) -> &Redactor {
        self.made.get_or_init(|| self.rules.redactor(&self.base, &job.payload))
    }
}

pub(crate) fn is_long(job: &Claimed) -> bool {
    job.payload.len() >= blocking::SMALL
}

/// What the job must not say.
pub(crate) async fn redactor(rules: &Arc<Rules>, base: &Redactor, job: &Arc<Claimed>) -> Redactor {
    let (rules, base, job) = (rules.clone(), base.clone(), job.clone());
    by_size(job.payload.len(), move || rules.redactor(&base, &job.payload)).await
}

/// The end of a run without the job's secrets.
pub(crate) async fn clean(
    result: RunResult,
    rules: &Arc<Rules>,
    base: &Redactor,
    job: &Arc<Claimed>,
) -> RunResult {
    let (rules, base, job) = (rules.clone(), base.clone(), job.clone());
    let size = job.payload.len().max(result.text_bytes());
    by_size(size, move || result.redacted(&rules.redactor(&base, &job.payload))).await
}
