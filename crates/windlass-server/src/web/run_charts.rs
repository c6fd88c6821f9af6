//! The four charts of the pages Jobs, Queues and Overview: the attempts of the last hour, and the newest runs.

use jiff::Timestamp;
use windlass::admin::{Activity, Run};

use super::cards::HOUR;
use super::chart::{Bar, Dot, Figure, Unit, distribution, scatter, throughput};

pub(crate) struct RunCharts {
    pub(crate) throughput: Figure,
    pub(crate) scatter: Figure,
    pub(crate) queue_times: Figure,
    pub(crate) run_times: Figure,
}

impl RunCharts {
    /// `queue_times`: those of the runs, in order.
    pub(crate) fn new(activity: &[Activity], runs: &[Run], queue_times: &[f64], now: Timestamp) -> Self {
        Self {
            throughput: throughput(&bars(activity, now), 60.0),
            scatter: scatter(&dots(runs)),
            queue_times: distribution(Unit::Latency, queue_times),
            run_times: distribution(Unit::Duration, &sorted(runs.iter().filter_map(Run::lasted))),
        }
    }
}

/// The queue times of these runs, in order.
pub(crate) fn queue_times<'a>(runs: impl Iterator<Item = &'a Run>) -> Vec<f64> {
    sorted(runs.filter_map(Run::waited))
}

/// A bar for each minute of the last hour, including minutes without activity.
fn bars(activity: &[Activity], now: Timestamp) -> Vec<Bar> {
    let last = now.as_second() / 60;
    let bar = |minute: i64| {
        let from = Timestamp::from_second(minute * 60).unwrap_or(now);
        let here = activity.iter().filter(|part| part.from.as_second() / 60 == minute);
        let (succeeded, failed) =
            here.fold((0, 0), |(good, bad), part| (good + part.succeeded, bad + part.failed));
        Bar { from, succeeded: succeeded as f64, failed: failed as f64 }
    };
    (last - HOUR + 1..=last).map(bar).collect()
}

const DOTS: usize = 120;

/// If there are many runs, only every second or third is shown, so that the whole period is covered.
fn dots(runs: &[Run]) -> Vec<Dot> {
    let every = runs.len().div_ceil(DOTS).max(1);
    let dot = |run: &Run| {
        let (at, name) = (run.finished_at, run.definition_key.clone());
        Some(Dot { at, seconds: run.lasted()?, outcome: run.outcome.clone(), name })
    };
    runs.iter().rev().step_by(every).filter_map(dot).rev().collect()
}

fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values
}
