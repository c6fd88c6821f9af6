//! Whether windlass keeps its speed and its size for any time: steady runs with a retention of a minute or two, at several
//! shares of jobs that stay longer, each compared with the same run without retention.

mod watch;

use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;
use serde_json::json;
use windlass::job::State;
use windlass::{DEFAULT_TENANT, Queue, Settings};

use crate::driver::{Kept, SteadyPlan, SteadyRun, steady_with};
use crate::noop;
use crate::server::Server;
use crate::stolen::Stolen;
use crate::{Result, database};
use watch::{Watch, Watched};

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ForeverPlan {
    pub(crate) minutes: u64,
    pub(crate) json: Option<PathBuf>,
}

/// The percentages of jobs that are kept for twice as long.
const SURVIVORS: [u64; 3] = [0, 1, 10];

/// One run with retention, and what it is compared with.
#[derive(Debug, Serialize)]
struct Run {
    survivors: u64,
    minutes: u64,
    /// Handler starts per second.
    rate: f64,
    rate_first_tenth: f64,
    rate_last_tenth: f64,
    /// Of a run of a third of the time, in a new database, in which nothing is deleted.
    rate_without_retention: f64,
    /// The largest size of the schema between the second and the third retirement, and in the last tenth of the run.
    bytes_after_second_retirement: u64,
    bytes_last_tenth: u64,
    /// How long a statement of an enqueuer or of the worker waited for a lock, at most.
    longest_wait_ms: f64,
    /// Jobs that retention deleted.
    pruned: u64,
    /// CPU time of the server's processes.
    cpu_us_per_job: f64,
}

pub(crate) async fn run(plan: &ForeverPlan) -> Result<()> {
    let server = Server::start().await?;
    eprintln!("{}", server.description().await?);
    let stolen = Stolen::watch();
    let mut runs = Vec::new();
    for survivors in SURVIVORS {
        let seconds = plan.minutes * 60;
        let (without, _) = one(&server, survivors, (seconds / 3).max(20), None).await?;
        let keep = Duration::from_secs((seconds / 15).clamp(10, 120));
        let (with, watched) = one(&server, survivors, seconds, Some(keep)).await?;
        let tenth = with.each_second.len() / 10;
        let (rate_first_tenth, rate_last_tenth) = with.first_and_last(tenth);
        let run = Run {
            survivors,
            minutes: plan.minutes,
            rate: with.rate,
            rate_first_tenth,
            rate_last_tenth,
            rate_without_retention: without.rate,
            bytes_after_second_retirement: watched.bytes_after_second_retirement(),
            bytes_last_tenth: watched.bytes_last(tenth),
            longest_wait_ms: watched.longest_wait_ms,
            pruned: watched.pruned(),
            cpu_us_per_job: watched.cpu_seconds * 1e6 / with.handled.max(1) as f64,
        };
        println!("{}", serde_json::to_string(&run)?);
        eprintln!("{}", verdict(&run));
        runs.push(run);
    }
    eprintln!("{stolen}");
    server.stop().await?;
    if let Some(file) = &plan.json {
        std::fs::write(file, serde_json::to_string_pretty(&json!({ "runs": runs }))?)?;
    }
    Ok(())
}

/// A steady run in a new database. Without `keep`, nothing is deleted.
async fn one(
    server: &Server,
    survivors: u64,
    seconds: u64,
    keep: Option<Duration>,
) -> Result<(SteadyRun, Watched)> {
    let url = server.fresh_database().await?;
    let queue = Queue::connect(Settings::new(&url)?.connections(2)).await?;
    let tenant = queue.ensure_tenant("kept", "Kept", 1).await?;
    if let Some(keep) = keep {
        queue.define(&noop::definition().retention(State::Succeeded, keep)).await?;
        queue.set_retention(DEFAULT_TENANT, None, State::Succeeded, Some(keep), "bench").await?;
        queue.set_retention(tenant, None, State::Succeeded, Some(keep * 2), "bench").await?;
    }
    let kept = (survivors > 0).then_some(Kept { tenant, percent: survivors });
    let plan =
        SteadyPlan { seconds, cap: 20_000, batch: 500, callers: 2, at_least: 0, most_seconds: seconds };
    let watch = Watch::start(database::connect(&url).await?, database::connect(&url).await?).await?;
    let ran = steady_with(&url, &plan, kept, std::future::pending(), |second| {
        if second.second % 30 == 0 {
            eprintln!("{survivors} % stay, kept for {keep:?}: second {}, {}/s", second.second, second.done);
        }
    })
    .await?;
    Ok((ran, watch.stop().await?))
}

/// The targets, each with its figure.
fn verdict(run: &Run) -> String {
    let share = |part: f64, whole: f64| if whole > 0.0 { part / whole } else { 0.0 };
    let even = share(run.rate_last_tenth, run.rate_first_tenth);
    let cost = share(run.rate, run.rate_without_retention);
    let growth = share(run.bytes_last_tenth as f64, run.bytes_after_second_retirement as f64);
    let targets = [
        (format!("last tenth {even:.2} of the first, at least 0.9"), even >= 0.9),
        (format!("{cost:.2} of the rate without retention, at least 0.9"), cost >= 0.9),
        (
            format!("size {growth:.2} of that after the second retirement, at most 1.2"),
            (0.0..=1.2).contains(&growth) && growth > 0.0,
        ),
        (format!("longest wait {:.0} ms, at most 250", run.longest_wait_ms), run.longest_wait_ms <= 250.0),
    ];
    let lines =
        targets.map(|(text, is_met)| format!("  {} {text}", if is_met { "met   " } else { "MISSED" }));
    format!("{} % stay:\n{}", run.survivors, lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::{Run, verdict};

    #[test]
    fn a_missed_target_is_marked() {
        let run = Run {
            survivors: 1,
            minutes: 5,
            rate: 95.0,
            rate_first_tenth: 100.0,
            rate_last_tenth: 80.0,
            rate_without_retention: 100.0,
            bytes_after_second_retirement: 10,
            bytes_last_tenth: 11,
            longest_wait_ms: 12.0,
            pruned: 1,
            cpu_us_per_job: 30.0,
        };
        let text = verdict(&run);
        assert_eq!(text.matches("MISSED").count(), 1, "{text}");
        assert!(text.contains("MISSED last tenth 0.80"), "{text}");
    }
}
