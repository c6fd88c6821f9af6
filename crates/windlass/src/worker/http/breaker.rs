//! Pauses calls to an endpoint that keeps failing (F-29): after consecutive failures it is not called for a while, then
//! one call tries again, and the pause doubles until one succeeds. Takes the time as an argument.

use std::time::{Duration, Instant};

/// The number of consecutive failures after which calls pause. More than the retries of a few bad jobs by one busy
/// worker.
const FAILURES: u32 = 10;
const MIN_PAUSE: Duration = Duration::from_millis(500);
const MAX_PAUSE: Duration = Duration::from_secs(60);
/// How long the trial call may take before another one may try.
const TRIAL: Duration = Duration::from_secs(30);

#[derive(Debug, Default)]
pub(super) struct Breaker {
    failures: u32,
    closed_until: Option<Instant>,
}

impl Breaker {
    /// Returns how long to wait before the endpoint may be called; `None` means now.
    pub(super) fn ask(&mut self, now: Instant) -> Option<Duration> {
        let until = self.closed_until?;
        if now < until {
            return Some(until - now);
        }
        // This caller tries; the others wait for its result.
        self.closed_until = Some(now + TRIAL);
        None
    }

    /// Records the result of a call. `random` is in [0, 1), so that several workers do not return at once.
    pub(super) fn record(&mut self, has_failed: bool, now: Instant, random: f64) {
        if !has_failed {
            *self = Self::default();
            return;
        }
        self.failures = self.failures.saturating_add(1);
        if self.failures >= FAILURES {
            let doublings = (self.failures - FAILURES).min(10);
            let pause = MIN_PAUSE.saturating_mul(1 << doublings).min(MAX_PAUSE);
            self.closed_until = Some(now + pause.mul_f64(0.5 + random / 2.0));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::{Breaker, FAILURES, MAX_PAUSE};

    #[test]
    fn repeated_failures_stop_calls_and_one_success_resumes() {
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
        assert!(longest <= MAX_PAUSE && longest > MAX_PAUSE / 2, "{longest:?}");
        breaker.record(false, now, 0.5);
        assert_eq!(breaker.ask(now), None);
        assert_eq!(breaker.ask(now), None);
    }
}
