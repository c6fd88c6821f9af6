//! How far ahead of its runs a worker may claim: as many jobs as it will start until another claim could return. Short
//! jobs then have the next job already claimed; long ones are left to a worker with a free slot.

use std::time::{Duration, Instant};

/// Approximately the time to write an end and the next claim under load.
pub(crate) const HORIZON: Duration = Duration::from_millis(20);
const SAMPLE: Duration = Duration::from_millis(25);

/// Measures how fast runs end.
#[derive(Debug)]
pub(crate) struct Pace {
    since: Instant,
    ended: usize,
    per_second: f64,
}

impl Pace {
    pub(crate) fn new(now: Instant) -> Self {
        Self { since: now, ended: 0, per_second: 0.0 }
    }

    /// Returns how many jobs may be held in addition to the running ones, when this many runs have ended so far.
    pub(crate) fn ahead(&mut self, now: Instant, ended: usize) -> usize {
        let past = now.saturating_duration_since(self.since);
        if past >= SAMPLE {
            self.per_second = ended.wrapping_sub(self.ended) as f64 / past.as_secs_f64();
            (self.since, self.ended) = (now, ended);
        }
        (self.per_second * HORIZON.as_secs_f64()) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::{Duration, Instant, Pace};

    fn after(runs: usize, past: Duration) -> usize {
        let began = Instant::now();
        Pace::new(began).ahead(began + past, runs)
    }

    #[test]
    fn a_worker_claims_ahead_jobs_that_start_within_twenty_milliseconds() {
        assert_eq!(after(1_000, Duration::from_secs(1)), 20);
        assert_eq!(after(100, Duration::from_millis(100)), 20);
    }

    #[test]
    fn long_jobs_are_not_claimed_ahead() {
        assert_eq!(after(49, Duration::from_secs(1)), 0);
        assert_eq!(after(0, Duration::from_secs(1)), 0);
    }

    #[test]
    fn a_slower_pace_applies_from_the_next_check() {
        let began = Instant::now();
        let mut pace = Pace::new(began);
        assert_eq!(pace.ahead(began + Duration::from_secs(1), 5_000), 100);
        assert_eq!(pace.ahead(began + Duration::from_millis(1_010), 5_000), 100, "too early to decide");
        assert_eq!(pace.ahead(began + Duration::from_secs(2), 5_010), 0);
    }
}
