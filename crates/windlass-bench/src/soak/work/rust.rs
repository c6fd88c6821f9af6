//! The worker in Rust: a process of this program (`windlass-bench soak-worker`), with the handlers of most definitions.
//!
//! How it stops: SIGTERM stops the worker gracefully.

use std::path::Path;
use std::process;
use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::signal::unix::{SignalKind, signal};
use tokio_postgres::NoTls;
use uuid::Uuid;
use windlass::job::{Backoff, OnTimeout, State};
use windlass::worker::Completion;
use windlass::{Context, Definition, Done, Failure, Handler, JobArgs, NewJob, Queue, Settings, Worker};

use super::{
    Act, BRIEF, CHILD, CONCURRENCY, EFFECT, EVENT, LEASE_SECONDS, LIMITED, MAX_ATTEMPTS, MAX_LOST,
    MAX_RUNNING, Payload, TICK, WORK,
};
use crate::Result;
use crate::soak::ledger::{Fact, Kind, Ledger};

/// The first argument of the process; it is not meant for people.
pub(crate) const PROCESS: &str = "soak-worker";

/// The database is that of `DATABASE_URL`; the argument is the file of the ledger.
pub(crate) async fn run(ledger: &Path) -> Result<()> {
    let url = std::env::var("DATABASE_URL")?;
    let mut terminate = signal(SignalKind::terminate())?;
    let ledger = Arc::new(Ledger::open(ledger)?);
    let queue = Queue::connect(Settings::new(&url)?).await?;
    let mut builder = Worker::builder(&queue)
        .concurrency(CONCURRENCY)
        .lease(Duration::from_secs(LEASE_SECONDS))
        .heartbeat(Duration::from_secs(1))
        .grace(Duration::from_secs(3))
        .without_keeper();
    builder = builder
        .handler(Plain::<Work> { ledger: ledger.clone(), args: std::marker::PhantomData })
        .handler(Plain::<Limited> { ledger: ledger.clone(), args: std::marker::PhantomData })
        .handler(Plain::<Brief> { ledger: ledger.clone(), args: std::marker::PhantomData })
        .handler(Plain::<Event> { ledger: ledger.clone(), args: std::marker::PhantomData })
        .handler(Plain::<Tick> { ledger: ledger.clone(), args: std::marker::PhantomData })
        .handler(Plain::<Child> { ledger: ledger.clone(), args: std::marker::PhantomData })
        .handler(Effect { ledger, url });
    let worker = builder.start().await?;
    terminate.recv().await;
    worker.stop().await?;
    Ok(())
}

/// Every definition of the soak, whatever runs it. Retries follow soon, and a job can be lost more often than by default, because
/// workers are killed all the time.
pub(crate) fn definition(key: &str) -> Definition {
    let definition = Definition::new(key)
        .backoff(Backoff::fixed(Duration::from_millis(500)))
        // A handler whose own connection hangs ends by its timeout.
        .timeout(Duration::from_secs(15), OnTimeout::Retry)
        .max_attempts(MAX_ATTEMPTS)
        .max_lost(MAX_LOST);
    match key {
        LIMITED => definition.max_running(MAX_RUNNING),
        BRIEF => definition.retention(State::Succeeded, Duration::from_secs(2)),
        _ => definition,
    }
}

macro_rules! payloads {
    ($($name:ident = $key:expr),*) => {$(
        #[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
        #[serde(transparent)]
        struct $name(Payload);

        impl JobArgs for $name {
            const KEY: &'static str = $key;
        }

        impl From<$name> for Payload {
            fn from(args: $name) -> Self {
                args.0
            }
        }
    )*};
}

payloads!(
    Work = WORK,
    Limited = LIMITED,
    Brief = BRIEF,
    Event = EVENT,
    Tick = TICK,
    Child = CHILD,
    EffectArgs = EFFECT
);

/// Notes the end when it is dropped, so also for a run that is stopped.
struct Run<'a> {
    ledger: &'a Ledger,
    job: Uuid,
    attempt: i32,
    is_success: bool,
}

impl<'a> Run<'a> {
    fn start(ledger: &'a Ledger, job: &Context) -> Self {
        let run = Self { ledger, job: job.job_id(), attempt: job.attempt(), is_success: false };
        let Self { job, attempt, .. } = run;
        ledger.note(Fact::Started { job, attempt, pid: process::id(), kind: Kind::Rust });
        run
    }
}

impl Drop for Run<'_> {
    fn drop(&mut self) {
        let Self { job, attempt, is_success, .. } = *self;
        self.ledger.note(Fact::Ended { job, attempt, pid: process::id(), is_success });
    }
}

struct Plain<A> {
    ledger: Arc<Ledger>,
    args: std::marker::PhantomData<fn() -> A>,
}

impl<A: JobArgs + Into<Payload> + Send + 'static> Handler for Plain<A> {
    type Args = A;

    async fn run(&self, job: &Context, args: A) -> Result<Done, Failure> {
        let mut run = Run::start(&self.ledger, job);
        let payload: Payload = args.into();
        if tokio::time::timeout(Duration::from_millis(payload.ms), job.stopped()).await.is_ok() {
            return Err(Failure::retry("requested to stop"));
        }
        match payload.act {
            Act::FailOnce if job.failures() == 0 => return Err(Failure::retry("the first attempt fails")),
            Act::FailForever => return Err(Failure::permanent("every attempt fails")),
            Act::SnoozeOnce if job.attempt() == 1 => return Ok(Done::snooze(Duration::from_millis(300))),
            // A panic of a handler is one of the inputs.
            Act::Panic if job.failures() == 0 => panic!("the first attempt panics"),
            _ => {}
        }
        let children = (0..payload.children).map(|n| Payload { n, ms: 1, ..Payload::default() });
        let tenant = job.tenant_id();
        let done = children
            .fold(Done::new(), |done, child| done.then(NewJob::new(CHILD).tenant(tenant).payload(&child)));
        run.is_success = true;
        Ok(done)
    }

    fn definition(&self) -> Definition {
        definition(A::KEY)
    }
}

struct Effect {
    ledger: Arc<Ledger>,
    url: String,
}

impl Handler for Effect {
    type Args = EffectArgs;

    async fn run(&self, job: &Context, EffectArgs(payload): EffectArgs) -> Result<Done, Failure> {
        let mut run = Run::start(&self.ledger, job);
        let (mut client, connection) = tokio_postgres::connect(&self.url, NoTls).await?;
        // It ends when the client is dropped, or with the connection.
        tokio::spawn(connection);
        let tx = client.transaction().await?;
        let insert = "insert into soak.effect (job, attempt) values ($1, $2)";
        tx.execute(insert, &[&job.job_id(), &job.attempt()]).await?;
        tokio::time::sleep(Duration::from_millis(payload.ms)).await;
        match job.complete_in(&tx, Done::new()).await? {
            Completion::Ready(done) => {
                run.is_success = true;
                tx.commit().await?;
                self.ledger.note(Fact::Committed { job: job.job_id(), attempt: job.attempt() });
                Ok(done)
            }
            _ => Err(Failure::retry("the lease was lost")),
        }
    }

    fn definition(&self) -> Definition {
        definition(EFFECT)
    }
}
