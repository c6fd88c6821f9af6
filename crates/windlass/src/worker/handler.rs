//! The interface of an application: a type with a key, typed arguments and a `run`.

use std::future::Future;
use std::pin::Pin;

use serde::de::DeserializeOwned;

use super::context::Context;
use crate::attempt::done::{Done, Failure};
use crate::attempt::run_result::RunResult;
use crate::model::definition::Definition;
use crate::model::job::settle::Retry;
use crate::model::new_job::JobArgs;

/// Runs the jobs of one payload type, one job per call; many calls run at once. Its fields are shared by all calls.
///
/// ```
/// use std::time::Duration;
/// use windlass::job::{Backoff, OnTimeout};
/// use windlass::{Context, Definition, Done, Failure, Handler, JobArgs};
///
/// #[derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
/// struct Resize {
///     image: i64,
///     width: u32,
/// }
///
/// impl JobArgs for Resize {
///     const KEY: &'static str = "resize";
/// }
///
/// struct Resizer {
///     largest: u32,
/// }
///
/// impl Handler for Resizer {
///     type Args = Resize;
///
///     async fn run(&self, job: &Context, args: Resize) -> Result<Done, Failure> {
///         if args.width > self.largest {
///             return Err(Failure::permanent("too wide"));
///         }
///         job.log("resized");
///         Ok(Done::new())
///     }
///
///     // The policies of these jobs; omit it for the defaults.
///     fn definition(&self) -> Definition {
///         Definition::of::<Resize>()
///             .max_attempts(5)
///             .backoff(Backoff::fixed(Duration::from_secs(10)))
///             .timeout(Duration::from_secs(60), OnTimeout::Retry)
///     }
/// }
/// ```
///
/// A payload that does not fit `Args` fails permanently without a call.
pub trait Handler: Send + Sync + 'static {
    /// The payload type. It names the definition, and its JSON Schema becomes the definition's.
    type Args: JobArgs;

    /// Runs one job. An error is retried by the definition's policy unless the [`Failure`] specifies otherwise.
    fn run(&self, job: &Context, args: Self::Args) -> impl Future<Output = Result<Done, Failure>> + Send;

    /// Returns the definition to register when a worker starts. Override it to set policies.
    fn definition(&self) -> Definition {
        Definition::of::<Self::Args>()
    }
}

/// Runs several jobs of one payload type and one tenant in one call. A job whose own deadline is earlier than the timeout
/// of its definition has a call of its own, because a call ends at the first deadline of its jobs.
///
/// ```
/// use windlass::{BatchHandler, Context, Done, Failure, JobArgs};
///
/// #[derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
/// struct Index {
///     document: i64,
/// }
///
/// impl JobArgs for Index {
///     const KEY: &'static str = "index";
/// }
///
/// struct Indexer;
///
/// impl BatchHandler for Indexer {
///     const BATCH: usize = 100;
///     type Args = Index;
///
///     async fn run(&self, jobs: Vec<(Context, Index)>) -> Vec<Result<Done, Failure>> {
///         // One request for all of them, then one result for each.
///         jobs.iter().map(|_| Ok(Done::new())).collect()
///     }
/// }
/// ```
pub trait BatchHandler: Send + Sync + 'static {
    /// The maximum number of jobs per call. A call gets fewer jobs if fewer are queued: it never waits for more.
    const BATCH: usize;
    /// The payload type. It names the definition, and its JSON Schema becomes the definition's.
    type Args: JobArgs;

    /// Runs the jobs and returns a result for each, in the same order. A job without a result counts as failed.
    fn run(
        &self,
        jobs: Vec<(Context, Self::Args)>,
    ) -> impl Future<Output = Vec<Result<Done, Failure>>> + Send;

    /// Returns the definition to register when a worker starts. Override it to set policies.
    fn definition(&self) -> Definition {
        Definition::of::<Self::Args>()
    }
}

pub(crate) type RunFuture<'a> = Pin<Box<dyn Future<Output = Vec<RunResult>> + Send + 'a>>;

/// A handler of either kind, with its types erased.
pub(crate) trait AnyHandler: Send + Sync {
    fn definition(&self) -> Definition;
    fn batch(&self) -> usize;
    /// Whether it ends its runs itself, in time, when their timeout passes or they are requested to stop.
    fn ends_by_itself(&self) -> bool {
        false
    }
    /// Returns one result per job, in order.
    fn run(&self, jobs: Vec<Context>) -> RunFuture<'_>;
}

pub(crate) struct One<H>(pub(crate) H);
pub(crate) struct Many<H>(pub(crate) H);

impl<H: Handler> AnyHandler for One<H> {
    fn definition(&self) -> Definition {
        self.0.definition().with_schema_of::<H::Args>()
    }

    fn batch(&self) -> usize {
        1
    }

    fn run(&self, jobs: Vec<Context>) -> RunFuture<'_> {
        Box::pin(run_each(&self.0, jobs))
    }
}

/// Runs jobs one after the other; returns one result per job, in order.
pub(crate) async fn run_each<H: Handler>(handler: &H, jobs: Vec<Context>) -> Vec<RunResult> {
    let mut results = Vec::with_capacity(jobs.len());
    for job in jobs {
        results.push(match parse(&job) {
            Ok(args) => handler.run(&job, args).await.into(),
            Err(refused) => *refused,
        });
    }
    results
}

impl<H: BatchHandler> AnyHandler for Many<H> {
    fn definition(&self) -> Definition {
        self.0.definition().with_schema_of::<H::Args>()
    }

    fn batch(&self) -> usize {
        H::BATCH.max(1)
    }

    fn run(&self, jobs: Vec<Context>) -> RunFuture<'_> {
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
            let mut returned = if good.is_empty() { Vec::new() } else { self.0.run(good).await }.into_iter();
            results
                .into_iter()
                .map(|result| {
                    result.or_else(|| returned.next().map(RunResult::from)).unwrap_or_else(|| {
                        RunResult::failed(
                            Retry::ByPolicy,
                            "the batch handler returned no result for this job",
                        )
                    })
                })
                .collect()
        })
    }
}

fn parse<A: DeserializeOwned>(job: &Context) -> Result<A, Box<RunResult>> {
    serde_json::from_str(job.payload()).map_err(|error| {
        let error = format!("the payload does not match the argument type: {error}");
        Box::new(RunResult::failed(Retry::Permanent, error))
    })
}
