//! What an application writes: a type with a key, typed arguments and a `run`.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::context::Context;
use crate::definition::Definition;
use crate::job::settle::{Outcome, Retry};
use crate::json::JsonLimits;
use crate::new_job::NewJob;
use crate::redact::Redactor;
use crate::store::job::Report;
use crate::text;

/// Runs jobs of one definition, one at a time per call; many calls run at once. Its fields are its shared state.
pub trait Handler: Send + Sync + 'static {
    /// The definition's key: what jobs name.
    const KEY: &'static str;
    /// The payload's type. Its JSON Schema becomes the definition's, and payloads are checked against it.
    type Args: DeserializeOwned + JsonSchema + Send;

    fn run(&self, job: &Context, args: Self::Args) -> impl Future<Output = Result<Done, Failure>> + Send;

    /// The definition to register, without its schema. Override it to set policies.
    fn definition(&self) -> Definition {
        Definition::new(Self::KEY)
    }
}

/// Runs several jobs of one definition in one call.
pub trait BatchHandler: Send + Sync + 'static {
    const KEY: &'static str;
    /// The most jobs one call gets. It gets fewer when fewer are there: it is never kept waiting for more.
    const BATCH: usize;
    type Args: DeserializeOwned + JsonSchema + Send;

    /// Answers for each job, in the order given. A job without an answer counts as failed.
    fn run(
        &self,
        jobs: Vec<(Context, Self::Args)>,
    ) -> impl Future<Output = Vec<Result<Done, Failure>>> + Send;

    fn definition(&self) -> Definition {
        Definition::new(Self::KEY)
    }
}

/// How many jobs one completion may enqueue. They are written in the same transaction as the completion, and it must stay short.
pub(crate) const MOST_NEXT: usize = 1000;

/// A run that did not fail: success, with what it leaves behind, or a wish to be run again later.
#[derive(Debug, Default)]
pub struct Done {
    pub(crate) result: Option<String>,
    pub(crate) artifact: Option<String>,
    pub(crate) next: Vec<NewJob>,
    pub(crate) snooze: Option<Duration>,
    pub(crate) is_settled: bool,
    /// The attempt is not over: it goes on elsewhere, under a lease of this length.
    pub(crate) hand_over: Option<Duration>,
}

impl Done {
    pub fn new() -> Self {
        Self::default()
    }

    /// Kept with the job. Whatever it holds can be stored: what Postgres cannot keep is replaced, too much is dropped.
    #[must_use]
    pub fn result(mut self, result: &impl Serialize) -> Self {
        self.result = Some(storable(result));
        self
    }

    /// A reference to what the job made, kept only with success.
    #[must_use]
    pub fn artifact(mut self, artifact: &impl Serialize) -> Self {
        self.artifact = Some(storable(artifact));
        self
    }

    /// A job to enqueue in the same statement that records this success: both or neither. One success may enqueue up to 1,000
    /// jobs; with more, or if one of them is refused (the tenant's quota is full, the definition is gone), the attempt fails.
    #[must_use]
    pub fn then(mut self, job: NewJob) -> Self {
        self.next.push(job);
        self
    }

    /// Not done yet: run me again after this time. Charges no attempt; the definition's `max_snoozes` and the job's
    /// deadline bound it.
    pub fn snooze(delay: Duration) -> Self {
        Self { snooze: Some(delay), ..Self::default() }
    }

    /// A job that should follow and cannot be is an error of this run, not something to leave out.
    pub(crate) fn check(&self) -> crate::Result<()> {
        if self.next.len() > MOST_NEXT {
            let message =
                format!("a job may be followed by at most {MOST_NEXT} others, not {}", self.next.len());
            return Err(crate::Error::refused("next", message));
        }
        self.next.iter().try_for_each(|job| job.payload_text().map(drop))
    }
}

fn storable(value: &impl Serialize) -> String {
    text::storable_json(value, &JsonLimits::default())
}

/// A run that failed, and what that means for the job.
#[derive(Debug)]
pub struct Failure {
    pub(crate) error: String,
    pub(crate) retry: Retry,
}

impl Failure {
    /// Try again as the definition's backoff says, while attempts are left.
    pub fn retry(error: impl std::fmt::Display) -> Self {
        Self { error: error.to_string(), retry: Retry::ByPolicy }
    }

    /// Try again after this time, while attempts are left.
    pub fn retry_after(delay: Duration, error: impl std::fmt::Display) -> Self {
        Self { error: error.to_string(), retry: Retry::After(delay) }
    }

    /// Never try again.
    pub fn permanent(error: impl std::fmt::Display) -> Self {
        Self { error: error.to_string(), retry: Retry::Permanent }
    }
}

/// Any error is worth a retry unless the handler says otherwise.
impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Self {
        let mut message = error.to_string();
        let mut cause = error.source();
        while let Some(error) = cause {
            message.push_str(&format!(": {error}"));
            cause = error.source();
        }
        Self { error: message, retry: Retry::ByPolicy }
    }
}

/// How one job's run went, before anything is decided.
#[derive(Debug)]
pub(crate) struct Finish {
    pub(crate) outcome: Outcome,
    pub(crate) error: Option<String>,
    pub(crate) done: Done,
    /// What the attempt leaves behind beside its outcome, if a process ran.
    pub(crate) facts: Option<Box<Facts>>,
    /// The run's last word of how far it was.
    pub(crate) progress: Option<Report>,
}

/// What is known of the process that ran an attempt.
#[derive(Debug, Default)]
pub(crate) struct Facts {
    pub(crate) pid: Option<i32>,
    pub(crate) exit_code: Option<i32>,
    pub(crate) signal: Option<i32>,
    pub(crate) max_rss_kb: Option<i64>,
    /// Clean, redacted and cut already.
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Finish {
    pub(crate) fn failed(retry: Retry, error: impl Into<String>) -> Self {
        Self {
            outcome: Outcome::Failed { retry },
            error: Some(error.into()),
            done: Done::default(),
            facts: None,
            progress: None,
        }
    }

    pub(crate) fn of(outcome: Outcome, error: impl Into<String>) -> Self {
        Self { outcome, error: Some(error.into()), done: Done::default(), facts: None, progress: None }
    }

    /// Whether there is anything in it that could hold a secret.
    pub(crate) fn has_texts(&self) -> bool {
        self.error.is_some() || self.done.result.is_some() || self.done.artifact.is_some()
    }

    /// How long its texts are.
    pub(crate) fn text_bytes(&self) -> usize {
        let texts = [&self.error, &self.done.result, &self.done.artifact];
        texts.into_iter().flatten().map(String::len).sum()
    }

    /// The same without secrets in its texts. What follows is left as it is: a job whose payload lost a part would run wrong.
    pub(crate) fn redacted(mut self, redactor: &Redactor) -> Self {
        if redactor.is_empty() {
            return self;
        }
        self.error = self.error.map(|error| redactor.text(&error).into_owned());
        self.done.result = self.done.result.map(|result| redactor.json_text(&result).into_owned());
        self.done.artifact = self.done.artifact.map(|artifact| redactor.json_text(&artifact).into_owned());
        self
    }
}

impl From<Result<Done, Failure>> for Finish {
    fn from(answer: Result<Done, Failure>) -> Self {
        match answer {
            Err(failure) => Self::failed(failure.retry, failure.error),
            Ok(done) => {
                if let Err(error) = done.check() {
                    return Self::failed(
                        Retry::ByPolicy,
                        format!("the jobs that should follow could not be enqueued: {error}"),
                    );
                }
                let outcome = done.snooze.map_or(Outcome::Succeeded, |delay| Outcome::Snoozed { delay });
                Self { outcome, error: None, done, facts: None, progress: None }
            }
        }
    }
}

pub(crate) type Run<'a> = Pin<Box<dyn Future<Output = Vec<Finish>> + Send + 'a>>;

/// A handler of either kind, with its types erased.
pub(crate) trait AnyHandler: Send + Sync {
    fn definition(&self) -> Definition;
    fn batch(&self) -> usize;
    /// Whether it ends its runs itself, in time, when their time-out passes or they are told to stop.
    fn ends_by_itself(&self) -> bool {
        false
    }
    /// Answers one finish per job, in order.
    fn run(&self, jobs: Vec<Context>) -> Run<'_>;
}

pub(crate) struct One<H>(pub(crate) H);
pub(crate) struct Many<H>(pub(crate) H);

impl<H: Handler> AnyHandler for One<H> {
    fn definition(&self) -> Definition {
        with_schema::<H::Args>(self.0.definition())
    }

    fn batch(&self) -> usize {
        1
    }

    fn run(&self, jobs: Vec<Context>) -> Run<'_> {
        Box::pin(async move {
            let mut finishes = Vec::with_capacity(jobs.len());
            for job in jobs {
                finishes.push(match parse(&job) {
                    Ok(args) => self.0.run(&job, args).await.into(),
                    Err(refused) => *refused,
                });
            }
            finishes
        })
    }
}

impl<H: BatchHandler> AnyHandler for Many<H> {
    fn definition(&self) -> Definition {
        with_schema::<H::Args>(self.0.definition())
    }

    fn batch(&self) -> usize {
        H::BATCH.max(1)
    }

    fn run(&self, jobs: Vec<Context>) -> Run<'_> {
        Box::pin(async move {
            let mut finishes: Vec<Option<Finish>> = Vec::with_capacity(jobs.len());
            let mut good = Vec::with_capacity(jobs.len());
            for job in jobs {
                match parse(&job) {
                    Ok(args) => {
                        finishes.push(None);
                        good.push((job, args));
                    }
                    Err(refused) => finishes.push(Some(*refused)),
                }
            }
            let mut answers = if good.is_empty() { Vec::new() } else { self.0.run(good).await }.into_iter();
            finishes
                .into_iter()
                .map(|finish| {
                    finish.or_else(|| answers.next().map(Finish::from)).unwrap_or_else(|| {
                        Finish::failed(Retry::ByPolicy, "the batch handler gave no answer for this job")
                    })
                })
                .collect()
        })
    }
}

fn with_schema<A: JsonSchema>(definition: Definition) -> Definition {
    if definition.arg_schema.is_some() {
        return definition;
    }
    definition.arg_schema(schemars::schema_for!(A).to_value())
}

fn parse<A: DeserializeOwned>(job: &Context) -> Result<A, Box<Finish>> {
    serde_json::from_str(job.payload()).map_err(|error| {
        let error = format!("the payload does not fit its arguments: {error}");
        Box::new(Finish::failed(Retry::Permanent, error))
    })
}
