//! windlass beside other queues, in one run on one machine and one server: every round measures the raw limit and then each queue,
//! each in a new database. The queues are installed at run time, each is driven by a small program of ours with the settings that
//! its documentation recommends for many short jobs, and all do the same work over the same kind of connection.

mod child;
mod figures;
mod install;
mod pgmq;
mod report;
mod round;
mod system;

use std::path::PathBuf;

use crate::Result;
use crate::server::Server;
use crate::stolen::Stolen;
use figures::Figures;
use install::Installed;
use round::Rounds;

pub(crate) use child::{Child, ChildCall, Program, run as run_child};
pub(crate) use system::{Measure, System};

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PeersPlan {
    pub(crate) rounds: u64,
    /// Jobs of a bulk enqueue and of the drain that follows.
    pub(crate) n: u64,
    /// Of a steady run.
    pub(crate) seconds: u64,
    /// All if empty.
    pub(crate) systems: Vec<System>,
    pub(crate) measures: Vec<Measure>,
    pub(crate) json: Option<PathBuf>,
}

impl PeersPlan {
    fn wants(&self, system: System) -> bool {
        self.systems.is_empty() || self.systems.contains(&system)
    }

    fn measures(&self, measure: Measure) -> bool {
        self.measures.is_empty() || self.measures.contains(&measure)
    }

    fn singles(&self) -> u64 {
        (self.n / 10).max(32)
    }

    fn latencies(&self) -> u64 {
        (self.n / 1000).clamp(5, 200)
    }
}

pub(crate) async fn run(plan: &PeersPlan) -> Result<()> {
    let server = Server::start().await?;
    let description = server.description().await?;
    println!("{description}");
    let mut figures = Figures::new(description);
    let mut installed = Vec::new();
    for system in System::ALL.into_iter().filter(|&system| plan.wants(system)) {
        match Installed::of(system).await {
            Ok(one) => {
                println!("{} {}", system.as_str(), one.version);
                figures.versions.insert(system.as_str(), one.version.clone());
                installed.push(one);
            }
            Err(error) => {
                println!("{} is not measured: it could not be installed: {error}", system.as_str());
                figures.not_installed.insert(system.as_str(), error.to_string());
            }
        }
    }
    let stolen = Stolen::watch();
    let mut rounds = Rounds::new(&server, plan);
    for round in 1..=plan.rounds {
        // Another queue is the first of each round, so that none always has the quieter or the warmer server.
        let first = (round - 1) as usize % installed.len().max(1);
        installed.rotate_left(first.min(1));
        rounds.round(round, &installed).await?;
        rounds.sum(&mut figures);
        figures.stolen = stolen.to_string();
        // After each round, so that a run that is interrupted leaves what it has measured.
        if let Some(file) = &plan.json {
            std::fs::write(file, format!("{}\n", serde_json::to_string_pretty(&figures)?))
                .map_err(|error| format!("cannot write {}: {error}", file.display()))?;
        }
    }
    report::print(&figures);
    server.stop().await
}
