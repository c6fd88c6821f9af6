//! The driver modes: each measures one thing on the database of `DATABASE_URL`, and prints JSON lines.
//!
//! The modes are functions of a URL and a plan, because the suite uses them too.

mod bulk;
mod drain;
mod latency;
pub(crate) mod single;
mod steady;

use serde_json::{Value, json};
use tokio::signal::unix::{SignalKind, signal};

pub(crate) use bulk::{BulkPlan, enqueue, run as bulk};
pub(crate) use drain::{DrainPlan, run as drain};
pub(crate) use latency::{LatencyPlan, run as latency};
pub(crate) use single::{SinglePlan, run as single};
pub(crate) use steady::{Kept, SteadyPlan, SteadyRun, run as steady, run_with as steady_with};

use crate::Result;
use crate::noop;

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Mode {
    Info,
    Init,
    Bulk(BulkPlan),
    Single(SinglePlan),
    Drain(DrainPlan),
    Steady(SteadyPlan),
    Latency(LatencyPlan),
}

pub(crate) async fn run(mode: &Mode) -> Result<()> {
    if let Mode::Info = mode {
        print(&info());
        return Ok(());
    }
    let url = &std::env::var("DATABASE_URL").map_err(|_| "DATABASE_URL is not set")?;
    match mode {
        Mode::Info => {}
        Mode::Init => init(url).await?,
        Mode::Bulk(plan) => {
            let seconds = bulk::run(url, plan).await?;
            print(&json!({"mode": "bulk", "n": plan.n, "seconds": seconds}));
        }
        Mode::Single(plan) => {
            let seconds = single::run(url, plan).await?;
            print(&json!({"mode": "single", "n": plan.n, "seconds": seconds}));
        }
        Mode::Drain(plan) => {
            let drained = drain::run(url, plan).await?;
            print(
                &json!({"mode": "drain", "n": drained.n, "seconds": drained.seconds, "left": drained.left}),
            );
        }
        Mode::Steady(plan) => {
            let mut terminate = signal(SignalKind::terminate())?;
            let stop = async move {
                terminate.recv().await;
            };
            let mut done = 0;
            let ran = steady::run(url, plan, stop, |one| {
                done += one.done;
                let (second, rss_kb) = (one.second, one.rss_kb);
                print(&json!({"mode": "steady", "second": second, "done": done, "rss_kb": rss_kb}));
            })
            .await?;
            let (handled, enqueued, outstanding) = (ran.handled, ran.enqueued, ran.outstanding);
            print(
                &json!({"mode": "steady", "handled": handled, "enqueued": enqueued, "outstanding": outstanding}),
            );
        }
        Mode::Latency(plan) => {
            let samples = latency::run(url, plan).await?;
            let (from_call, from_ack) = (samples.from_call_ms, samples.from_ack_ms);
            print(&json!({"mode": "latency", "from_call_ms": from_call, "from_ack_ms": from_ack}));
        }
    }
    Ok(())
}

/// Migrates an empty database and creates the definition that all modes use.
pub(crate) async fn init(url: &str) -> Result<()> {
    let settings = windlass::Settings::new(url)?;
    windlass::migrate(&settings).await?;
    windlass::Queue::connect(settings).await?.define(&noop::definition()).await?;
    Ok(())
}

fn info() -> Value {
    json!({
        "name": "windlass",
        "version": env!("CARGO_PKG_VERSION"),
        "settings": {
            "handler": "one task per job, succeeds at once",
            "payload_bytes": noop::PAYLOAD_BYTES,
            "worker_concurrency": noop::CONCURRENCY,
            "worker_other_settings": "defaults: keeper and listen on, 30 s lease, 1 s poll interval",
            "tables": "row-level security, counters and history rows on, as always",
        },
    })
}

/// Rust flushes standard output at every newline, so a reader of a pipe gets each line at once.
fn print(line: &Value) {
    println!("{line}");
}
