//! The delay before the next attempt of a job.
//!
//! Each definition has a backoff; a handler can override it for a single failure. The delay has random jitter, because
//! jobs that failed together (for example because a service was down) would otherwise be retried together and overload
//! it again.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The maximum delay of a retry or snooze. It fits into the intervals of the database.
pub(crate) const MAX_RETRY_DELAY: Duration = Duration::from_secs(366 * 24 * 3600);

/// The rule that computes the delay from the number of failures so far. The default is `min(600, 30·2ⁿ)` seconds, ±20
/// %.
///
/// ```
/// use std::time::Duration;
/// use windlass::job::Backoff;
///
/// let seconds = Duration::from_secs;
/// let tripling = Backoff::exponential(seconds(1), seconds(60)).factor(3.0).jitter(0.0);
/// assert_eq!(tripling.delay(2, 0.5), seconds(9));
/// let linear = Backoff::linear(seconds(10), seconds(60)).jitter(0.0);
/// assert_eq!(linear.delay(2, 0.5), seconds(30));
/// assert_eq!(Backoff::fixed(seconds(5)).jitter(0.0).delay(7, 0.5), seconds(5));
/// assert!(tripling.jitter(2.0).validate().is_err());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Backoff {
    /// How the delay grows.
    pub kind: BackoffKind,
    /// The delay after the first failure, before jitter.
    pub base_seconds: f64,
    /// The factor by which each further failure multiplies the delay; only for `exponential`.
    pub factor: f64,
    /// The maximum delay, including jitter.
    pub cap_seconds: f64,
    /// A fraction of the delay: 0.2 spreads it evenly over ±20 %, and at the cap over the 20 % below it.
    pub jitter: f64,
}

/// The formula of the delay; n is the number of previous failures.
///
/// ```
/// use std::time::Duration;
/// use windlass::job::{Backoff, BackoffKind};
///
/// assert_eq!(Backoff::fixed(Duration::from_secs(5)).kind, BackoffKind::Fixed);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum BackoffKind {
    /// base · factorⁿ
    Exponential,
    /// base · (n + 1)
    Linear,
    /// base
    Fixed,
}

impl Default for Backoff {
    fn default() -> Self {
        Self {
            kind: BackoffKind::Exponential,
            base_seconds: 30.0,
            factor: 2.0,
            cap_seconds: 600.0,
            jitter: 0.2,
        }
    }
}

impl Backoff {
    /// Starts with `base` and doubles with each failure, up to `cap`.
    ///
    /// ```
    /// use std::time::Duration;
    /// use windlass::job::Backoff;
    ///
    /// let backoff = Backoff::exponential(Duration::from_secs(1), Duration::from_secs(60)).jitter(0.0);
    /// assert_eq!(backoff.delay(0, 0.5), Duration::from_secs(1));
    /// assert_eq!(backoff.delay(3, 0.5), Duration::from_secs(8));
    /// assert_eq!(backoff.delay(9, 0.5), Duration::from_secs(60));
    /// ```
    pub fn exponential(base: Duration, cap: Duration) -> Self {
        let (base_seconds, cap_seconds) = (base.as_secs_f64(), cap.as_secs_f64());
        Self { kind: BackoffKind::Exponential, base_seconds, cap_seconds, ..Self::default() }
    }

    /// Starts with `base` and grows by `base` with each failure, up to `cap`.
    pub fn linear(base: Duration, cap: Duration) -> Self {
        Self { kind: BackoffKind::Linear, ..Self::exponential(base, cap) }
    }

    /// The same delay after each failure.
    pub fn fixed(delay: Duration) -> Self {
        Self { kind: BackoffKind::Fixed, ..Self::exponential(delay, delay) }
    }

    /// Sets the factor by which each failure multiplies an exponential delay (default 2).
    #[must_use]
    pub fn factor(mut self, factor: f64) -> Self {
        self.factor = factor;
        self
    }

    /// Sets the fraction of the random jitter (default 0.2, which is ±20 %).
    #[must_use]
    pub fn jitter(mut self, jitter: f64) -> Self {
        self.jitter = jitter;
        self
    }

    /// Returns the delay after a failure that follows `failures_before` others; `random` is in [0, 1).
    ///
    /// Total: a backoff that was never checked by [`Backoff::validate`] still results in a delay between zero and
    /// [`MAX_RETRY_DELAY`], because a job must be able to end with any definition.
    pub fn delay(&self, failures_before: u32, random: f64) -> Duration {
        let n = f64::from(failures_before);
        let curve = match self.kind {
            BackoffKind::Exponential => self.base_seconds * self.factor.powf(n),
            BackoffKind::Linear => self.base_seconds * (n + 1.0),
            BackoffKind::Fixed => self.base_seconds,
        };
        let cap = within(self.cap_seconds, MAX_RETRY_DELAY.as_secs_f64());
        // Capped before the jitter as well as after it: a value far above the cap would otherwise lose its jitter.
        let middle = within(curve, cap);
        let spread = within(self.jitter, 1.0) * (2.0 * unit(random) - 1.0);
        let spread_out = middle * (1.0 + spread);
        // What exceeds the cap is reflected below it. If it were cut off, half of the jobs that failed together would be
        // retried together.
        let delay = if spread_out > cap { 2.0 * cap - spread_out } else { spread_out };
        Duration::try_from_secs_f64(within(delay, cap)).unwrap_or(MAX_RETRY_DELAY)
    }

    /// Checks that every field is within its bounds.
    pub fn validate(&self) -> Result<(), Invalid> {
        let longest = MAX_RETRY_DELAY.as_secs_f64();
        let refuse = |field, expected| Err(Invalid { field, expected });
        // Written as ranges, so that NaN, which is in no range, is rejected.
        if !(0.0..=longest).contains(&self.base_seconds) {
            return refuse("base_seconds", "between 0 and 31622400 (366 days)");
        }
        if !(1.0..=1000.0).contains(&self.factor) {
            return refuse("factor", "between 1 and 1000");
        }
        if !(0.0..=longest).contains(&self.cap_seconds) {
            return refuse("cap_seconds", "between 0 and 31622400 (366 days)");
        }
        if self.cap_seconds < self.base_seconds {
            return refuse("cap_seconds", "at least base_seconds");
        }
        if !(0.0..=1.0).contains(&self.jitter) {
            return refuse("jitter", "a fraction between 0 and 1");
        }
        Ok(())
    }
}

/// A field of a backoff with an invalid value.
///
/// ```
/// use std::time::Duration;
/// use windlass::job::Backoff;
///
/// let invalid = Backoff::fixed(Duration::from_secs(1)).factor(0.5).validate().unwrap_err();
/// assert_eq!(invalid.to_string(), "factor must be between 1 and 1000");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{field} must be {expected}")]
#[non_exhaustive]
pub struct Invalid {
    /// The field.
    pub field: &'static str,
    /// What it must be.
    pub expected: &'static str,
}

/// Returns the random number, or the middle if it is not in [0, 1).
pub(super) fn unit(random: f64) -> f64 {
    if (0.0..1.0).contains(&random) { random } else { 0.5 }
}

/// Limits a value to between zero and `most`. NaN counts as `most`, because a long wait does less harm than a busy
/// loop.
fn within(value: f64, most: f64) -> f64 {
    if value.is_nan() { most } else { value.clamp(0.0, most) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MIDDLE: f64 = 0.5;

    fn seconds(backoff: &Backoff, failures: u32) -> f64 {
        backoff.delay(failures, MIDDLE).as_secs_f64()
    }

    #[test]
    fn the_default_doubles_from_thirty_seconds_up_to_ten_minutes() {
        let delays: Vec<f64> = (0..7).map(|n| seconds(&Backoff::default(), n)).collect();
        assert_eq!(delays, [30.0, 60.0, 120.0, 240.0, 480.0, 600.0, 600.0]);
    }

    #[test]
    fn linear_grows_by_its_base_and_fixed_does_not_grow() {
        let linear = Backoff { kind: BackoffKind::Linear, base_seconds: 10.0, ..Backoff::default() };
        assert_eq!([0, 1, 2].map(|n| seconds(&linear, n)), [10.0, 20.0, 30.0]);
        let fixed = Backoff { kind: BackoffKind::Fixed, ..linear };
        assert_eq!([0, 1, 2].map(|n| seconds(&fixed, n)), [10.0, 10.0, 10.0]);
    }

    #[test]
    fn jitter_spreads_to_both_sides_but_not_over_the_cap() {
        let backoff = Backoff::default();
        assert_eq!(backoff.delay(0, 0.0), Duration::from_secs(24));
        assert!(backoff.delay(0, 0.999_999).as_secs_f64() > 35.9);
        assert_eq!(backoff.delay(9, 0.0), Duration::from_secs(480));
        assert_eq!(backoff.delay(9, 0.5), Duration::from_secs(600));
        assert!(backoff.delay(9, 0.999_999).as_secs_f64() < 480.1);
    }

    #[test]
    fn a_definition_may_set_some_fields_but_no_unknown_ones() {
        let parsed: Backoff = serde_json::from_str(r#"{"kind":"linear","base_seconds":5}"#).unwrap();
        assert_eq!(parsed, Backoff { kind: BackoffKind::Linear, base_seconds: 5.0, ..Backoff::default() });
        assert_eq!(serde_json::from_str::<Backoff>("{}").unwrap(), Backoff::default());
        assert!(serde_json::from_str::<Backoff>(r#"{"bas_seconds":5}"#).is_err());
    }

    #[test]
    fn an_error_names_the_field() {
        let refused = |change: fn(&mut Backoff)| {
            let mut backoff = Backoff::default();
            change(&mut backoff);
            backoff.validate().map_err(|invalid| invalid.field)
        };
        assert_eq!(refused(|_| ()), Ok(()));
        assert_eq!(refused(|b| b.base_seconds = -1.0), Err("base_seconds"));
        assert_eq!(refused(|b| b.base_seconds = f64::NAN), Err("base_seconds"));
        assert_eq!(refused(|b| b.factor = 0.5), Err("factor"));
        assert_eq!(refused(|b| b.cap_seconds = f64::INFINITY), Err("cap_seconds"));
        assert_eq!(refused(|b| b.cap_seconds = 29.0), Err("cap_seconds"));
        assert_eq!(refused(|b| b.jitter = 1.1), Err("jitter"));
    }

    fn any_kind() -> impl Strategy<Value = BackoffKind> {
        prop_oneof![Just(BackoffKind::Exponential), Just(BackoffKind::Linear), Just(BackoffKind::Fixed)]
    }

    proptest! {
        #[test]
        fn any_numbers_give_a_bounded_delay(
            kind in any_kind(),
            base_seconds in any::<f64>(),
            factor in any::<f64>(),
            cap_seconds in any::<f64>(),
            jitter in any::<f64>(),
            failures in any::<u32>(),
            random in any::<f64>(),
        ) {
            let backoff = Backoff { kind, base_seconds, factor, cap_seconds, jitter };
            prop_assert!(backoff.delay(failures, random) <= MAX_RETRY_DELAY);
        }

        #[test]
        fn a_valid_backoff_stays_in_range_and_never_shrinks(
            kind in any_kind(),
            base_seconds in 0.0..1e4_f64,
            factor in 1.0..1000.0_f64,
            above in 0.0..1e4_f64,
            jitter in 0.0..=1.0_f64,
            failures in any::<u32>(),
            random in 0.0..1.0_f64,
        ) {
            let cap_seconds = base_seconds + above;
            let backoff = Backoff { kind, base_seconds, factor, cap_seconds, jitter };
            prop_assert_eq!(backoff.validate(), Ok(()));
            let middle = seconds(&backoff, failures);
            let delay = backoff.delay(failures, random).as_secs_f64();
            let rounding = 1e-6;
            prop_assert!(delay <= cap_seconds + rounding);
            prop_assert!(delay >= middle * (1.0 - jitter) - rounding);
            prop_assert!(delay <= middle * (1.0 + jitter) + rounding);
            prop_assert!(seconds(&backoff, failures.saturating_add(1)) >= middle);
        }

        /// Jobs that failed together are not retried together, however often they have failed.
        #[test]
        fn different_random_numbers_give_different_delays_at_the_cap_too(
            kind in any_kind(),
            base_seconds in 1.0..1e4_f64,
            above in prop_oneof![Just(0.0), 0.0..1e4_f64],
            jitter in 0.1..=1.0_f64,
            failures in any::<u32>(),
        ) {
            let cap_seconds = base_seconds + above;
            let backoff = Backoff { kind, base_seconds, factor: 2.0, cap_seconds, jitter };
            let delays: Vec<Duration> = (0..100).map(|n| backoff.delay(failures, f64::from(n) / 100.0)).collect();
            prop_assert!(delays.iter().all(|delay| delay.as_secs_f64() <= cap_seconds + 1e-6));
            let (least, most) = (delays.iter().min().unwrap(), delays.iter().max().unwrap());
            prop_assert!((*most - *least).as_secs_f64() >= 0.9 * jitter * seconds(&backoff, failures));
            for delay in &delays {
                // A delay and its reflection can be equal.
                prop_assert!(delays.iter().filter(|other| *other == delay).count() <= 2);
            }
        }
    }
}
