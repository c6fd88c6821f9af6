//! Jobs that are run by calling an endpoint over HTTP: a kind like any other, whose definition's key is its name in the
//! worker's configuration. Neither the API nor the database can name an address; only the worker's own file does.
//!
//! What is sent and what the answer means is in `docs/http-jobs.md`. The parts, each a file below: `settings` reads the
//! configuration, `request` writes and `sign` signs what is sent, `address` says where a connection may go, `call` makes it,
//! `answer` reads what came back, and `breaker` leaves an endpoint alone that keeps failing.

mod address;
mod answer;
mod breaker;
mod call;
mod request;
mod settings;

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

pub use call::Lookup;
pub use settings::{HttpEndpoint, SecretText};

use super::context::Context;
use super::handler::{AnyHandler, Run};
use super::running::Stop;
use crate::attempt::run_result::RunResult;
use crate::error::Result;
use crate::model::definition::Definition;
use crate::model::job::settle::Outcome;
use answer::CallResult;
use breaker::Breaker;
use call::Caller;

/// The longest a job keeps its slot for the sake of an endpoint that is being left alone; then it is put off.
const BREAKER_PATIENCE: Duration = Duration::from_secs(5);

/// One definition's endpoint.
pub(crate) struct HttpKind {
    key: String,
    batch: usize,
    lease: Duration,
    caller: Caller,
    breaker: Mutex<Breaker>,
}

impl HttpKind {
    /// Refuses settings that cannot work, naming them as `http.KEY.setting`.
    pub(crate) fn new(key: &str, endpoint: &HttpEndpoint) -> Result<Self> {
        let checked = endpoint.check(key)?;
        Ok(Self {
            key: key.to_owned(),
            batch: checked.batch,
            lease: checked.lease,
            caller: Caller::new(checked)?,
            breaker: Mutex::new(Breaker::default()),
        })
    }

    /// What must not appear in what is kept of its jobs.
    pub(crate) fn secrets(&self) -> &[String] {
        self.caller.secrets()
    }

    async fn run_jobs(&self, jobs: &[Context]) -> Vec<RunResult> {
        if let Err(wait) = self.breaker_opens().await {
            let put_off = || {
                let error = "its endpoint keeps failing and is being left alone for a moment";
                RunResult::of(Outcome::Snoozed { delay: wait }, error)
            };
            return jobs.iter().map(|_| put_off()).collect();
        }
        let is_batch = self.batch > 1;
        let body = request::body(jobs, is_batch);
        let id = request::id(jobs);
        // Of a batch, the first one's: a call can have only one parent.
        let trace = jobs.first().map(Context::traceparent).unwrap_or_default();
        let remaining = jobs.iter().map(Context::remaining).min().unwrap_or_default();
        let heard = self.caller.call(&body, &id, &trace, remaining).await;
        self.breaker.lock().unwrap_or_else(PoisonError::into_inner).record(
            heard.is_fault(),
            Instant::now(),
            rand::random(),
        );
        self.read(jobs, &heard, is_batch)
    }

    fn read(&self, jobs: &[Context], heard: &CallResult, is_batch: bool) -> Vec<RunResult> {
        let ids: Vec<_> = jobs.iter().map(Context::job_id).collect();
        let read = if is_batch {
            answer::read_batch(heard, &ids, self.lease)
        } else {
            vec![answer::read(heard, self.lease)]
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

    /// Waits a moment for the endpoint to be called again; how long is left otherwise.
    async fn breaker_opens(&self) -> Result<(), Duration> {
        let until = Instant::now() + BREAKER_PATIENCE;
        loop {
            let now = Instant::now();
            let wait = self.breaker.lock().unwrap_or_else(PoisonError::into_inner).ask(now);
            match wait {
                None => return Ok(()),
                Some(wait) if now + wait > until => return Err(wait),
                Some(wait) => tokio::time::sleep(wait).await,
            }
        }
    }
}

impl AnyHandler for HttpKind {
    fn definition(&self) -> Definition {
        Definition::new(self.key.as_str())
    }

    fn batch(&self) -> usize {
        self.batch
    }

    fn run(&self, jobs: Vec<Context>) -> Run<'_> {
        Box::pin(async move {
            tokio::select! {
                biased;
                finishes = self.run_jobs(&jobs) => finishes,
                () = all_stopped(&jobs) => jobs.iter().map(stopped).collect(),
            }
        })
    }
}

/// A call is given up when none of its jobs is wanted any more; dropping it closes the connection.
async fn all_stopped(jobs: &[Context]) {
    for job in jobs {
        job.stopped().await;
    }
}

fn stopped(job: &Context) -> RunResult {
    match job.switch.reason() {
        Some(Stop::Canceled) => RunResult::of(Outcome::Canceled, "canceled; the call was given up"),
        Some(Stop::LeaseLost) => RunResult::of(Outcome::Released, "the worker lost its lease"),
        Some(Stop::Shutdown) | None => RunResult::of(Outcome::Released, "the worker shut down"),
    }
}

impl std::fmt::Debug for HttpKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HttpKind").field("key", &self.key).finish_non_exhaustive()
    }
}
