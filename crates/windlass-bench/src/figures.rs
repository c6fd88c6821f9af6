//! All figures and their targets. The names of the fields are those of the JSON file, which other programs read.

use serde::Serialize;

/// Rows per second.
#[derive(Debug, Default, Clone, PartialEq, Serialize)]
pub(crate) struct Raw {
    pub(crate) insert_body: Option<f64>,
    pub(crate) insert_live: Option<f64>,
    pub(crate) delete_live: Option<f64>,
    pub(crate) append_attempt: Option<f64>,
    pub(crate) lifecycle_limit: Option<f64>,
    pub(crate) insert_bulk: Option<f64>,
    pub(crate) single_commits_32: Option<f64>,
}

/// Jobs per second unless noted otherwise. Figures that were not measured in this run are null.
#[derive(Debug, Default, Clone, PartialEq, Serialize)]
pub(crate) struct Figures {
    pub(crate) raw: Raw,
    pub(crate) enqueue_bulk: Option<f64>,
    pub(crate) enqueue_single_32: Option<f64>,
    pub(crate) drain: Option<f64>,
    pub(crate) drain_with_history: Option<f64>,
    pub(crate) steady: Option<f64>,
    pub(crate) steady_first10: Option<f64>,
    pub(crate) steady_last10: Option<f64>,
    pub(crate) steady_pinned: Option<f64>,
    pub(crate) fair: Option<f64>,
    pub(crate) fair_single_tenant: Option<f64>,
    /// The position of the last run of a small tenant among all runs, starting at 1.
    pub(crate) fair_small_done_at: Option<f64>,
    pub(crate) latency_p50_ms: Option<f64>,
    pub(crate) latency_p99_ms: Option<f64>,
    pub(crate) wal_bytes_per_job: Option<f64>,
    pub(crate) worker_rss_mib: Option<f64>,
    /// Printed, but not part of the file.
    #[serde(skip)]
    pub(crate) extra: Extra,
}

#[derive(Debug, Default, Clone, PartialEq)]
pub(crate) struct Extra {
    pub(crate) pinned_first10: Option<f64>,
    pub(crate) pinned_last10: Option<f64>,
    pub(crate) pinned_jobs: Option<f64>,
    pub(crate) listen_off_max_ms: Option<f64>,
}

/// A line of the table: a figure and its target.
pub(crate) struct Line {
    pub(crate) name: &'static str,
    pub(crate) unit: Unit,
    pub(crate) value: fn(&Figures) -> Option<f64>,
    pub(crate) target: Target,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Unit {
    PerSecond,
    Milliseconds,
    Bytes,
    Mebibytes,
    Jobs,
}

pub(crate) enum Target {
    None,
    /// At least this share of another figure of the same run.
    Share(f64, &'static str, fn(&Figures) -> Option<f64>),
    AtMost(f64),
}

/// The comparison of a figure with its target.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Verdict {
    /// The share of the limit that was reached, for targets that are shares.
    pub(crate) share: Option<f64>,
    pub(crate) passes: bool,
}

impl Line {
    /// `None` without a target, or if one of the two was not measured.
    pub(crate) fn verdict(&self, figures: &Figures) -> Option<Verdict> {
        let value = (self.value)(figures)?;
        match self.target {
            Target::None => None,
            Target::Share(least, _, limit) => {
                let share = value / limit(figures)?;
                Some(Verdict { share: Some(share), passes: share >= least })
            }
            Target::AtMost(most) => Some(Verdict { share: None, passes: value <= most }),
        }
    }
}

/// In the order in which they are measured.
pub(crate) const LINES: &[Line] = &[
    rate("raw.insert_body", |f| f.raw.insert_body, Target::None),
    rate("raw.insert_live", |f| f.raw.insert_live, Target::None),
    rate("raw.delete_live", |f| f.raw.delete_live, Target::None),
    rate("raw.append_attempt", |f| f.raw.append_attempt, Target::None),
    rate("raw.lifecycle_limit", |f| f.raw.lifecycle_limit, Target::None),
    rate("raw.insert_bulk", |f| f.raw.insert_bulk, Target::None),
    rate("raw.single_commits_32", |f| f.raw.single_commits_32, Target::None),
    rate("enqueue_bulk", |f| f.enqueue_bulk, Target::Share(0.9, "insert_bulk", |f| f.raw.insert_bulk)),
    rate(
        "enqueue_single_32",
        |f| f.enqueue_single_32,
        Target::Share(0.7, "single_commits_32", |f| f.raw.single_commits_32),
    ),
    rate("drain", |f| f.drain, Target::Share(0.6, "lifecycle_limit", |f| f.raw.lifecycle_limit)),
    line("worker_rss_mib", Unit::Mebibytes, |f| f.worker_rss_mib, Target::AtMost(40.0)),
    rate("steady", |f| f.steady, Target::Share(0.5, "lifecycle_limit", |f| f.raw.lifecycle_limit)),
    rate("steady_first10", |f| f.steady_first10, Target::None),
    rate("steady_last10", |f| f.steady_last10, Target::Share(0.9, "steady_first10", |f| f.steady_first10)),
    rate("steady_pinned", |f| f.steady_pinned, Target::Share(0.9, "steady", |f| f.steady)),
    line("pinned, jobs", Unit::Jobs, |f| f.extra.pinned_jobs, Target::None),
    rate(
        "pinned, last 10 s",
        |f| f.extra.pinned_last10,
        Target::Share(0.9, "its first 10 s", |f| f.extra.pinned_first10),
    ),
    rate("fair_single_tenant", |f| f.fair_single_tenant, Target::None),
    rate("fair", |f| f.fair, Target::Share(0.9, "fair_single_tenant", |f| f.fair_single_tenant)),
    line("fair_small_done_at", Unit::Jobs, |f| f.fair_small_done_at, Target::AtMost(3000.0)),
    rate("drain_with_history", |f| f.drain_with_history, Target::Share(0.9, "drain", |f| f.drain)),
    line("latency_p50_ms", Unit::Milliseconds, |f| f.latency_p50_ms, Target::AtMost(0.8)),
    line("latency_p99_ms", Unit::Milliseconds, |f| f.latency_p99_ms, Target::AtMost(2.0)),
    // The worker's default poll interval.
    line("listen off, max", Unit::Milliseconds, |f| f.extra.listen_off_max_ms, Target::AtMost(1000.0)),
    line("wal_bytes_per_job", Unit::Bytes, |f| f.wal_bytes_per_job, Target::AtMost(800.0)),
];

const fn rate(name: &'static str, value: fn(&Figures) -> Option<f64>, target: Target) -> Line {
    line(name, Unit::PerSecond, value, target)
}

const fn line(name: &'static str, unit: Unit, value: fn(&Figures) -> Option<f64>, target: Target) -> Line {
    Line { name, unit, value, target }
}

#[cfg(test)]
mod tests {
    use super::{Figures, LINES, Verdict};

    fn verdict(name: &str, figures: &Figures) -> Option<Verdict> {
        LINES.iter().find(|line| line.name == name).unwrap().verdict(figures)
    }

    #[test]
    fn a_share_is_compared_with_the_limit_of_the_same_run() {
        let mut figures = Figures { drain: Some(60.0), ..Figures::default() };
        assert_eq!(verdict("drain", &figures), None);
        figures.raw.lifecycle_limit = Some(100.0);
        assert_eq!(verdict("drain", &figures), Some(Verdict { share: Some(0.6), passes: true }));
        figures.drain = Some(59.0);
        assert!(!verdict("drain", &figures).unwrap().passes);
    }

    #[test]
    fn a_maximum_is_compared_directly() {
        let figures = Figures { wal_bytes_per_job: Some(1501.0), ..Figures::default() };
        assert_eq!(verdict("wal_bytes_per_job", &figures), Some(Verdict { share: None, passes: false }));
    }

    #[test]
    fn the_file_has_exactly_the_documented_fields() {
        let file = serde_json::to_value(Figures::default()).unwrap();
        let names =
            |value: &serde_json::Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
        let mut expected = vec![
            "raw",
            "enqueue_bulk",
            "enqueue_single_32",
            "drain",
            "drain_with_history",
            "steady",
            "steady_first10",
            "steady_last10",
            "steady_pinned",
            "fair",
            "fair_single_tenant",
            "fair_small_done_at",
            "latency_p50_ms",
            "latency_p99_ms",
            "wal_bytes_per_job",
            "worker_rss_mib",
        ];
        expected.sort_unstable();
        let mut found = names(&file);
        found.sort_unstable();
        assert_eq!(found, expected);
        let mut raw = names(&file["raw"]);
        raw.sort_unstable();
        assert_eq!(
            raw,
            [
                "append_attempt",
                "delete_live",
                "insert_body",
                "insert_bulk",
                "insert_live",
                "lifecycle_limit",
                "single_commits_32"
            ]
        );
    }
}
