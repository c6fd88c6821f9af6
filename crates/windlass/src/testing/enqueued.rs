//! Enqueued jobs, as seen by a transaction.

use jiff::Timestamp;
use uuid::Uuid;

use crate::error::{Error, Result};
use crate::model::job::state::State;
use crate::model::new_job::JobArgs;
use crate::store;

/// A job that has not ended, with its payload.
///
/// ```no_run
/// # use windlass::{Context, Done, Failure, Handler, JobArgs};
/// # #[derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
/// # struct Resize { width: u32 }
/// # impl JobArgs for Resize { const KEY: &'static str = "resize"; }
/// # struct Resizer;
/// # impl Handler for Resizer {
/// #     type Args = Resize;
/// #     async fn run(&self, _: &Context, _: Resize) -> Result<Done, Failure> { Ok(Done::new()) }
/// # }
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use windlass::testing::{self, Unfinished};
///
/// let database = testing::database().await?;
/// let client = database.client().await?;
/// let jobs: Vec<Unfinished<Resize>> = testing::enqueued(&*client).await?;
/// println!("{:?}", jobs.iter().map(|job| (job.args.width, job.priority)).collect::<Vec<_>>());
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Unfinished<A> {
    /// The id of the job.
    pub id: Uuid,
    /// The tenant of the job.
    pub tenant_id: Uuid,
    /// The state of the job.
    pub state: State,
    /// The payload.
    pub args: A,
    /// The priority; lower numbers run first.
    pub priority: i32,
    /// The name of its queue.
    pub queue: String,
    /// The earliest start.
    pub scheduled_for: Option<Timestamp>,
    /// The dedupe key.
    pub dedupe_key: Option<String>,
    /// The tags.
    pub tags: Vec<String>,
}

/// Returns the jobs of a payload type that have not ended, oldest first.
///
/// With a transaction, it also returns jobs that the transaction has enqueued and not committed. The connection must be
/// allowed to read jobs; that of [`TestDatabase::client`](super::TestDatabase::client) is.
///
/// ```no_run
/// # use windlass::{Context, Done, Failure, Handler, JobArgs};
/// # #[derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
/// # struct Resize { width: u32 }
/// # impl JobArgs for Resize { const KEY: &'static str = "resize"; }
/// # struct Resizer;
/// # impl Handler for Resizer {
/// #     type Args = Resize;
/// #     async fn run(&self, _: &Context, _: Resize) -> Result<Done, Failure> { Ok(Done::new()) }
/// # }
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use windlass::testing;
///
/// let database = testing::database().await?;
/// let client = database.client().await?;
/// assert!(testing::enqueued::<Resize, _>(&*client).await?.is_empty());
/// # Ok(())
/// # }
/// ```
pub async fn enqueued<A, C>(client: &C) -> Result<Vec<Unfinished<A>>>
where
    A: JobArgs,
    C: tokio_postgres::GenericClient + Sync,
{
    let rows = store::testing::enqueued(client, A::KEY).await?;
    rows.into_iter()
        .map(|row| {
            let unfit = |error| Error::UnexpectedResult {
                message: format!("the payload of job {} is not of its type: {error}", row.id),
            };
            Ok(Unfinished {
                id: row.id,
                tenant_id: row.tenant_id,
                state: row.state,
                args: serde_json::from_str(&row.payload).map_err(unfit)?,
                priority: row.priority,
                queue: row.queue,
                scheduled_for: row.scheduled_for,
                dedupe_key: row.dedupe_key,
                tags: row.tags,
            })
        })
        .collect()
}

/// Checks that a job with such a payload was enqueued and has not ended, and returns the first one.
///
/// # Panics
///
/// If there is none; the message shows the payloads of the definition.
///
/// ```no_run
/// # use windlass::{Context, Done, Failure, Handler, JobArgs};
/// # #[derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
/// # struct Resize { width: u32 }
/// # impl JobArgs for Resize { const KEY: &'static str = "resize"; }
/// # struct Resizer;
/// # impl Handler for Resizer {
/// #     type Args = Resize;
/// #     async fn run(&self, _: &Context, _: Resize) -> Result<Done, Failure> { Ok(Done::new()) }
/// # }
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use windlass::testing;
///
/// let database = testing::database().await?;
/// let client = database.client().await?;
/// let job = testing::assert_enqueued(&*client, |resize: &Resize| resize.width == 640).await;
/// assert_eq!(job.queue, "default");
/// # Ok(())
/// # }
/// ```
#[track_caller]
pub fn assert_enqueued<A, C>(
    client: &C,
    matches: impl Fn(&A) -> bool + Send,
) -> impl Future<Output = Unfinished<A>> + Send
where
    A: JobArgs,
    C: tokio_postgres::GenericClient + Sync,
{
    let caller = std::panic::Location::caller();
    async move {
        let jobs =
            enqueued(client).await.unwrap_or_else(|error| panic!("{caller}: cannot read the jobs: {error}"));
        let shown: Vec<String> = jobs.iter().map(|job| shown(&job.args)).collect();
        let found = jobs.into_iter().find(|job| matches(&job.args));
        found.unwrap_or_else(|| {
            panic!("{caller}: no matching job of {:?} was enqueued, only {shown:?}", A::KEY)
        })
    }
}

/// Checks that no job with such a payload is waiting or running.
///
/// # Panics
///
/// If there is one.
///
/// ```no_run
/// # use windlass::{Context, Done, Failure, Handler, JobArgs};
/// # #[derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
/// # struct Resize { width: u32 }
/// # impl JobArgs for Resize { const KEY: &'static str = "resize"; }
/// # struct Resizer;
/// # impl Handler for Resizer {
/// #     type Args = Resize;
/// #     async fn run(&self, _: &Context, _: Resize) -> Result<Done, Failure> { Ok(Done::new()) }
/// # }
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use windlass::testing;
///
/// let database = testing::database().await?;
/// let client = database.client().await?;
/// testing::assert_not_enqueued(&*client, |resize: &Resize| resize.width == 0).await;
/// # Ok(())
/// # }
/// ```
#[track_caller]
pub fn assert_not_enqueued<A, C>(
    client: &C,
    matches: impl Fn(&A) -> bool + Send,
) -> impl Future<Output = ()> + Send
where
    A: JobArgs,
    C: tokio_postgres::GenericClient + Sync,
{
    let caller = std::panic::Location::caller();
    async move {
        let jobs =
            enqueued(client).await.unwrap_or_else(|error| panic!("{caller}: cannot read the jobs: {error}"));
        if let Some(job) = jobs.iter().find(|job| matches(&job.args)) {
            panic!("{caller}: job {} of {:?} was enqueued: {}", job.id, A::KEY, shown(&job.args));
        }
    }
}

fn shown(args: &impl JobArgs) -> String {
    serde_json::to_string(args).unwrap_or_else(|error| error.to_string())
}
