//! A temporary database with a queue: run everything that is due, and let time pass.

use std::time::Duration;

use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;
use uuid::Uuid;

use crate::error::Result;
use crate::keeper::{Keeper, KeeperSettings};
use crate::model::duty::Duty;
use crate::model::job::state::State;
use crate::queue::Queue;
use crate::setup::throwaway::{Throwaway, server_url};
use crate::store;
use crate::store::connect::{self, Connection};
use crate::store::database::Settings;
use crate::telemetry::Transition;
use crate::worker::{Worker, WorkerBuilder};

/// Creates a migrated database on the server of `DATABASE_URL`, or on an embedded Postgres, and connects to it.
///
/// ```no_run
/// # async fn example() -> windlass::Result<()> {
/// let database = windlass::testing::database().await?;
/// database.queue().define(&windlass::Definition::new("resize")).await?;
/// # Ok(())
/// # }
/// ```
pub async fn database() -> Result<TestDatabase> {
    TestDatabase::create_on(&server_url().await?).await
}

/// A migrated database that is dropped with this value.
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
/// use std::time::Duration;
/// use windlass::JobArgs;
/// use windlass::testing::TestDatabase;
///
/// let database = TestDatabase::create_on("postgresql://localhost/postgres").await?;
/// let client = database.client().await?;
/// println!("{} at {}", client.query_one("select current_database()", &[]).await?.get::<_, &str>(0), database.url());
///
/// database.queue().define(&windlass::Definition::of::<Resize>()).await?;
/// database.queue().enqueue(Resize { width: 640 }.job().delay(Duration::from_secs(60))).await?;
/// database.advance(Duration::from_secs(60)).await?;
/// let ended = database.drain(|worker| worker.handler(Resizer)).await?;
/// assert_eq!(ended.len(), 1);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct TestDatabase {
    queue: Queue,
    settings: Settings,
    throwaway: Throwaway,
}

/// A job that [`TestDatabase::drain`] ran to an end of its attempt.
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
/// let database = windlass::testing::database().await?;
/// for job in database.drain(|worker| worker.handler(Resizer)).await? {
///     println!("attempt {} of {}: {}", job.attempt, job.definition_key, job.state);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct DrainedJob {
    /// The id of the job.
    pub id: Uuid,
    /// The tenant of the job.
    pub tenant_id: Uuid,
    /// The key of its definition.
    pub definition_key: String,
    /// The number of the attempt.
    pub attempt: i32,
    /// The state of the job after the attempt.
    pub state: State,
}

impl DrainedJob {
    /// Returns the job if this transition ended an attempt.
    fn of(moved: &Transition) -> Option<Self> {
        (moved.from == State::Running).then(|| Self {
            id: moved.job_id,
            tenant_id: moved.tenant_id,
            definition_key: moved.definition_key.to_string(),
            attempt: moved.attempt_no,
            state: moved.to,
        })
    }
}

impl TestDatabase {
    /// Creates one on the server of this URL, whose login must be allowed to create databases and roles.
    pub async fn create_on(server_url: &str) -> Result<Self> {
        let throwaway = Throwaway::migrated(server_url).await?;
        let settings = Settings::new(throwaway.url())?.connections(4);
        Ok(Self { queue: Queue::connect(settings.clone()).await?, settings, throwaway })
    }

    /// Returns the queue.
    pub fn queue(&self) -> &Queue {
        &self.queue
    }

    /// Returns the URL, for other drivers and programs.
    pub fn url(&self) -> &str {
        self.throwaway.url()
    }

    /// Opens a connection to it.
    pub async fn client(&self) -> Result<TestClient> {
        Ok(TestClient(connect::open(&self.settings.direct).await?))
    }

    /// Runs everything that is due with these handlers, and returns the attempts in the order in which they ended.
    ///
    /// It ends when no job of these definitions is queued, running, or scheduled for an instant that has passed. Jobs
    /// that a job, an event or a due schedule enqueues are run as well. Jobs that are due later, such as a retry, are
    /// not run: [`Self::advance`] makes them due.
    pub async fn drain(
        &self,
        handlers: impl FnOnce(WorkerBuilder) -> WorkerBuilder,
    ) -> Result<Vec<DrainedJob>> {
        let often = Duration::from_millis(20);
        let builder = handlers(Worker::builder(&self.queue).poll_interval(often).without_keeper());
        let keys = builder.keys();
        let worker = builder.start().await?;
        let mut moves = worker.subscribe();
        let keeper = Keeper::new(self.queue.clone(), KeeperSettings::default());
        let mut client = self.client().await?;
        let mut ran = Vec::new();
        loop {
            for duty in [Duty::Schedule, Duty::Dispatch, Duty::Promote, Duty::Unblock, Duty::Expire] {
                while keeper.run_once(duty).await?.is_full {}
            }
            if store::testing::due(&mut client.0.client, &keys).await? == 0 {
                break;
            }
            // Only for a moment, because another job may become due meanwhile.
            let _ = tokio::time::timeout(often, collect(&mut moves, &mut ran)).await;
        }
        worker.stop().await?;
        while let Ok(moved) = moves.try_recv() {
            ran.extend(DrainedJob::of(&moved));
        }
        Ok(ran)
    }

    /// Lets time pass for waiting jobs: moves every start time, retry delay, snooze, deadline and dedupe window of this
    /// database into the past by this duration, and returns how many scheduled jobs were moved.
    ///
    /// The clock of the database does not change, so the recorded times do not change either. Schedules are not moved:
    /// fire one with [`Queue::run_trigger`]. The next [`Self::drain`] runs the jobs that are due afterwards.
    pub async fn advance(&self, by: Duration) -> Result<u64> {
        store::testing::advance(&mut self.client().await?.0.client, by).await
    }
}

/// Adds every end of an attempt until there are no more transitions.
async fn collect(moves: &mut broadcast::Receiver<Transition>, ran: &mut Vec<DrainedJob>) {
    loop {
        match moves.recv().await {
            Ok(moved) => ran.extend(DrainedJob::of(&moved)),
            Err(RecvError::Lagged(_)) => {}
            Err(RecvError::Closed) => return,
        }
    }
}

/// A connection to a [`TestDatabase`]; it closes when it is dropped.
///
/// ```no_run
/// # async fn example(database: &windlass::testing::TestDatabase) -> Result<(), Box<dyn std::error::Error>> {
/// let mut client = database.client().await?;
/// let tx = client.transaction().await?;
/// windlass::enqueue_in(&tx, &windlass::NewJob::new("resize")).await?;
/// // Dropping the transaction rolls it back.
/// # Ok(())
/// # }
/// ```
pub struct TestClient(Connection);

impl std::ops::Deref for TestClient {
    type Target = tokio_postgres::Client;

    fn deref(&self) -> &Self::Target {
        &self.0.client
    }
}

impl std::ops::DerefMut for TestClient {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0.client
    }
}

impl std::fmt::Debug for TestClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TestClient").finish_non_exhaustive()
    }
}
