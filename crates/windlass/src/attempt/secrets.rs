//! Removes a job's secrets from the output of its run. The time to build and to apply a redactor depends on texts that
//! tenants choose, so long ones are processed on a blocking thread.

use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

use super::run_result::RunResult;
use crate::blocking::{self, by_size};
use crate::model::job::claimed::Claimed;
use crate::text::redact::{Redactor, Rules};

/// The redactor of one job. Most jobs produce no text, so it is built with the first one.
#[derive(Debug)]
pub(crate) struct JobRedactor {
    base: Redactor,
    rules: Arc<Rules>,
    made: OnceLock<Redactor>,
    /// The lines of the log are inside a private key.
    is_in_key: Mutex<bool>,
}

impl JobRedactor {
    pub(crate) fn new(base: Redactor, rules: Arc<Rules>) -> Self {
        Self { base, rules, made: OnceLock::new(), is_in_key: Mutex::default() }
    }

    /// Builds it now. For long payloads, because the first text may be produced in code that cannot wait.
    pub(crate) async fn prepare(&self, job: &Arc<Claimed>) {
        let _ = self.made.set(redactor(&self.rules, &self.base, job).await);
    }

    /// Redacts the next line of the log.
    pub(crate) fn line<'a>(&self, job: &Claimed, line: &'a str) -> Cow<'a, str> {
        let mut is_in_key = self.is_in_key.lock();
        self.get(job).part(line, &mut is_in_key)
    }

    pub(crate) fn get(&self, job: &Claimed) -> &Redactor {
        self.made.get_or_init(|| self.rules.redactor(&self.base, &job.payload))
    }
}

pub(crate) fn is_long(job: &Claimed) -> bool {
    job.payload.len() >= blocking::SMALL
}

/// Returns the redactor of the job.
pub(crate) async fn redactor(rules: &Arc<Rules>, base: &Redactor, job: &Arc<Claimed>) -> Redactor {
    let (rules, base, job) = (rules.clone(), base.clone(), job.clone());
    by_size(job.payload.len(), move || rules.redactor(&base, &job.payload)).await
}

/// Removes the job's secrets from the result of a run.
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
