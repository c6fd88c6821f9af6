//! Which faults are injected, and when: a pure function of the seed, so that the same seed repeats the same sequence.

use std::time::Duration;

use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};

use crate::soak::installation::slot::Role;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Kill(Victim),
    Freeze(Victim),
    StepClock,
    RollUpgrade,
    /// A program of a command job, or its supervisor.
    KillCommand,
    FreezeCommand,
    TerminateBackends,
    KillBackend,
    RestartPostgres,
    KillPostmaster,
    CrashInCheckpoint,
    FillDisk,
    CutNetwork,
    DelayToServer,
    DelayToClient,
    BlackHoleToServer,
    BlackHoleToClient,
    HalfOpenToServer,
    HalfOpenToClient,
    LockTable,
    VacuumFull,
    Reindex,
    LongSnapshot,
    StormConnections,
    Migrate,
    InstallFunctions,
}

/// The kinds of processes that are killed and frozen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Victim {
    Server,
    Keeper,
    RustWorker,
    CommandWorker,
    HttpWorker,
    PullWorker,
}

impl Victim {
    const ALL: [Self; 6] = [
        Self::Server,
        Self::Keeper,
        Self::RustWorker,
        Self::CommandWorker,
        Self::HttpWorker,
        Self::PullWorker,
    ];

    pub(crate) const fn role(self) -> Role {
        match self {
            Self::Server => Role::Server,
            Self::Keeper => Role::Keeper,
            Self::RustWorker => Role::RustWorker,
            Self::CommandWorker => Role::CommandWorker,
            Self::HttpWorker => Role::HttpWorker,
            Self::PullWorker => Role::PullWorker,
        }
    }
}

impl Kind {
    /// The name in the report.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Kill(Victim::Server) => "kill_server",
            Self::Kill(Victim::Keeper) => "kill_keeper",
            Self::Kill(Victim::RustWorker) => "kill_rust_worker",
            Self::Kill(Victim::CommandWorker) => "kill_command_worker",
            Self::Kill(Victim::HttpWorker) => "kill_http_worker",
            Self::Kill(Victim::PullWorker) => "kill_pull_worker",
            Self::Freeze(Victim::Server) => "freeze_server",
            Self::Freeze(Victim::Keeper) => "freeze_keeper",
            Self::Freeze(Victim::RustWorker) => "freeze_rust_worker",
            Self::Freeze(Victim::CommandWorker) => "freeze_command_worker",
            Self::Freeze(Victim::HttpWorker) => "freeze_http_worker",
            Self::Freeze(Victim::PullWorker) => "freeze_pull_worker",
            Self::StepClock => "step_clock",
            Self::RollUpgrade => "roll_upgrade",
            Self::KillCommand => "kill_command",
            Self::FreezeCommand => "freeze_command",
            Self::TerminateBackends => "terminate_backends",
            Self::KillBackend => "kill_backend",
            Self::RestartPostgres => "restart_postgres",
            Self::KillPostmaster => "kill_postmaster",
            Self::CrashInCheckpoint => "crash_in_checkpoint",
            Self::FillDisk => "fill_disk",
            Self::CutNetwork => "cut_network",
            Self::DelayToServer => "delay_to_server",
            Self::DelayToClient => "delay_to_client",
            Self::BlackHoleToServer => "black_hole_to_server",
            Self::BlackHoleToClient => "black_hole_to_client",
            Self::HalfOpenToServer => "half_open_to_server",
            Self::HalfOpenToClient => "half_open_to_client",
            Self::LockTable => "lock_table",
            Self::VacuumFull => "vacuum_full",
            Self::Reindex => "reindex",
            Self::LongSnapshot => "long_snapshot",
            Self::StormConnections => "storm_connections",
            Self::Migrate => "migrate",
            Self::InstallFunctions => "install_functions",
        }
    }

    /// How often the kind occurs in one round of all kinds. What stops everything for seconds is rare.
    const fn weight(self) -> usize {
        match self {
            Self::Kill(_) => 3,
            Self::TerminateBackends => 4,
            Self::CutNetwork
            | Self::DelayToServer
            | Self::DelayToClient
            | Self::BlackHoleToServer
            | Self::BlackHoleToClient
            | Self::HalfOpenToServer
            | Self::HalfOpenToClient
            | Self::LockTable
            | Self::KillCommand
            | Self::StepClock => 2,
            Self::Freeze(_)
            | Self::FreezeCommand
            | Self::KillBackend
            | Self::RollUpgrade
            | Self::RestartPostgres
            | Self::KillPostmaster
            | Self::CrashInCheckpoint
            | Self::FillDisk
            | Self::VacuumFull
            | Self::Reindex
            | Self::LongSnapshot
            | Self::StormConnections
            | Self::Migrate
            | Self::InstallFunctions => 1,
        }
    }

    /// All kinds; a rolling upgrade needs a second program.
    pub(crate) fn all(has_previous: bool) -> Vec<Self> {
        let mut kinds: Vec<Self> =
            Victim::ALL.into_iter().flat_map(|victim| [Self::Kill(victim), Self::Freeze(victim)]).collect();
        kinds.extend([
            Self::StepClock,
            Self::KillCommand,
            Self::FreezeCommand,
            Self::TerminateBackends,
            Self::KillBackend,
            Self::RestartPostgres,
            Self::KillPostmaster,
            Self::CrashInCheckpoint,
            Self::FillDisk,
            Self::CutNetwork,
            Self::DelayToServer,
            Self::DelayToClient,
            Self::BlackHoleToServer,
            Self::BlackHoleToClient,
            Self::HalfOpenToServer,
            Self::HalfOpenToClient,
            Self::LockTable,
            Self::VacuumFull,
            Self::Reindex,
            Self::LongSnapshot,
            Self::StormConnections,
            Self::Migrate,
            Self::InstallFunctions,
        ]);
        if has_previous {
            kinds.push(Self::RollUpgrade);
        }
        kinds
    }
}

/// One fault. Its own numbers (which process, for how long) come from its seed, so they do not depend on what happened before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Planned {
    pub(crate) at: Duration,
    pub(crate) kind: Kind,
    pub(crate) seed: u64,
}

/// Between two faults, on average: 3,000 in an hour.
const GAP_MILLISECONDS: u64 = 1200;

/// Rounds that contain every kind, each in another order.
pub(crate) fn plan(seed: u64, during: Duration, has_previous: bool) -> Vec<Planned> {
    let mut random = StdRng::seed_from_u64(seed);
    let (mut at, mut planned) = (Duration::ZERO, Vec::new());
    loop {
        // Every kind once before any is repeated, so that a short run has all of them.
        let mut first = Kind::all(has_previous);
        let mut rest: Vec<Kind> =
            first.iter().flat_map(|kind| std::iter::repeat_n(*kind, kind.weight() - 1)).collect();
        first.shuffle(&mut random);
        rest.shuffle(&mut random);
        for kind in first.into_iter().chain(rest) {
            at += Duration::from_millis(random.random_range(1..2 * GAP_MILLISECONDS));
            if at >= during {
                return planned;
            }
            planned.push(Planned { at, kind, seed: random.random() });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::time::Duration;

    use super::{Kind, plan};

    #[test]
    fn a_seed_repeats_its_sequence_and_another_one_does_not() {
        let hour = Duration::from_secs(3600);
        assert_eq!(plan(7, hour, false), plan(7, hour, false));
        assert_ne!(plan(7, hour, false), plan(8, hour, false));
        assert!(plan(7, hour, false).len() > 2800);
    }

    #[test]
    fn two_minutes_contain_every_kind() {
        for seed in 0..50 {
            let kinds: BTreeSet<Kind> =
                plan(seed, Duration::from_secs(90), true).iter().map(|one| one.kind).collect();
            assert_eq!(kinds, Kind::all(true).into_iter().collect(), "seed {seed}");
        }
    }

    #[test]
    fn every_kind_has_its_own_name() {
        let names: BTreeSet<&str> = Kind::all(true).into_iter().map(Kind::as_str).collect();
        assert_eq!(names.len(), Kind::all(true).len());
    }
}
