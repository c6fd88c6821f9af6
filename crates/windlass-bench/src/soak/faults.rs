//! The faults, by a schedule that depends on the seed alone. Each is injected by a task of its own, so that they overlap; those that stop
//! Postgres itself wait for each other.
//!
//! How it stops: no fault starts after the token is canceled or while the gate is closed, and [`Faults::end`] waits for those that run.

mod database;
mod network;
mod plan;
mod postgres;
mod processes;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

pub(crate) use self::plan::{Kind, Planned, plan};
use super::Site;
use super::installation::Installation;
use super::ledger::Fact;
use super::load::Pace;
use crate::Result;

pub(crate) struct Faults {
    site: Arc<Site>,
    installation: Arc<Installation>,
    /// One at a time stops Postgres.
    postgres: tokio::sync::Mutex<()>,
    /// How often each kind was injected.
    done: Mutex<BTreeMap<Kind, u64>>,
    /// The reason why one was not.
    failed: Mutex<BTreeMap<Kind, String>>,
}

/// A fault can need Postgres, and another one may have stopped it: it tries again for this long.
const PATIENCE: Duration = Duration::from_secs(45);

impl Faults {
    pub(crate) fn new(site: &Arc<Site>, installation: &Arc<Installation>) -> Arc<Self> {
        Arc::new(Self {
            site: site.clone(),
            installation: installation.clone(),
            postgres: tokio::sync::Mutex::new(()),
            done: Mutex::default(),
            failed: Mutex::default(),
        })
    }

    /// Injects what is planned, by the clock of the load, and returns when the last fault has ended.
    pub(crate) async fn run(
        self: Arc<Self>,
        planned: Vec<Planned>,
        pace: Arc<Pace>,
        stop: CancellationToken,
    ) {
        let mut running = JoinSet::new();
        for one in planned {
            while pace.elapsed() < one.at && !stop.is_cancelled() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            if stop.is_cancelled() {
                break;
            }
            let faults = self.clone();
            running.spawn(async move {
                let _running = faults.site.gate.read().await;
                faults.inject(one).await;
            });
        }
        while running.join_next().await.is_some() {}
    }

    pub(crate) fn counts(&self) -> BTreeMap<Kind, u64> {
        self.done.lock().clone()
    }

    /// Kinds that could not be injected at least once, with the reason.
    pub(crate) fn failures(&self) -> BTreeMap<Kind, String> {
        self.failed.lock().clone()
    }

    async fn inject(&self, one: Planned) {
        let tried = tokio::time::timeout(PATIENCE, async {
            loop {
                // The same numbers for every try.
                match self.act(one.kind, StdRng::seed_from_u64(one.seed)).await {
                    Ok(detail) => return detail,
                    Err(error) => {
                        let mut failed = self.failed.lock();
                        failed.insert(one.kind, error.to_string());
                    }
                }
                tokio::time::sleep(Duration::from_millis(500)).await;
            }
        });
        if let Ok(detail) = tried.await {
            self.site.ledger.note(Fact::Fault { kind: one.kind.as_str().to_owned(), detail });
            let mut done = self.done.lock();
            *done.entry(one.kind).or_default() += 1;
        }
    }

    /// Injects the fault, waits until it has ended, and returns what was done.
    async fn act(&self, kind: Kind, mut random: StdRng) -> Result<String> {
        let (site, installation) = (&*self.site, &*self.installation);
        match kind {
            Kind::Kill(victim) => processes::kill(installation, victim, &mut random),
            Kind::Freeze(victim) => processes::freeze(site, installation, victim, &mut random).await,
            Kind::StepClock => processes::step_clock(installation, &mut random),
            Kind::RollUpgrade => processes::roll_upgrade(installation, &mut random),
            Kind::KillCommand => processes::kill_command(installation, &mut random).await,
            Kind::FreezeCommand => processes::freeze_command(installation, &mut random).await,
            Kind::KillBackend => {
                let _only = self.postgres.lock().await;
                postgres::kill_backend(installation).await
            }
            Kind::TerminateBackends => database::terminate_backends(installation, &mut random).await,
            Kind::RestartPostgres => {
                let _only = self.postgres.lock().await;
                postgres::restart(installation).await
            }
            Kind::KillPostmaster => {
                let _only = self.postgres.lock().await;
                postgres::kill(installation).await
            }
            Kind::CrashInCheckpoint => {
                let _only = self.postgres.lock().await;
                let after = Duration::from_millis(random.random_range(1..60));
                postgres::crash_in_checkpoint(installation, after).await
            }
            Kind::FillDisk => {
                let _only = self.postgres.lock().await;
                let lasts = Duration::from_millis(random.random_range(1500..4000));
                postgres::fill_disk(installation, lasts).await
            }
            Kind::CutNetwork
            | Kind::DelayToServer
            | Kind::DelayToClient
            | Kind::BlackHoleToServer
            | Kind::BlackHoleToClient
            | Kind::HalfOpenToServer
            | Kind::HalfOpenToClient => network::disturb(installation, kind, &mut random).await,
            Kind::LockTable => database::lock_table(installation, &mut random).await,
            Kind::VacuumFull => database::rewrite(installation, "vacuum full", &mut random).await,
            Kind::Reindex => database::rewrite(installation, "reindex table", &mut random).await,
            Kind::LongSnapshot => database::long_snapshot(installation, &mut random).await,
            Kind::StormConnections => database::storm(installation).await,
            Kind::Migrate => database::migrate(installation).await,
            Kind::InstallFunctions => database::install_functions(installation).await,
        }
    }
}
