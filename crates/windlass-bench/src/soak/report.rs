//! The table of a run, and the same figures as JSON.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};

use super::SoakPlan;
use super::checker::{self, CHECKS, Evidence, Recovery, Violation};
use super::faults::Kind;
use crate::Result;

#[derive(Debug)]
pub(crate) struct Report {
    commit: String,
    seed: u64,
    minutes: f64,
    jobs: u64,
    faults: BTreeMap<&'static str, u64>,
    failures: BTreeMap<&'static str, String>,
    violations: Vec<Violation>,
    recovery: Recovery,
    trace: Option<(Violation, Vec<String>)>,
}

/// How many violations of each check are printed in words.
const SHOWN: usize = 5;
const TRACE_LINES: usize = 60;

impl Report {
    pub(super) fn new(
        plan: &SoakPlan,
        evidence: &Evidence,
        violations: Vec<Violation>,
        faults: &BTreeMap<Kind, u64>,
        failures: BTreeMap<Kind, String>,
    ) -> Self {
        let names = Kind::all(plan.previous.is_some()).into_iter();
        Self {
            commit: plan.commit.clone(),
            seed: plan.seed,
            minutes: plan.minutes,
            jobs: checker::enqueued(evidence),
            faults: names
                .map(|kind| (kind.as_str(), faults.get(&kind).copied().unwrap_or_default()))
                .collect(),
            failures: failures
                .into_iter()
                .filter(|(kind, _)| !faults.contains_key(kind))
                .map(|(kind, why)| (kind.as_str(), why))
                .collect(),
            recovery: checker::recoveries(evidence),
            trace: checker::trace(evidence, &violations),
            violations,
        }
    }

    pub(super) fn is_clean(&self) -> bool {
        self.violations.is_empty()
    }

    pub(super) fn print(&self) {
        let counts = checker::count(&self.violations);
        println!("\n| fault | injected |\n|---|---:|");
        for (name, count) in &self.faults {
            println!("| `{name}` | {count} |");
        }
        println!("\n| # | promise | violations |\n|---|---|---:|");
        for (check, promise) in CHECKS {
            println!("| {check} | {promise} | {} |", counts[check]);
        }
        let Recovery { jobs, p50, p99, max } = &self.recovery;
        let faults: u64 = self.faults.values().sum();
        println!("\ncommit {}, seed {}, {} minutes", self.commit, self.seed, self.minutes);
        println!("{} jobs, {faults} faults, {} violations", self.jobs, self.violations.len());
        println!(
            "{jobs} attempts lost their worker; the next one started after p50 {p50:.1} s, p99 {p99:.1} s, max {max:.1} s"
        );
        for (name, why) in &self.failures {
            println!("{name} was not injected: {why}");
        }
        // Some of each kind.
        let mut shown: BTreeMap<&str, usize> = BTreeMap::new();
        for violation in &self.violations {
            let shown = shown.entry(violation.check).or_default();
            *shown += 1;
            if *shown > SHOWN {
                continue;
            }
            let job = violation.job.map(|job| format!(" of job {job}")).unwrap_or_default();
            println!("violation of {}{job}: {}", violation.check, violation.text);
        }
        if let Some((violation, lines)) = &self.trace {
            println!("\nThe shortest trace, of a violation of {} with seed {}:", violation.check, self.seed);
            lines.iter().take(TRACE_LINES).for_each(|line| println!("{line}"));
        }
        if !self.is_clean() {
            println!("\nRepeat the faults with --seed {} --minutes {}.", self.seed, self.minutes);
        }
    }

    pub(super) fn write(&self, file: &Path) -> Result<()> {
        Ok(std::fs::write(file, format!("{:#}\n", self.json()))?)
    }

    fn json(&self) -> Value {
        json!({
            "commit": self.commit,
            "seed": self.seed,
            "minutes": self.minutes,
            "jobs": self.jobs,
            "faults": self.faults,
            "violations": checker::count(&self.violations),
            "recovery_p50_s": self.recovery.p50,
            "recovery_p99_s": self.recovery.p99,
            "recovery_max_s": self.recovery.max,
        })
    }
}
