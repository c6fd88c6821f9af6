//! The sizes of the measurements.

use crate::args::Size;
use crate::driver::{SinglePlan, SteadyPlan};
use crate::raw::RawPlan;

pub(crate) struct Sizes {
    pub(crate) raw: RawPlan,
    /// Alternating rounds of raw limits, enqueues and drain: single runs differ by ten percent and more.
    pub(crate) rounds: usize,
    /// Drains with a history.
    pub(crate) history_rounds: usize,
    pub(crate) bulk: u64,
    pub(crate) single: SinglePlan,
    pub(crate) drain: u64,
    pub(crate) steady: SteadyPlan,
    pub(crate) pinned: SteadyPlan,
    /// Seconds at the beginning and at the end of a steady run that are compared.
    pub(crate) window: usize,
    /// Jobs of the large tenant, and how many runs are timed.
    pub(crate) fair: u64,
    pub(crate) fair_timed: u64,
    pub(crate) history: u64,
    pub(crate) latency: u64,
    pub(crate) listen_off: u64,
}

const STEADY: SteadyPlan =
    SteadyPlan { seconds: 60, cap: 20_000, batch: 500, callers: 2, at_least: 0, most_seconds: 60 };

impl Sizes {
    pub(crate) fn of(size: Size) -> Self {
        match size {
            Size::Quick => Self {
                raw: RawPlan { rows: 100_000, single_commits: 16_000 },
                rounds: 3,
                history_rounds: 1,
                bulk: 100_000,
                single: SinglePlan { n: 16_000, callers: 32 },
                drain: 100_000,
                steady: SteadyPlan { seconds: 12, most_seconds: 12, ..STEADY },
                pinned: SteadyPlan { seconds: 12, most_seconds: 12, ..STEADY },
                window: 4,
                fair: 150_000,
                fair_timed: 60_000,
                history: 300_000,
                latency: 200,
                listen_off: 4,
            },
            Size::Standard => Self {
                raw: RawPlan { rows: 300_000, single_commits: 64_000 },
                rounds: 5,
                history_rounds: 3,
                bulk: 300_000,
                single: SinglePlan { n: 64_000, callers: 32 },
                drain: 200_000,
                steady: STEADY,
                pinned: SteadyPlan { at_least: 600_000, most_seconds: 300, ..STEADY },
                window: 10,
                fair: 1_000_000,
                fair_timed: 300_000,
                history: 2_000_000,
                latency: 1000,
                listen_off: 20,
            },
            Size::Full => Self { history: 10_000_000, ..Self::of(Size::Standard) },
        }
    }
}
