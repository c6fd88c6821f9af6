//! What a tenant feels of another one that does the worst its role allows.
//!
//! One tenant does ordinary work, one operation at a time: enqueue, run, search through the library; enqueue, read, list, summary over HTTP.
//! It does so alone, and then while the other one fills lanes, sends the largest requests, searches and emits with many callers at once;
//! and so several times in turns, because the machine is never the same for long. The figures are medians over the turns: of p50 and p99
//! of each operation in both phases, and of the ratio of the two p99 of one turn. Beside them stand two operations that are not
//! windlass's work: `raw_select`, a plain `select 1` on a connection of its own, and `http_live`, a request without a credential that
//! touches no database. They say how much of it is the machine.
//!
//! The server's binary is the one beside this one, so build both.

mod ordinary;
mod report;
mod worst;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;
use uuid::Uuid;
use windlass::Queue;

use crate::Result;
use crate::api::Windlass;
use crate::database::connect;
use crate::noop;
use crate::server::Server;
use crate::stolen::Busy;
use ordinary::Ordinary;

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct NeighbourPlan {
    /// Of each phase.
    pub(crate) seconds: u64,
    /// Turns of a quiet and a disturbed phase.
    pub(crate) turns: usize,
    /// Of the tenant that does its worst.
    pub(crate) callers: usize,
    pub(crate) json: Option<PathBuf>,
}

/// How long the disturbance lasts before it is measured: lanes are made and caches filled.
const LEAD: Duration = Duration::from_secs(2);
/// How long what the disturbance left behind may take to be worked off.
const LONGEST_REST: Duration = Duration::from_secs(120);
/// Slots of the worker that runs the jobs of both.
const SLOTS: usize = 50;

/// Milliseconds of each operation, and what share of the machine was in use meanwhile.
struct Phase {
    times: BTreeMap<&'static str, Vec<f64>>,
    refused: u64,
    busy: f64,
    /// Share of the machine that the server's process used.
    server: f64,
}

pub(crate) async fn run(plan: &NeighbourPlan) -> Result<()> {
    let server = Server::start().await?;
    let url = server.fresh_database().await?;
    let queue = noop::warm_queue(&url, 8).await?;
    let calm = queue.ensure_tenant("calm", "Calm", 1).await?;
    let noisy = queue.ensure_tenant("noisy", "Noisy", 1).await?;
    let windlass = Windlass::start(&url).await?;
    let (started, starts) = tokio::sync::mpsc::unbounded_channel();
    let worker = noop::worker(&queue, move |job| {
        if job.tenant_id() == calm {
            // Nobody listens any more once the run is over.
            let _ = started.send((job.job_id(), Instant::now()));
        }
    });
    let worker = worker.concurrency(SLOTS).start().await?;
    let token = windlass.token_of(&url, "calm").await?;
    let raw = connect(&url).await?;
    let mut ordinary = Ordinary::new(queue.clone(), calm, &windlass.address, token, starts, raw).await?;
    let token = windlass.token_of(&url, "noisy").await?;
    let for_each_phase = Duration::from_secs(plan.seconds);
    // Connections are made and routes looked up.
    ordinary.work(LEAD).await?;

    let (mut turns, mut answers) = (Vec::new(), BTreeMap::new());
    for _ in 0..plan.turns {
        let quiet = measure(&mut ordinary, &windlass, for_each_phase).await?;
        let stop = CancellationToken::new();
        let worst = worst::start(plan.callers, &windlass.address, &token, &url, noisy, &stop)?;
        tokio::time::sleep(LEAD).await;
        let disturbed = measure(&mut ordinary, &windlass, for_each_phase).await?;
        stop.cancel();
        for (answer, count) in worst.end().await? {
            *answers.entry(answer).or_insert(0) += count;
        }
        turns.push((quiet, disturbed));
        rest(&queue, noisy).await?;
    }

    noop::stop(worker).await?;
    windlass.stop().await?;
    server.stop().await?;
    report::report(plan, &turns, &answers)
}

async fn measure(ordinary: &mut Ordinary, windlass: &Windlass, lasts: Duration) -> Result<Phase> {
    let (before, used, began) = (Busy::now(), windlass.cpu_seconds(), Instant::now());
    let (times, refused) = ordinary.work(lasts).await?;
    let cores = std::thread::available_parallelism().map_or(1, usize::from) as f64;
    let server = (windlass.cpu_seconds() - used) / began.elapsed().as_secs_f64() / cores;
    Ok(Phase { times, refused, busy: Busy::share_since(before), server })
}

/// Waits until the jobs of the disturbance have run: the next phase must be quiet.
async fn rest(queue: &Queue, tenant: Uuid) -> Result<()> {
    let began = Instant::now();
    while began.elapsed() < LONGEST_REST {
        let counts = queue.counts(Some(tenant)).await?;
        if counts.iter().all(|each| each.queued + each.running == 0) {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    Err("the jobs of the other tenant were not worked off".into())
}
