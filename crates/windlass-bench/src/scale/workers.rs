//! Worker processes that drain a queue together. Each prints how many jobs it has started, so that the database need not be asked, and
//! ends when its input is closed.

use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinHandle;

use crate::Result;
use crate::database::connect;
use crate::noop;
use crate::process::cpu_seconds;

/// The command of this program that is one of the processes.
pub(crate) const WORKER: &str = "scale-worker";
const LIMIT: Duration = Duration::from_secs(900);
const STOP_LIMIT: Duration = Duration::from_secs(60);
const REPORT_EVERY: Duration = Duration::from_millis(20);

/// One of the processes.
pub(crate) async fn run_worker() -> Result<()> {
    let url = std::env::var("DATABASE_URL").map_err(|_| "DATABASE_URL is not set")?;
    let queue = noop::warm_queue(&url, 1).await?;
    let (worker, handled) = noop::counting_worker(&queue).await?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut before = 0;
    loop {
        tokio::select! {
            _ = terminate.recv() => break,
            () = tokio::time::sleep(REPORT_EVERY) => {}
        }
        let now = handled.load(Ordering::Relaxed);
        if now > before {
            println!("{now}");
            before = now;
        }
    }
    noop::stop(worker).await
}

struct Process {
    child: Child,
    id: u32,
    started: Arc<AtomicU64>,
    reading: JoinHandle<()>,
}

/// Returns the elapsed seconds and the CPU time of the processes, when no job is left.
pub(super) async fn drain(url: &str, workers: usize, jobs: u64) -> Result<(f64, f64)> {
    let client = connect(url).await?;
    let began = Instant::now();
    let mut processes: Vec<Process> = (0..workers).map(|_| start(url)).collect::<Result<_>>()?;
    let is_over = || began.elapsed() > LIMIT;
    let started = |processes: &[Process]| -> u64 {
        processes.iter().map(|process| process.started.load(Ordering::Relaxed)).sum()
    };
    while started(&processes) < jobs {
        for process in &mut processes {
            if let Some(status) = process.child.try_wait()? {
                return Err(format!("a worker ended early: {status}").into());
            }
        }
        if is_over() {
            return Err(format!("only {} of {jobs} jobs ran within {LIMIT:?}", started(&processes)).into());
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let query = "select exists (select from windlass.line) or exists (select from windlass.live)";
    while client.query_one(query, &[]).await?.get(0) && !is_over() {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let seconds = began.elapsed().as_secs_f64();
    let cpu = processes.iter().filter_map(|process| cpu_seconds(process.id)).sum();
    for process in processes {
        stop(process).await?;
    }
    Ok((seconds, cpu))
}

fn start(url: &str) -> Result<Process> {
    let mut child = Command::new(std::env::current_exe()?)
        .arg(WORKER)
        .env("DATABASE_URL", url)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let id = child.id().ok_or("a worker ended at once")?;
    let output = child.stdout.take().ok_or("a worker has no output")?;
    let started = Arc::new(AtomicU64::new(0));
    let counter = started.clone();
    let reading = tokio::spawn(async move {
        let mut lines = BufReader::new(output).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            if let Ok(count) = line.parse() {
                counter.store(count, Ordering::Relaxed);
            }
        }
    });
    Ok(Process { child, id, started, reading })
}

async fn stop(mut process: Process) -> Result<()> {
    let id = i32::try_from(process.id).ok().and_then(Pid::from_raw).ok_or("a worker has no process id")?;
    kill_process(id, Signal::TERM)?;
    let ended = tokio::time::timeout(STOP_LIMIT, process.child.wait()).await;
    let status = ended.map_err(|_| "a worker did not stop")??;
    process.reading.await?;
    // One that had not started yet does not handle the signal.
    let is_stopped = status.success() || status.signal() == Some(Signal::TERM.as_raw());
    if is_stopped { Ok(()) } else { Err(format!("a worker failed: {status}").into()) }
}
