//! Pauses calls to an endpoint that keeps failing (F-29): after consecutive failures it is not called for a while, then
//! one call tries again, and the pause doubles until one succeeds.
//!
//! Each tenant has its own state. Whether a call fails can depend on its payload, so the failures of one tenant do not
//! pause the calls of another. A state exists only while the last call of its tenant failed.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;
use uuid::Uuid;

/// The number of consecutive failures after which calls pause. More than the retries of a few bad jobs by one busy
/// worker.
const FAILURES: u32 = 10;
const MIN_PAUSE: Duration = Duration::from_millis(500);
const MAX_PAUSE: Duration = Duration::from_secs(60);
/// The longest time that a job keeps its slot for an endpoint that is paused or being tried; then it is snoozed.
const PATIENCE: Duration = Duration::from_secs(5);
/// The snooze of a job that waited too long for the result of the trial call.
const AFTER_TRIAL: Duration = Duration::from_secs(2);

/// What a call shows about its endpoint.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Health {
    Good,
    Failing,
    /// It ended too early: its job was stopped, or had less time than an endpoint may take.
    Unknown,
}

/// One endpoint, for each tenant whose calls to it fail.
#[derive(Debug, Default)]
pub(super) struct Breakers {
    of_tenants: Mutex<HashMap<Uuid, Breaker>>,
    /// Notified when the state of a tenant has changed.
    changed: Notify,
}

impl Breakers {
    /// Waits briefly until this tenant may call the endpoint; otherwise returns the time after which to ask again.
    pub(super) async fn admit(&self, tenant: Uuid) -> Result<Admitted<'_>, Duration> {
        self.admit_until(tenant, Instant::now() + PATIENCE).await
    }

    async fn admit_until(&self, tenant: Uuid, until: Instant) -> Result<Admitted<'_>, Duration> {
        loop {
            // Before the state is read, so that a change after that wakes it.
            let changed = self.changed.notified();
            let now = Instant::now();
            let permit = match self.lock().get_mut(&tenant) {
                Some(breaker) => breaker.ask(now),
                None => BreakerPermit::Call,
            };
            let wait_until = match permit {
                BreakerPermit::Call | BreakerPermit::Trial => {
                    let is_trial = permit == BreakerPermit::Trial;
                    return Ok(Admitted { breakers: self, tenant, is_trial, fails_at: None, health: None });
                }
                BreakerPermit::Pause(wait) if now + wait > until => return Err(wait),
                BreakerPermit::Pause(wait) => now + wait,
                BreakerPermit::AfterTrial if now >= until => return Err(AFTER_TRIAL),
                BreakerPermit::AfterTrial => until,
            };
            let _ = tokio::time::timeout_at(wait_until.into(), changed).await;
        }
    }

    fn record(&self, tenant: Uuid, health: Health, is_trial: bool) {
        let mut of_tenants = self.lock();
        match (of_tenants.entry(tenant), health) {
            (Entry::Vacant(_), Health::Good | Health::Unknown) => return,
            (Entry::Occupied(failing), Health::Good) => drop(failing.remove()),
            (entry, Health::Failing | Health::Unknown) => {
                let breaker = entry.or_default();
                breaker.has_trial &= !is_trial;
                if health == Health::Failing {
                    breaker.fail(Instant::now(), rand::random());
                }
            }
        }
        drop(of_tenants);
        self.changed.notify_waiters();
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Uuid, Breaker>> {
        self.of_tenants.lock()
    }
}

/// A call in progress. It is recorded when this is dropped, because a call may be dropped itself: at the timeout of the
/// attempt, or when its job is stopped.
#[derive(Debug)]
pub(super) struct Admitted<'a> {
    breakers: &'a Breakers,
    tenant: Uuid,
    is_trial: bool,
    fails_at: Option<Instant>,
    health: Option<Health>,
}

impl Admitted<'_> {
    /// Sets the instant from which a call that has not ended counts as failed; `None` if it never does.
    pub(super) fn fails_at(&mut self, instant: Option<Instant>) {
        self.fails_at = instant;
    }

    /// Records the result.
    pub(super) fn end(mut self, health: Health) {
        self.health = Some(health);
    }
}

impl Drop for Admitted<'_> {
    fn drop(&mut self) {
        let health = self.health.unwrap_or_else(|| match self.fails_at {
            Some(instant) if Instant::now() >= instant => Health::Failing,
            Some(_) | None => Health::Unknown,
        });
        self.breakers.record(self.tenant, health, self.is_trial);
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum BreakerPermit {
    Call,
    /// This call tries whether the endpoint works again.
    Trial,
    /// For this time.
    Pause(Duration),
    /// Once the trial call in progress has ended.
    AfterTrial,
}

/// The state of one tenant. Takes the time as an argument.
#[derive(Debug, Default)]
struct Breaker {
    failures: u32,
    closed_until: Option<Instant>,
    has_trial: bool,
}

impl Breaker {
    fn ask(&mut self, now: Instant) -> BreakerPermit {
        match self.closed_until {
            None => BreakerPermit::Call,
            Some(until) if now < until => BreakerPermit::Pause(until - now),
            Some(_) if self.has_trial => BreakerPermit::AfterTrial,
            Some(_) => {
                self.has_trial = true;
                BreakerPermit::Trial
            }
        }
    }

    /// Counts a failure. `random` is in [0, 1), so that several workers do not return at once.
    fn fail(&mut self, now: Instant, random: f64) {
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

    use futures_util::FutureExt;
    use uuid::Uuid;

    use super::{AFTER_TRIAL, Breaker, BreakerPermit, Breakers, FAILURES, Health, MAX_PAUSE};

    const ONE: Uuid = Uuid::from_u128(1);
    const OTHER: Uuid = Uuid::from_u128(2);

    /// An endpoint whose calls for the first tenant failed until they paused, and then some time passed.
    async fn paused() -> Breakers {
        let breakers = Breakers::default();
        for _ in 0..FAILURES {
            breakers.admit(ONE).await.unwrap().end(Health::Failing);
        }
        let mut of_tenants = breakers.lock();
        let breaker = of_tenants.get_mut(&ONE).unwrap();
        assert!(matches!(breaker.ask(Instant::now()), BreakerPermit::Pause(_)));
        breaker.closed_until = Some(Instant::now());
        drop(of_tenants);
        breakers
    }

    #[test]
    fn the_pause_doubles_and_one_call_tries_after_it() {
        let (mut breaker, mut now) = (Breaker::default(), Instant::now());
        for _ in 1..FAILURES {
            breaker.fail(now, 0.5);
            assert_eq!(breaker.ask(now), BreakerPermit::Call);
        }
        let mut longest = Duration::ZERO;
        for _ in 0..40 {
            breaker.has_trial = false;
            breaker.fail(now, 0.999);
            let BreakerPermit::Pause(wait) = breaker.ask(now) else {
                panic!("it is not paused: {breaker:?}")
            };
            longest = longest.max(wait);
            now += wait;
            assert_eq!(breaker.ask(now), BreakerPermit::Trial, "one may try");
            assert_eq!(breaker.ask(now), BreakerPermit::AfterTrial, "and only one");
        }
        assert!(longest <= MAX_PAUSE && longest > MAX_PAUSE / 2, "{longest:?}");
    }

    /// payloads of one tenant that the endpoint cannot process.
    #[tokio::test]
    async fn the_failures_of_one_tenant_do_not_pause_another() {
        let breakers = paused().await;
        let _trial = breakers.admit(ONE).await.unwrap();
        assert!(breakers.admit(ONE).now_or_never().is_none(), "it waits for the trial call");
        breakers.admit(OTHER).now_or_never().unwrap().unwrap().end(Health::Good);
        assert!(breakers.admit(ONE).now_or_never().is_none(), "and the success of another is not its own");
    }

    #[tokio::test]
    async fn the_others_continue_as_soon_as_the_trial_call_succeeds() {
        let breakers = paused().await;
        let trial = breakers.admit(ONE).await.unwrap();
        let mut waiting = Box::pin(breakers.admit(ONE));
        assert!(waiting.as_mut().now_or_never().is_none());
        trial.end(Health::Good);
        assert!(!waiting.now_or_never().unwrap().unwrap().is_trial);
        assert!(breakers.lock().is_empty(), "nothing is kept of a healthy endpoint");
    }

    #[tokio::test]
    async fn a_trial_call_that_takes_long_snoozes_the_others_for_a_short_time() {
        let breakers = paused().await;
        let _trial = breakers.admit(ONE).await.unwrap();
        assert_eq!(breakers.admit_until(ONE, Instant::now()).await.unwrap_err(), AFTER_TRIAL);
    }

    #[tokio::test]
    async fn a_call_that_was_dropped_ends_its_trial_and_fails_only_after_its_time() {
        let breakers = paused().await;
        let failures = || breakers.lock().get(&ONE).map_or(0, |breaker| breaker.failures);
        let mut trial = breakers.admit(ONE).await.unwrap();
        trial.fails_at(Some(Instant::now() + Duration::from_secs(60)));
        drop(trial);
        assert_eq!(failures(), FAILURES, "it was stopped");
        let trial = breakers.admit(ONE).now_or_never().unwrap().unwrap();
        assert!(trial.is_trial, "another call may try");
        drop(trial);
        let mut trial = breakers.admit(ONE).now_or_never().unwrap().unwrap();
        trial.fails_at(Some(Instant::now()));
        drop(trial);
        assert_eq!(failures(), FAILURES + 1, "it was too late");
    }
}
