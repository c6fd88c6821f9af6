//! How much one tenant is slowed down by another that causes as much load as it can.
//!
//! One tenant does ordinary work, one operation at a time: enqueue, run, search through the library; enqueue, read, list, summary over HTTP.
//! It does so alone, and then while the other one fills lanes, sends the largest requests, searches and emits with many callers at once;
//! and so several times in turns, because the speed of the machine varies. The figures are medians over the turns: of p50 and p99
//! of each operation in both phases, and of the ratio of the two p99 of one turn. Two operations for comparison do not involve
//! windlass: `raw_select`, a plain `select 1` on its own connection, and `http_live`, a request without a credential that does not
//! use the database. They show the influence of the machine.
//!
//! The load, the server and each backend of Postgres are processes with sessions of their own, as on a real installation; see [`load`].
//! The server binary must be next to this one, so build both.

mod load;
mod ordinary;
mod report;
mod worst;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use uuid::Uuid;
use windlass::Queue;

use crate::Result;
use crate::api::Windlass;
use crate::database::connect;
use crate::noop;
use crate::server::Server;
use crate::stolen::Busy;
pub(crate) use load::{COMMAND as LOAD, run as run_load};
use load::{Load, Orders};
use ordinary::Ordinary;

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct NeighbourPlan {
    /// The duration of each phase.
    pub(crate) seconds: u64,
    /// Turns of a quiet and a disturbed phase.
    pub(crate) turns: usize,
    /// The number of callers of the loading tenant.
    pub(crate) callers: usize,
    pub(crate) json: Option<PathBuf>,
}

/// How long the load runs before it is measured: lanes are created and caches filled.
const LEAD: Duration = Duration::from_secs(2);
/// The timeout for the remaining jobs of the load.
const MAX_REST: Duration = Duration::from_secs(120);
/// The slots of the worker that runs the jobs of both.
const SLOTS: usize = 50;

/// The milliseconds of each operation, and the CPU usage meanwhile.
struct Phase {
    times: BTreeMap<&'static str, Vec<f64>>,
    refused: u64,
    busy: f64,
    /// The CPU usage of the server process.
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
            // The receiver is dropped once the run is over.
            let _ = started.send((job.job_id(), Instant::now()));
        }
    });
    let worker = worker.concurrency(SLOTS).start().await?;
    let token = windlass.token_of(&url, "calm").await?;
    let raw = connect(&url).await?;
    let mut ordinary = Ordinary::new(queue.clone(), calm, &windlass.address, token, starts, raw).await?;
    let token = windlass.token_of(&url, "noisy").await?;
    let orders = Orders { callers: plan.callers, address: windlass.address.clone(), token };
    let for_each_phase = Duration::from_secs(plan.seconds);
    // Opens connections and loads routes.
    ordinary.work(LEAD).await?;

    let (mut turns, mut answers) = (Vec::new(), BTreeMap::new());
    for _ in 0..plan.turns {
        let quiet = measure(&mut ordinary, &windlass, for_each_phase).await?;
        let load = Load::start(&orders).await?;
        tokio::time::sleep(LEAD).await;
        let disturbed = measure(&mut ordinary, &windlass, for_each_phase).await?;
        for (answer, count) in load.end().await? {
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

/// Waits until the jobs of the load have run: the next phase must be quiet.
async fn rest(queue: &Queue, tenant: Uuid) -> Result<()> {
    let began = Instant::now();
    while began.elapsed() < MAX_REST {
        let counts = queue.counts(Some(tenant)).await?;
        if counts.iter().all(|each| each.queued + each.running == 0) {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    Err("the jobs of the loading tenant did not finish in time".into())
}
