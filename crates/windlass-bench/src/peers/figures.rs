//! The figures of a run and their targets. A target compares windlass with another system of the same run twice: by the rate, and by
//! the CPU time per job of server and client together, which other programs disturb less.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::cost::Rate;

#[derive(Debug, Default, Serialize)]
pub(super) struct Figures {
    pub(super) server: String,
    pub(super) rounds: u64,
    pub(super) versions: BTreeMap<&'static str, String>,
    /// Why a system was not measured.
    pub(super) not_installed: BTreeMap<&'static str, String>,
    /// By measure, then by system; `raw` is the raw limit.
    pub(super) rates: BTreeMap<&'static str, BTreeMap<&'static str, Rate>>,
    pub(super) latency: BTreeMap<&'static str, Latency>,
    /// Of a single row on one connection.
    pub(super) commit_p50_ms: Option<f64>,
    pub(super) targets: Vec<Reached>,
    pub(super) stolen: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct Latency {
    pub(super) p50_ms: f64,
    pub(super) p99_ms: f64,
    pub(super) jobs: usize,
}

/// A target with what was reached.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Reached {
    pub(super) target: String,
    pub(super) is_met: bool,
    /// The same comparison by CPU time, if it is a comparison.
    pub(super) is_met_by_cpu: Option<bool>,
    pub(super) found: String,
}

const OURS: &str = "windlass";

/// The measure, what windlass is compared with, and the least ratio.
const RATIOS: [(&str, &str, f64); 9] = [
    ("drain", "pgmq-delete", 1.5),
    ("drain", "graphile-worker", 2.0),
    ("steady", "pgmq-delete", 1.3),
    ("steady", "graphile-worker", 2.5),
    ("steady", "pg-boss", 2.5),
    ("bulk", "pgmq-delete", 1.3),
    ("bulk", "raw", 0.9),
    ("single", "pgmq-delete", 1.0),
    ("single", "raw", 0.7),
];

/// Where a commit takes 0.3 ms.
const P50_MS: f64 = 0.8;
const P99_MS: f64 = 2.0;

impl Figures {
    pub(super) fn new(server: String) -> Self {
        Self { server, ..Self::default() }
    }

    /// Targets whose figures were not measured are omitted.
    pub(super) fn judge(&mut self) {
        self.targets.clear();
        for (measure, other, least) in RATIOS {
            let Some(rates) = self.rates.get(measure) else { continue };
            let (Some(ours), Some(theirs)) = (rates.get(OURS), rates.get(other)) else { continue };
            let by_rate = ours.per_second / theirs.per_second;
            let by_cpu = theirs.cpu_us() / ours.cpu_us();
            self.targets.push(Reached {
                target: format!("{measure}: at least {least} of {other}"),
                is_met: by_rate >= least,
                is_met_by_cpu: Some(by_cpu >= least),
                found: format!("{by_rate:.2} by rate, {by_cpu:.2} by CPU per job"),
            });
        }
        let Some(ours) = self.latency.get(OURS).copied() else { return };
        self.targets.push(Reached {
            target: format!(
                "latency: p50 at most {P50_MS} ms and p99 at most {P99_MS} ms where a commit takes 0.3 ms"
            ),
            is_met: ours.p50_ms <= P50_MS && ours.p99_ms <= P99_MS,
            is_met_by_cpu: None,
            found: format!(
                "{:.2} and {:.2} ms where a commit takes {:.2} ms",
                ours.p50_ms,
                ours.p99_ms,
                self.commit_p50_ms.unwrap_or_default()
            ),
        });
        if let Some(theirs) = self.latency.get("pgmq-delete") {
            self.targets.push(Reached {
                target: "latency: not above PGMQ with notifications".to_owned(),
                is_met: ours.p50_ms <= theirs.p50_ms && ours.p99_ms <= theirs.p99_ms,
                is_met_by_cpu: None,
                found: format!(
                    "p50 {:.2} of {:.2} ms, p99 {:.2} of {:.2} ms",
                    ours.p50_ms, theirs.p50_ms, ours.p99_ms, theirs.p99_ms
                ),
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Figures, Latency};
    use crate::cost::Rate;

    fn rate(per_second: f64, server_us: f64) -> Rate {
        Rate { per_second, server_us, client_us: 0.0, others: 0.0 }
    }

    #[test]
    fn a_target_is_judged_by_the_rate_and_by_the_cpu_time() {
        let mut figures = Figures::new(String::new());
        let drain = figures.rates.entry("drain").or_default();
        drain.insert("windlass", rate(140.0, 10.0));
        drain.insert("pgmq-delete", rate(100.0, 16.0));
        figures.judge();
        assert_eq!(figures.targets.len(), 1, "the others were not measured");
        assert_eq!((figures.targets[0].is_met, figures.targets[0].is_met_by_cpu), (false, Some(true)));
        assert_eq!(figures.targets[0].found, "1.40 by rate, 1.60 by CPU per job");
    }

    #[test]
    fn the_latency_has_two_limits_and_is_compared() {
        let mut figures = Figures::new(String::new());
        let latency = |p50_ms, p99_ms| Latency { p50_ms, p99_ms, jobs: 1 };
        figures.latency.insert("windlass", latency(0.7, 2.1));
        figures.latency.insert("pgmq-delete", latency(0.9, 2.2));
        figures.judge();
        let met: Vec<bool> = figures.targets.iter().map(|reached| reached.is_met).collect();
        assert_eq!(met, [false, true]);
    }
}
