//! Commands compared with a plain loop that starts the same program with the same concurrency; and the cost of following a log.
//!
//! The plain loop stores nothing, supervises nothing and sets up no environment, limits or working directory: it is the upper
//! limit for any worker on this machine.

use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use windlass::job::{LogPosition, State};
use windlass::worker::WorkerFile;
use windlass::{DEFAULT_TENANT, NewJob, Queue, Settings, Worker};

use crate::Result;
use crate::percentile::median;
use crate::repeated::Repeated;
use crate::server::Server;

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct CommandsPlan {
    pub(crate) n: u64,
    pub(crate) concurrency: u64,
}

const PROGRAM: &str = "/bin/true";
const ROUNDS: usize = 3;
const MAX_DURATION: Duration = Duration::from_secs(600);
/// Reads at the end of a log that does not grow.
const READS: u32 = 500;

const FILE: &str = r#"
[commands."bench.true"]
argv = ["/bin/true"]

[commands."bench.talk"]
argv = ["/bin/sh", "-c", "n=0; while test $n -lt 50; do /bin/date +%s%N; n=$((n + 1)); /bin/sleep 0.1; done"]
"#;

pub(crate) async fn run(plan: &CommandsPlan) -> Result<()> {
    let server = Server::start().await?;
    let (mut plain, mut jobs) = (Repeated::default(), Repeated::default());
    // Alternating, so that a slow phase of the machine affects both.
    for _ in 0..ROUNDS {
        plain.measure(start_plainly(plan)).await?;
        jobs.measure(run_jobs(&server, plan)).await?;
    }
    let (look_us, delay_ms) = follow(&server).await?;
    server.stop().await?;
    let (plain, jobs) = (plain.figure().unwrap_or_default(), jobs.figure().unwrap_or_default());
    let CommandsPlan { n, concurrency } = plan;
    println!(
        "{{\"spawn_plain_per_s\": {plain:.0}, \"commands_per_s\": {jobs:.0}, \"ratio\": {:.2}, \"n\": {n}, \
         \"concurrency\": {concurrency}, \"log_look_us\": {look_us:.0}, \"log_delay_p50_ms\": {delay_ms:.0}}}",
        jobs / plain
    );
    Ok(())
}

async fn start_plainly(plan: &CommandsPlan) -> Result<f64> {
    let left = Arc::new(AtomicU64::new(plan.n));
    let began = Instant::now();
    let mut loops = tokio::task::JoinSet::new();
    for _ in 0..plan.concurrency {
        let left = left.clone();
        loops.spawn(async move {
            while left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok()
            {
                let mut command = tokio::process::Command::new(PROGRAM);
                command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
                command.output().await?;
            }
            Ok::<_, std::io::Error>(())
        });
    }
    while let Some(ended) = loops.join_next().await {
        ended??;
    }
    Ok(plan.n as f64 / began.elapsed().as_secs_f64())
}

async fn run_jobs(server: &Server, plan: &CommandsPlan) -> Result<f64> {
    let url = server.fresh_database().await?;
    let queue = Queue::connect(Settings::new(&url)?.connections(4)).await?;
    queue.define(&windlass::Definition::new("bench.true")).await?;
    let mut left = plan.n;
    while left > 0 {
        let batch: Vec<_> = (0..left.min(1000)).map(|_| NewJob::new("bench.true")).collect();
        queue.enqueue_many(&batch).await?;
        left -= batch.len() as u64;
    }
    let file = WorkerFile::parse("bench.toml", FILE)?;
    let began = Instant::now();
    let runs = usize::try_from(plan.concurrency)?;
    // The same number of running programs as the plain loop; more jobs are held while they are settled.
    let worker = Worker::builder(&queue).concurrency(runs).prefetch(4 * runs).file(file)?.start().await?;
    loop {
        let counts = queue.counts(None).await?;
        let done: i64 = counts.iter().map(|counts| counts.of(State::Succeeded)).sum();
        if done.unsigned_abs() >= plan.n {
            break;
        }
        if began.elapsed() > MAX_DURATION {
            return Err("the commands did not finish within ten minutes".into());
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let rate = plan.n as f64 / began.elapsed().as_secs_f64();
    worker.stop().await?;
    Ok(rate)
}

/// The time of one read at the end of a log, and from printing a line to its arrival at a follower.
async fn follow(server: &Server) -> Result<(f64, f64)> {
    let url = server.fresh_database().await?;
    let queue = Queue::connect(Settings::new(&url)?.connections(4)).await?;
    let worker = Worker::builder(&queue).file(WorkerFile::parse("bench.toml", FILE)?)?.start().await?;
    let job = queue.enqueue(&NewJob::new("bench.talk")).await?.id;
    let mut follower = queue.follow_log(DEFAULT_TENANT, job, LogPosition::default());
    let mut delays = Vec::new();
    while let Some(chunks) = follower.next().await? {
        let seen = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?.as_nanos();
        let text: String = chunks.into_iter().map(|chunk| chunk.text).collect();
        // Every line is the instant at which it was printed.
        let printed = text.lines().filter_map(|line| line.parse::<u128>().ok());
        delays.extend(printed.map(|printed| seen.saturating_sub(printed) as f64 / 1e6));
    }
    if delays.is_empty() {
        return Err("the command printed nothing".into());
    }
    let end = follower.position();
    let began = Instant::now();
    for _ in 0..READS {
        queue.read_log(DEFAULT_TENANT, job, end).await?;
    }
    let look_us = began.elapsed().as_secs_f64() * 1e6 / f64::from(READS);
    worker.stop().await?;
    Ok((look_us, median(&delays).unwrap_or_default()))
}
