//! The soak: a whole installation of real processes under load and faults, and a checker that proves afterwards that nothing was lost,
//! doubled or left behind.
//!
//! The parts, in the order of their use: [`plan`] parses the command line, [`installation`] starts the processes, [`load`] uses them in
//! every way, [`faults`] disturbs them by a seeded schedule, [`ledger`] records outside of the database what happened, [`snapshots`]
//! watches the limits, [`quiet`] lets everything end, [`checker`] compares the ledger with the database, and [`report`] prints the table.

mod checker;
mod faults;
mod installation;
mod ledger;
mod load;
mod plan;
mod quiet;
mod recent;
mod report;
mod snapshots;
pub(crate) mod work;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use self::checker::Violation;
use self::faults::{Faults, plan as plan_faults};
use self::installation::Installation;
use self::ledger::Ledger;
use self::load::{Callers, Pace};
pub(crate) use self::plan::SoakPlan;
use self::recent::Recent;
use self::report::Report;
use crate::Result;

/// What all parts share.
#[derive(Debug)]
pub(crate) struct Site {
    /// The data, logs and ledgers of this run.
    directory: PathBuf,
    ledger: Arc<Ledger>,
    /// Callers and faults hold it for reading; a quiet point holds it for writing.
    gate: tokio::sync::RwLock<()>,
    recent: Recent,
    intents: AtomicU64,
    events: AtomicU64,
    acked: AtomicU64,
}

impl Site {
    fn next_intent(&self) -> u64 {
        self.intents.fetch_add(1, Ordering::Relaxed) + 1
    }

    fn next_event(&self) -> u64 {
        self.events.fetch_add(1, Ordering::Relaxed) + 1
    }

    fn count_acked(&self, jobs: u64) {
        self.acked.fetch_add(jobs, Ordering::Relaxed);
    }
}

/// Between two lines of progress.
const PROGRESS: Duration = Duration::from_secs(10);
/// Between two quiet points of a long run.
const QUIET_EVERY: Duration = Duration::from_secs(300);

/// Exit code 0 if there was no violation, 1 if there was one.
pub(crate) async fn run(plan: &SoakPlan) -> Result<ExitCode> {
    let directory = std::env::temp_dir().join(format!("windlass-soak-{}", std::process::id()));
    std::fs::create_dir_all(directory.join("ledger"))?;
    println!(
        "soak: seed {}, {} minutes, {} jobs, in {}",
        plan.seed,
        plan.minutes,
        plan.jobs,
        directory.display()
    );
    let site = Arc::new(Site {
        ledger: Arc::new(Ledger::open(&directory.join("ledger/harness"))?),
        directory: directory.clone(),
        gate: tokio::sync::RwLock::new(()),
        recent: Recent::default(),
        intents: AtomicU64::new(0),
        events: AtomicU64::new(0),
        acked: AtomicU64::new(0),
    });
    let report = soak(&site, plan).await?;
    report.print();
    if let Some(file) = &plan.json {
        report.write(file)?;
    }
    if !report.is_clean() {
        println!("The ledgers and logs are in {}.", directory.display());
        return Ok(ExitCode::FAILURE);
    }
    if plan.keep {
        println!("The ledgers and logs are in {}.", directory.display());
    } else {
        std::fs::remove_dir_all(&directory)?;
    }
    Ok(ExitCode::SUCCESS)
}

async fn soak(site: &Arc<Site>, plan: &SoakPlan) -> Result<Report> {
    println!("soak: starting Postgres and the processes");
    let installation = Arc::new(Installation::start(site, plan).await?);
    let during = plan.duration();
    let pace = Arc::new(Pace::new(plan.jobs, during));
    let stop = CancellationToken::new();
    let callers = Callers::new(site, &installation, &pace, &stop, plan.seed).await?;
    let mut loops = callers.start();
    let faults = Faults::new(site, &installation);
    // The last faults end before the load does, so that what they broke is used again.
    let planned = plan_faults(plan.seed, during.mul_f64(0.9), plan.previous.is_some());
    let disturbing = tokio::spawn(faults.clone().run(planned, pace.clone(), stop.clone()));
    let watcher = snapshots::watch(installation.clone(), pace.clone(), stop.clone());
    let watching = tokio::spawn(watcher);

    let (mut violations, mut quiets) = (Vec::new(), 1);
    let mut next_progress = PROGRESS;
    while pace.elapsed() < during && violations.is_empty() {
        tokio::time::sleep(Duration::from_millis(200)).await;
        if pace.elapsed() >= next_progress {
            next_progress += PROGRESS;
            progress(site, &pace, &faults);
        }
        if pace.elapsed() > QUIET_EVERY * quiets && during.saturating_sub(pace.elapsed()) > QUIET_EVERY / 2 {
            quiets += 1;
            violations = quiet_point(site, &installation, &pace).await?;
        }
    }
    stop.cancel();
    while loops.join_next().await.is_some() {}
    disturbing.await?;
    let snapshots = watching.await?;
    drop(callers);

    println!("soak: load and faults have ended; waiting until every job has ended");
    let _alone = site.gate.write().await;
    let drained = quiet::drain(site, &installation).await?;
    let counts = faults.counts();
    let failures = faults.failures();
    drop(faults);
    let mut installation =
        Arc::into_inner(installation).ok_or("a caller still uses the installation after its end")?;
    println!("soak: drained in {:.1} s; stopping the processes and checking", drained.as_secs_f64());
    installation.stop_processes().await?;
    let mut evidence = quiet::evidence(site, &installation).await?;
    evidence.snapshots = snapshots;
    evidence.orphans = quiet::orphans(&site.directory)?;
    evidence.audit_faults = quiet::audit_faults(&installation).await?;
    violations.extend(checker::check(&evidence));
    let report = Report::new(plan, &evidence, violations, &counts, failures);
    installation.stop_postgres().await?;
    Ok(report)
}

/// Pauses load and faults, lets every job end, and checks.
async fn quiet_point(site: &Arc<Site>, installation: &Installation, pace: &Pace) -> Result<Vec<Violation>> {
    pace.pause();
    let _alone = site.gate.write().await;
    let drained = quiet::drain(site, installation).await?;
    let evidence = quiet::evidence(site, installation).await?;
    let violations = checker::check(&evidence);
    println!(
        "soak: quiet point after {:.0} s: {} jobs ended in {:.1} s, {} violations",
        pace.elapsed().as_secs_f64(),
        evidence.jobs.len(),
        drained.as_secs_f64(),
        violations.len()
    );
    pace.resume();
    Ok(violations)
}

fn progress(site: &Site, pace: &Pace, faults: &Faults) {
    let injected: u64 = faults.counts().values().sum();
    let seconds = pace.elapsed().as_secs();
    let acked = site.acked.load(Ordering::Relaxed);
    println!(
        "soak: {seconds:>5} s  {acked:>8} jobs acknowledged  {:>6} unfinished  {injected:>5} faults",
        pace.backlog()
    );
}
