//! Leaves an endpoint alone that keeps failing (F-29): after a row of failures nobody calls it for a while, then one call
//! tries again, and the pause doubles until one succeeds. Takes the time as an argument.

use std::time::{Duration, Instant};

/// This many failures in a row open it. More than one busy worker's retries of a few bad jobs.
const FAILURES: u32 = 10;
const SHORTEST: Duration = Duration::from_millis(500);
const LONGEST: Duration = Duration::from_secs(60);
/// How long the one that tries may take before another may.
const TRIAL: Duration = Duration::from_secs(30);

#[derive(Debug, Default)]
pub(super) struct Breaker {
    failures: u32,
    closed_until: Option<Instant>,
}

impl Breaker {
    /// How long to wait before the endpoint may be called; none means now.
    pub(super) fn ask(&mut self, now: Instant) -> Option<Duration> {
        let until = self.closed_until?;
        if now < until {
            return Some(until - now);
        }
        // This caller tries; the others wait for what it finds.
        self.closed_until = Some(now + TRIAL);
        None
    }

    /// How a call went. `random` is drawn from [0, 1), so that several workers do not come back at once.
    pub(super) fn record(&mut self, has_failed: bool, now: Instant, random: f64) {
        if !has_failed {
            *self = Self::default();
            return;
        }
        self.failures = self.failures.saturating_add(1);
        if self.failures >= FAILURES {
            let doublings = (self.failures - FAILURES).min(10);
            let pause = SHORTEST.saturating_mul(1 << doublings).min(LONGEST);
            self.closed_until = Some(now + pause.mul_f64(0.5 + random / 2.0));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::{Breaker, FAILURES, LONGEST};

    #[test]
    fn a_row_of_failures_closes_it_and_one_success_opens_it() {
        let (mut breaker, mut now) = (Breaker::default(), Instant::now());
        for _ in 1..FAILURES {
            breaker.record(true, now, 0.5);
            assert_eq!(breaker.ask(now), None);
        }
        breaker.record(false, now, 0.5);
        let mut longest = Duration::ZERO;
        for _ in 0..40 {
            if let Some(wait) = breaker.ask(now) {
                longest = longest.max(wait);
                now += wait;
                assert_eq!(breaker.ask(now), None, "one may try");
                assert!(breaker.ask(now).is_some(), "and only one");
            }
            breaker.record(true, now, 0.999);
        }
        assert!(longest <= LONGEST && longest > LONGEST / 2, "{longest:?}");
        breaker.record(false, now, 0.5);
        assert_eq!(breaker.ask(now), None);
        assert_eq!(breaker.ask(now), None);
    }
}
