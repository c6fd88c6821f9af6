//! Delays notifications that arrive too often: every login of the database can send any notification (NOTIFY has no
//! privilege), and each makes this process read from the database. Pure: the caller passes the time.
//!
//! Notifications about a lane or a limit are not delayed, because the latency of jobs depends on them. They name what to
//! check, and a check that finds nothing only reads one index; unknown lanes are checked as rarely as [`super::listen::Wake::All`].

use std::time::{Duration, Instant};

/// How often the same signal is passed on. Within this time after the previous one it is held back, and passed on once at
/// its end, so none is lost.
pub(crate) const GAP: Duration = Duration::from_millis(25);

pub(crate) struct Damper<S> {
    /// Each signal that was passed on less than a gap ago, and whether it has arrived again since. Few: no damped signal has a
    /// number that a sender could make up.
    recent: Vec<Recent<S>>,
}

struct Recent<S> {
    signal: S,
    until: Instant,
    is_held: bool,
}

impl<S: PartialEq + Clone> Damper<S> {
    pub(crate) fn new() -> Self {
        Self { recent: Vec::new() }
    }

    /// Returns whether to pass the signal on now. Otherwise it is held back.
    pub(crate) fn admits(&mut self, signal: &S, now: Instant) -> bool {
        self.recent.retain(|recent| recent.is_held || recent.until > now);
        if let Some(recent) = self.recent.iter_mut().find(|recent| recent.signal == *signal) {
            recent.is_held = true;
            return false;
        }
        self.recent.push(Recent { signal: signal.clone(), until: now + GAP, is_held: false });
        true
    }

    /// Returns when the next signal that was held back is due.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.recent.iter().filter(|recent| recent.is_held).map(|recent| recent.until).min()
    }

    /// Returns the signals that were held back and are due. Each of them starts a new gap.
    pub(crate) fn due(&mut self, now: Instant) -> Vec<S> {
        let mut due = Vec::new();
        for recent in &mut self.recent {
            if recent.is_held && recent.until <= now {
                (recent.is_held, recent.until) = (false, now + GAP);
                due.push(recent.signal.clone());
            }
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_passes_at_once_and_its_repetitions_once_per_gap() {
        let mut damper = Damper::new();
        let start = Instant::now();
        let mut passed = 0;
        for step in 0..1000 {
            let now = start + GAP * step / 100;
            passed += usize::from(damper.admits(&"all", now)) + damper.due(now).len();
        }
        assert!((10..=11).contains(&passed), "{passed} in ten gaps");
        assert!(damper.admits(&"other", start + GAP * 10), "another signal is not delayed");
    }

    #[test]
    fn a_signal_that_was_held_back_is_not_lost() {
        let mut damper = Damper::new();
        let start = Instant::now();
        assert!(damper.admits(&1, start) && damper.next_due().is_none());
        assert!(!damper.admits(&1, start + GAP / 2));
        assert_eq!(damper.next_due(), Some(start + GAP));
        assert!(damper.due(start + GAP / 2).is_empty());
        assert_eq!(damper.due(start + GAP), [1]);
        assert!(damper.next_due().is_none());
        assert!(damper.admits(&1, start + GAP * 3), "after a quiet gap it passes at once again");
    }
}
