//! A worker in a separate process, for the tests to kill, freeze and starve. Its handlers write a line when a run starts and when
//! it ends, for any reason, to the given ledger.
//!
//! How it stops: the first SIGTERM stops it gracefully, the second ends it at once.

#[path = "ledger.rs"]
mod ledger;

use std::env;
use std::error::Error;
use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::process::{Signal, getpid, kill_process};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::signal::unix::{SignalKind, signal};
use tokio_postgres::NoTls;
use uuid::Uuid;
use windlass::job::Backoff;
use windlass::keeper::KeeperSettings;
use windlass::worker::Completion;
use windlass::{Context, Definition, Done, Failure, Handler, Queue, Settings, Worker};

use ledger::{Entry, now_ns};

fn main() -> Result<(), Box<dyn Error>> {
    let flags = Flags::read()?;
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(flags.threads).enable_all().build()?;
    runtime.block_on(work(flags))?;
    // Blocking handlers may still occupy their threads; an immediate end does not wait for them.
    process::exit(0)
}

async fn work(flags: Flags) -> Result<(), Box<dyn Error>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut settings = Settings::new(&flags.url)?;
    if let Some(url) = &flags.direct_url {
        settings = settings.direct_url(url)?;
    }
    if flags.pooled {
        settings = settings.pooled();
    }
    if !flags.listen {
        settings = settings.without_listen();
    }
    let queue = Queue::connect(settings).await?;
    let ledger = Ledger { file: Arc::new(ledger::open(&flags.ledger)?) };
    let mut builder = Worker::builder(&queue)
        .handler(Work(ledger.clone()))
        .handler(Killer(ledger.clone()))
        .handler(Spin(ledger.clone()))
        .handler(Effect { ledger, url: flags.url.clone() })
        .concurrency(flags.concurrency)
        .lease(flags.lease)
        .heartbeat(flags.heartbeat)
        .poll_interval(Duration::from_millis(200))
        .grace(flags.grace);
    builder = if flags.keeper {
        builder.keeper(KeeperSettings::default().reap(flags.reap))
    } else {
        builder.without_keeper()
    };
    let worker = builder.start().await?;
    writeln!(io::stdout(), "{}", worker.id())?;
    io::stdout().flush()?;

    terminate.recv().await;
    tokio::select! {
        stopped = worker.stop() => stopped?,
        _ = terminate.recv() => {}
    }
    Ok(())
}

struct Flags {
    url: String,
    direct_url: Option<String>,
    ledger: PathBuf,
    threads: usize,
    concurrency: usize,
    lease: Duration,
    heartbeat: Duration,
    reap: Duration,
    grace: Duration,
    listen: bool,
    keeper: bool,
    pooled: bool,
}

impl Flags {
    /// `--name value` pairs; an unknown flag is an error.
    fn read() -> Result<Self, Box<dyn Error>> {
        let mut flags = Self {
            url: String::new(),
            direct_url: None,
            ledger: PathBuf::new(),
            threads: 2,
            concurrency: 10,
            lease: Duration::from_secs(2),
            heartbeat: Duration::from_millis(500),
            reap: Duration::from_millis(500),
            grace: Duration::from_secs(10),
            listen: true,
            keeper: true,
            pooled: false,
        };
        let mut words = env::args().skip(1);
        while let Some(name) = words.next() {
            let value = words.next().ok_or("a flag without a value")?;
            let millis = || value.parse().map(Duration::from_millis);
            match name.as_str() {
                "--direct-url" => flags.direct_url = Some(value),
                "--url" => flags.url = value,
                "--ledger" => flags.ledger = value.into(),
                "--threads" => flags.threads = value.parse()?,
                "--concurrency" => flags.concurrency = value.parse()?,
                "--lease-ms" => flags.lease = millis()?,
                "--heartbeat-ms" => flags.heartbeat = millis()?,
                "--reap-ms" => flags.reap = millis()?,
                "--grace-ms" => flags.grace = millis()?,
                "--listen" => flags.listen = value.parse()?,
                "--pooled" => flags.pooled = value.parse()?,
                "--keeper" => flags.keeper = value.parse()?,
                _ => return Err(format!("unknown flag {name}").into()),
            }
        }
        Ok(flags)
    }
}

#[derive(Clone)]
struct Ledger {
    file: Arc<File>,
}

impl Ledger {
    /// The end is written when the guard is dropped, so also for a run that is dropped.
    fn start(&self, job: &Context) -> Run {
        let run = Run { ledger: self.clone(), job: job.job_id(), attempt: job.attempt() };
        run.note(true);
        run
    }
}

struct Run {
    ledger: Ledger,
    job: Uuid,
    attempt: i32,
}

impl Run {
    fn note(&self, is_start: bool) {
        let entry =
            Entry { is_start, at_ns: now_ns(), job: self.job, attempt: self.attempt, pid: process::id() };
        entry.write(&self.ledger.file).expect("the ledger can be written");
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        self.note(false);
    }
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
struct Args {
    #[serde(default)]
    ms: u64,
    /// Fail this many attempts before succeeding.
    #[serde(default)]
    failures: i32,
}

/// Retries follow at once, so that a test does not wait for a policy.
fn definition(key: &str) -> Definition {
    let backoff = Backoff::fixed(Duration::from_millis(50));
    Definition::new(key).backoff(backoff).max_attempts(10)
}

/// Waits, and stops on request.
struct Work(Ledger);

windlass_testing::payload!(WorkArgs(Args) = "work");

impl Handler for Work {
    type Args = WorkArgs;

    async fn run(&self, job: &Context, WorkArgs(args): WorkArgs) -> Result<Done, Failure> {
        let _run = self.0.start(job);
        if tokio::time::timeout(Duration::from_millis(args.ms), job.stopped()).await.is_ok() {
            return Err(Failure::retry("asked to stop"));
        }
        if job.failures() < i16::try_from(args.failures).unwrap_or(i16::MAX) {
            return Err(Failure::retry("as the payload asks"));
        }
        Ok(Done::new())
    }

    fn definition(&self) -> Definition {
        definition("work")
    }
}

/// Kills its whole process.
struct Killer(Ledger);

windlass_testing::payload!(KillerArgs(Args) = "killer");

impl Handler for Killer {
    type Args = KillerArgs;

    async fn run(&self, job: &Context, _: KillerArgs) -> Result<Done, Failure> {
        let _run = self.0.start(job);
        kill_process(getpid(), Signal::KILL).map_err(Failure::retry)?;
        Ok(Done::new())
    }

    fn definition(&self) -> Definition {
        definition("killer")
    }
}

/// Blocks its thread, and ignores everything.
struct Spin(Ledger);

windlass_testing::payload!(SpinArgs(Args) = "spin");

impl Handler for Spin {
    type Args = SpinArgs;

    async fn run(&self, job: &Context, SpinArgs(args): SpinArgs) -> Result<Done, Failure> {
        let _run = self.0.start(job);
        let until = Instant::now() + Duration::from_millis(args.ms);
        while Instant::now() < until {
            std::hint::spin_loop();
        }
        Ok(Done::new())
    }

    fn definition(&self) -> Definition {
        definition("spin")
    }
}

/// Writes a row of the application in the transaction that completes it.
struct Effect {
    ledger: Ledger,
    url: String,
}

windlass_testing::payload!(EffectArgs(Args) = "effect");

impl Handler for Effect {
    type Args = EffectArgs;

    async fn run(&self, job: &Context, EffectArgs(args): EffectArgs) -> Result<Done, Failure> {
        let _run = self.ledger.start(job);
        let (mut client, connection) = tokio_postgres::connect(&self.url, NoTls).await?;
        let driver = tokio::spawn(connection);
        let tx = client.transaction().await?;
        tx.execute("insert into effect (job, attempt) values ($1, $2)", &[&job.job_id(), &job.attempt()])
            .await?;
        // Whether it was stopped or not, the fence decides whether it counts.
        let _ = tokio::time::timeout(Duration::from_millis(args.ms), job.stopped()).await;
        let done = match job.complete_in(&tx, Done::new()).await? {
            Completion::Ready(done) => {
                tx.commit().await?;
                done
            }
            _ => {
                tx.rollback().await?;
                Done::new()
            }
        };
        drop(client);
        // The driver returns only how the connection ended, and ours is finished.
        let _ = driver.await;
        Ok(done)
    }

    fn definition(&self) -> Definition {
        definition("effect")
    }
}
