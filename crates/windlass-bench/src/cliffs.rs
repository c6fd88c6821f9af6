//! Whether a queue of an unusual shape costs much more than a plain one: very many tenants, limits, blocked jobs, jobs that are due at
//! the same instant, dependents of one job, and one large tenant beside small ones. Each is compared with a plain drain right
//! before it.

mod cases;
mod claims;
mod drain;

use std::path::PathBuf;

use serde::Serialize;
use serde_json::json;

use crate::Result;
use crate::server::Server;
use crate::stolen::Stolen;
use cases::Cases;
use drain::Drained;

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct CliffsPlan {
    /// The sizes are divided by this.
    pub(crate) divisor: u64,
    /// All if empty.
    pub(crate) only: Vec<Case>,
    pub(crate) json: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Case {
    /// 10,000 tenants with one job each.
    Tenants,
    /// 1,000 lanes of 1,000 tenants with a limit of running jobs each.
    Limits,
    /// A plain drain beside 300,000 blocked jobs.
    Blocked,
    /// The end of such jobs: 300 jobs, each with 1,000 dependents.
    Unblocked,
    /// 1,000,000 jobs that are due in the same second.
    Due,
    /// One job with 10,000 dependents.
    FanOut,
    /// One tenant with 1,000,000 jobs and 100 tenants with 10.
    Fair,
}

impl Case {
    pub(crate) const ALL: [Self; 7] =
        [Self::Tenants, Self::Limits, Self::Blocked, Self::Unblocked, Self::Due, Self::FanOut, Self::Fair];

    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Tenants => "tenants",
            Self::Limits => "limits",
            Self::Blocked => "blocked",
            Self::Unblocked => "unblocked",
            Self::Due => "due",
            Self::FanOut => "fan-out",
            Self::Fair => "fair",
        }
    }

    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|case| case.as_str() == name)
    }
}

const MOST_TIMES_PLAIN: f64 = 3.0;
const MOST_CLAIM_MS: f64 = 50.0;
/// Small tenants are done before this many jobs have run …
const MOST_BEFORE_SMALL: u64 = 3000;
/// … and the throughput is at least this share of that of the large tenant alone.
const LEAST_SHARE: f64 = 0.9;

/// A case beside the plain drain that it is compared with; the case `fair` is compared with the large tenant alone.
#[derive(Debug, Serialize)]
struct Figure {
    case: Case,
    #[serde(flatten)]
    drained: Drained,
    plain_per_second: f64,
    plain_cpu_us: f64,
    /// The CPU time per job of server and client, divided by that of the plain drain.
    times_plain: f64,
    targets: Vec<Target>,
}

#[derive(Debug, Serialize)]
struct Target {
    target: String,
    is_met: bool,
    found: String,
}

impl Figure {
    fn new(case: Case, drained: Drained, plain: &Drained) -> Self {
        let times_plain = drained.rate.cpu_us() / plain.rate.cpu_us().max(0.1);
        let target = |target: String, is_met, found| Target { target, is_met, found };
        let mut targets = vec![
            target(
                format!("CPU per job at most {MOST_TIMES_PLAIN} times the plain drain"),
                times_plain <= MOST_TIMES_PLAIN,
                format!("{times_plain:.2}"),
            ),
            target(
                format!("claims p99 at most {MOST_CLAIM_MS} ms"),
                drained.claim_p99_ms <= MOST_CLAIM_MS,
                format!("{:.1} ms", drained.claim_p99_ms),
            ),
        ];
        if let Some(small_done_at) = drained.small_done_at {
            let share = drained.rate.per_second / plain.rate.per_second.max(1e-9);
            targets.push(target(
                format!("small tenants are done before {MOST_BEFORE_SMALL} jobs have run"),
                small_done_at < MOST_BEFORE_SMALL,
                small_done_at.to_string(),
            ));
            targets.push(target(
                format!("at least {LEAST_SHARE} of the rate of one tenant"),
                share >= LEAST_SHARE,
                format!("{share:.2}, {:.2} by CPU per job", 1.0 / times_plain.max(1e-9)),
            ));
        }
        let (plain_per_second, plain_cpu_us) = (plain.rate.per_second, plain.rate.cpu_us());
        Self { case, drained, plain_per_second, plain_cpu_us, times_plain, targets }
    }
}

pub(crate) async fn run(plan: &CliffsPlan) -> Result<()> {
    let server = Server::start().await?;
    let description = server.description().await?;
    println!("{description}\n");
    println!(
        "{:<10} {:>9} {:>9} {:>10} {:>10} {:>10} {:>6} {:>10} {:>7}",
        "case", "jobs", "per s", "server us", "client us", "plain us", "times", "claim p99", "others"
    );
    let stolen = Stolen::watch();
    let cases = Cases::new(&server, plan.divisor)?;
    let mut figures = Vec::new();
    for case in Case::ALL.into_iter().filter(|case| plan.only.is_empty() || plan.only.contains(case)) {
        eprintln!("{}", case.as_str());
        let plain = cases.plain(case).await?;
        let drained = cases.run(case).await.map_err(|error| format!("{}: {error}", case.as_str()))?;
        let figure = Figure::new(case, drained, &plain);
        print(&figure);
        figures.push(figure);
    }
    println!("{stolen}");
    server.stop().await?;
    if let Some(file) = &plan.json {
        let all = json!({ "server": description, "divisor": plan.divisor, "cases": figures });
        std::fs::write(file, format!("{}\n", serde_json::to_string_pretty(&all)?))
            .map_err(|error| format!("cannot write {}: {error}", file.display()))?;
        println!("written to {}", file.display());
    }
    Ok(())
}

fn print(figure: &Figure) {
    let (drained, rate) = (&figure.drained, &figure.drained.rate);
    println!(
        "{:<10} {:>9} {:>9.0} {:>10.1} {:>10.1} {:>10.1} {:>6.2} {:>7.1} ms {:>6.0}%",
        figure.case.as_str(),
        drained.jobs,
        rate.per_second,
        rate.server_us,
        rate.client_us,
        figure.plain_cpu_us,
        figure.times_plain,
        drained.claim_p99_ms,
        rate.others * 100.0
    );
    for target in &figure.targets {
        let word = if target.is_met { "met   " } else { "MISSED" };
        println!("  {word} {}: {}", target.target, target.found);
    }
}

#[cfg(test)]
mod tests {
    use super::drain::Drained;
    use super::{Case, Figure};
    use crate::cost::Rate;

    fn drained(per_second: f64, server_us: f64, small_done_at: Option<u64>) -> Drained {
        let rate = Rate { per_second, server_us, client_us: 0.0, others: 0.0 };
        Drained { jobs: 1, rate, claim_p99_ms: 20.0, small_done_at }
    }

    #[test]
    fn a_case_is_compared_with_its_plain_drain() {
        let figure = Figure::new(Case::Tenants, drained(10.0, 61.0, None), &drained(30.0, 20.0, None));
        let met: Vec<bool> = figure.targets.iter().map(|target| target.is_met).collect();
        assert_eq!(met, [false, true]);
        let figure = Figure::new(Case::Fair, drained(28.0, 22.0, Some(3000)), &drained(30.0, 20.0, None));
        let met: Vec<bool> = figure.targets.iter().map(|target| target.is_met).collect();
        assert_eq!(met, [true, true, false, true]);
    }
}
