//! What an application writes: a type with a key, typed arguments and a `run`.

use std::future::Future;
use std::pin::Pin;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;

use super::context::Context;
use crate::attempt::done::{Done, Failure};
use crate::attempt::run_result::RunResult;
use crate::model::definition::Definition;
use crate::model::job::settle::Retry;

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

pub(crate) type Run<'a> = Pin<Box<dyn Future<Output = Vec<RunResult>> + Send + 'a>>;

/// A handler of either kind, with its types erased.
pub(crate) trait AnyHandler: Send + Sync {
    fn definition(&self) -> Definition;
    fn batch(&self) -> usize;
    /// Whether it ends its runs itself, in time, when their time-out passes or they are told to stop.
    fn ends_by_itself(&self) -> bool {
        false
    }
    /// Answers one result per job, in order.
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
            let mut results = Vec::with_capacity(jobs.len());
            for job in jobs {
                results.push(match parse(&job) {
                    Ok(args) => self.0.run(&job, args).await.into(),
                    Err(refused) => *refused,
                });
            }
            results
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
            let mut results: Vec<Option<RunResult>> = Vec::with_capacity(jobs.len());
            let mut good = Vec::with_capacity(jobs.len());
            for job in jobs {
                match parse(&job) {
                    Ok(args) => {
                        results.push(None);
                        good.push((job, args));
                    }
                    Err(refused) => results.push(Some(*refused)),
                }
            }
            let mut answers = if good.is_empty() { Vec::new() } else { self.0.run(good).await }.into_iter();
            results
                .into_iter()
                .map(|result| {
                    result.or_else(|| answers.next().map(RunResult::from)).unwrap_or_else(|| {
                        RunResult::failed(Retry::ByPolicy, "the batch handler gave no answer for this job")
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

fn parse<A: DeserializeOwned>(job: &Context) -> Result<A, Box<RunResult>> {
    serde_json::from_str(job.payload()).map_err(|error| {
        let error = format!("the payload does not fit its arguments: {error}");
        Box::new(RunResult::failed(Retry::Permanent, error))
    })
}
