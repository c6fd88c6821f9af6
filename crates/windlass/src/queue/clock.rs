//! The clock of the database, as far as this process knows it.
//!
//! It is read when the process connects and again now and then. In between it advances by the monotonic clock of this machine: the
//! time of day can be wrong when a machine starts, and be corrected by days a moment later.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

/// After this time it is read again: the two clocks do not run equally fast, and a machine can be suspended.
const READ_EVERY: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(super) struct DatabaseClock {
    started: Instant,
    /// The time of the database when this process started, in milliseconds.
    at_start: AtomicI64,
    /// When it was read, in milliseconds since the start.
    read_at: AtomicI64,
}

impl DatabaseClock {
    pub(super) fn new(database_millis: i64, now: Instant) -> Self {
        Self { started: now, at_start: AtomicI64::new(database_millis), read_at: AtomicI64::new(0) }
    }

    pub(super) fn set(&self, database_millis: i64, now: Instant) {
        let passed = self.passed(now);
        self.at_start.store(database_millis - passed, Ordering::Relaxed);
        self.read_at.store(passed, Ordering::Relaxed);
    }

    /// The time of the database in milliseconds.
    pub(super) fn millis(&self, now: Instant) -> u64 {
        let millis = self.at_start.load(Ordering::Relaxed) + self.passed(now);
        u64::try_from(millis).unwrap_or_default()
    }

    pub(super) fn is_old(&self, now: Instant) -> bool {
        let since = self.passed(now) - self.read_at.load(Ordering::Relaxed);
        u128::try_from(since).is_ok_and(|since| since >= READ_EVERY.as_millis())
    }

    fn passed(&self, now: Instant) -> i64 {
        i64::try_from(now.saturating_duration_since(self.started).as_millis()).unwrap_or(i64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_advances_without_the_time_of_day_and_is_read_again() {
        let start = Instant::now();
        let clock = DatabaseClock::new(1_000_000, start);
        let later = start + READ_EVERY;
        assert!(!clock.is_old(start) && clock.is_old(later));
        assert_eq!(clock.millis(later), 1_060_000);
        // The database's clock was set back.
        clock.set(500_000, later);
        assert!(!clock.is_old(later) && clock.is_old(later + READ_EVERY));
        assert_eq!(clock.millis(later + Duration::from_millis(7)), 500_007);
    }
}
