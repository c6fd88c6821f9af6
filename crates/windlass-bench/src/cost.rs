//! What some work cost: the CPU time of the server's processes and of the client, and how much of the machine others used meanwhile.
//!
//! A rate depends on what else runs on the machine. The CPU time per job does so much less, so it is read beside every rate.

use std::time::Instant;

use serde::Serialize;

use crate::Result;
use crate::percentile::median;
use crate::process::{cpu_seconds, program_of, server_cpu_seconds};
use crate::stolen::Busy;

/// Read before the work.
pub(crate) struct Meter {
    /// Any session of the server.
    backend: u32,
    server: f64,
    own: f64,
    busy: Option<Busy>,
    began: Instant,
}

impl Meter {
    pub(crate) fn start(backend: u32) -> Result<Self> {
        // The number is of the server's machine, where another process may have it here.
        let is_local = program_of(backend).is_some_and(|program| program.starts_with("postgres"));
        let server = server_cpu_seconds(backend).filter(|_| is_local);
        let server = server.ok_or("the server must run on this machine: its CPU time is read from /proc")?;
        Ok(Self { backend, server, own: own_cpu(), busy: Busy::now(), began: Instant::now() })
    }

    /// `children`: the CPU time of client processes; without them this process is the client.
    pub(crate) fn stop(self, children: Option<f64>) -> Cost {
        let seconds = self.began.elapsed().as_secs_f64();
        let server = (server_cpu_seconds(self.backend).unwrap_or(self.server) - self.server).max(0.0);
        let own = own_cpu() - self.own;
        let cores = std::thread::available_parallelism().map_or(1, usize::from) as f64;
        let ours = (server + own + children.unwrap_or(0.0)) / (cores * seconds.max(0.01));
        let others = (Busy::share_since(self.busy) - ours).clamp(0.0, 1.0);
        Cost { server, client: children.unwrap_or(own), others }
    }
}

fn own_cpu() -> f64 {
    cpu_seconds(std::process::id()).unwrap_or_default()
}

/// In seconds of CPU time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Cost {
    pub(crate) server: f64,
    pub(crate) client: f64,
    /// The share of the machine that neither the server nor the client used: other programs, and other virtual machines.
    pub(crate) others: f64,
}

/// A rate with its cost per job.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct Rate {
    pub(crate) per_second: f64,
    /// Microseconds of CPU time per job.
    pub(crate) server_us: f64,
    pub(crate) client_us: f64,
    /// From 0 to 1.
    pub(crate) others: f64,
}

impl Rate {
    pub(crate) fn of(jobs: u64, seconds: f64, cost: &Cost) -> Self {
        let jobs = jobs.max(1) as f64;
        Self {
            per_second: jobs / seconds.max(1e-9),
            server_us: cost.server * 1e6 / jobs,
            client_us: cost.client * 1e6 / jobs,
            others: cost.others,
        }
    }

    /// Of server and client.
    pub(crate) fn cpu_us(&self) -> f64 {
        self.server_us + self.client_us
    }

    /// From several rounds: of the half in which others used least, the median of each number.
    pub(crate) fn of_rounds(rounds: &[Self]) -> Option<Self> {
        let mut rounds = rounds.to_vec();
        rounds.sort_by(|one, other| one.others.total_cmp(&other.others));
        rounds.truncate(rounds.len().div_ceil(2));
        let of = |field: fn(&Self) -> f64| median(&rounds.iter().map(field).collect::<Vec<_>>());
        Some(Self {
            per_second: of(|rate| rate.per_second)?,
            server_us: of(|rate| rate.server_us)?,
            client_us: of(|rate| rate.client_us)?,
            others: of(|rate| rate.others)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{Cost, Rate};

    #[test]
    fn a_rate_has_the_cost_of_one_job() {
        let rate = Rate::of(1000, 0.5, &Cost { server: 0.02, client: 0.01, others: 0.1 });
        assert_eq!((rate.per_second, rate.server_us, rate.client_us), (2000.0, 20.0, 10.0));
        assert_eq!(rate.cpu_us(), 30.0);
    }

    #[test]
    fn only_the_quieter_half_of_the_rounds_counts() {
        let round = |per_second, others| Rate { per_second, server_us: per_second, client_us: 1.0, others };
        let rounds = [round(9.0, 0.5), round(5.0, 0.0), round(7.0, 0.1), round(1.0, 0.9)];
        assert_eq!(Rate::of_rounds(&rounds), Some(round(5.0, 0.0)));
        assert_eq!(Rate::of_rounds(&[]), None);
    }
}
