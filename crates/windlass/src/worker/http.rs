//! Jobs that run by calling an HTTP endpoint: a handler like any other, whose definition's key is its name in the
//! worker's configuration. Neither the API nor the database can specify an address; only the worker's own file can.
//!
//! `docs/http-jobs.md` describes the request and the response. The parts are the files below: `settings` reads the
//! configuration, `request` builds the request, `address` decides which addresses a connection may use, `call` sends
//! it, `response` reads the response, and `breaker` pauses calls to an endpoint that keeps failing.

mod address;
mod breaker;
mod call;
mod request;
mod response;
mod settings;

use std::time::Duration;

pub use call::Lookup;
pub use settings::{HttpEndpoint, SecretText};

use super::context::Context;
use super::handler::{AnyHandler, RunFuture};
use super::running::Stop;
use crate::attempt::run_result::RunResult;
use crate::error::Result;
use crate::model::definition::Definition;
use crate::model::job::settle::Outcome;
use breaker::{Breakers, Health};
use call::Caller;
use response::{CallFault, CallResult};

/// One definition's endpoint.
pub(crate) struct HttpKind {
    key: String,
    batch: usize,
    lease: Duration,
    caller: Caller,
    breakers: Breakers,
}

impl HttpKind {
    /// Refuses invalid settings, with their names as `http.KEY.setting`.
    pub(crate) fn new(key: &str, endpoint: &HttpEndpoint) -> Result<Self> {
        let checked = endpoint.check(key)?;
        Ok(Self {
            key: key.to_owned(),
            batch: checked.batch,
            lease: checked.lease,
            caller: Caller::new(checked)?,
            breakers: Breakers::default(),
        })
    }

    /// Returns the secrets to be redacted in everything that is stored of its jobs.
    pub(crate) fn secrets(&self) -> &[String] {
        self.caller.secrets()
    }

    async fn run_jobs(&self, jobs: &[Context]) -> Vec<RunResult> {
        // All jobs of a call have the same tenant.
        let tenant = jobs.first().map(Context::tenant_id).unwrap_or_default();
        let mut admitted = match self.breakers.admit(tenant).await {
            Ok(admitted) => admitted,
            Err(wait) => {
                let snoozed = || {
                    let error = "the endpoint keeps failing and is not called for a while";
                    RunResult::of(Outcome::Snoozed { delay: wait }, error)
                };
                return jobs.iter().map(|_| snoozed()).collect();
            }
        };
        let has_own_deadline = jobs.iter().any(Context::has_own_deadline);
        if !has_own_deadline {
            admitted.fails_at(jobs.iter().map(Context::deadline).min());
        }
        let is_batch = self.batch > 1;
        let body = request::body(jobs, is_batch);
        let id = request::id(jobs);
        // For a batch, that of the first job: a call can have only one parent.
        let trace = jobs.first().map(Context::traceparent).unwrap_or_default();
        let remaining = jobs.iter().map(Context::remaining).min().unwrap_or_default();
        let response = self.caller.call(&body, &id, &trace, remaining).await;
        let is_cut_off = has_own_deadline && remaining < self.caller.timeout();
        admitted.end(match &response {
            CallResult::Fault(CallFault::Late(_)) if is_cut_off => Health::Unknown,
            response if response.is_fault() => Health::Failing,
            _ => Health::Good,
        });
        self.read(jobs, &response, is_batch)
    }

    fn read(&self, jobs: &[Context], response: &CallResult, is_batch: bool) -> Vec<RunResult> {
        let ids: Vec<_> = jobs.iter().map(Context::job_id).collect();
        let read = if is_batch {
            response::read_batch(response, &ids, self.lease)
        } else {
            vec![response::read(response, self.lease)]
        };
        jobs.iter()
            .zip(read)
            .map(|(job, (finish, progress))| {
                if let Some(progress) = progress {
                    job.progress(
                        progress.percent.unwrap_or(f32::NAN),
                        progress.message.as_deref().unwrap_or(""),
                    );
                }
                finish
            })
            .collect()
    }
}

impl AnyHandler for HttpKind {
    fn definition(&self) -> Definition {
        Definition::new(self.key.as_str())
    }

    fn batch(&self) -> usize {
        self.batch
    }

    fn run(&self, jobs: Vec<Context>) -> RunFuture<'_> {
        Box::pin(async move {
            tokio::select! {
                biased;
                finishes = self.run_jobs(&jobs) => finishes,
                () = all_stopped(&jobs) => jobs.iter().map(stopped).collect(),
            }
        })
    }
}

/// Aborts a call when all of its jobs were stopped; dropping it closes the connection.
async fn all_stopped(jobs: &[Context]) {
    for job in jobs {
        job.stopped().await;
    }
}

fn stopped(job: &Context) -> RunResult {
    RunResult::stopped(job.switch.reason().unwrap_or(Stop::Shutdown))
}

impl std::fmt::Debug for HttpKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HttpKind").field("key", &self.key).finish_non_exhaustive()
    }
}
