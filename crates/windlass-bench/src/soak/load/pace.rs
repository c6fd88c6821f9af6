//! How many jobs are due: as many as the plan asks for, evenly over its time. Callers wait for their turn; whoever can enqueue many at
//! once takes what the others left.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

#[derive(Debug)]
pub(crate) struct Pace {
    began: Instant,
    paused: Mutex<Paused>,
    per_second: f64,
    sent: AtomicU64,
    /// Jobs that have not ended, as last counted.
    backlog: AtomicU64,
    /// Nothing is sent while there are more.
    max_backlog: u64,
}

/// The time that was spent at quiet points.
#[derive(Debug, Default)]
struct Paused {
    before: Duration,
    since: Option<Instant>,
}

const TICK: Duration = Duration::from_millis(20);
/// The largest batch.
const MAX_BATCH: u64 = 500;

impl Pace {
    pub(crate) fn new(jobs: u64, during: Duration) -> Self {
        let per_second = jobs as f64 / during.as_secs_f64();
        Self {
            began: Instant::now(),
            paused: Mutex::default(),
            per_second,
            sent: AtomicU64::new(0),
            backlog: AtomicU64::new(0),
            max_backlog: 500 + (per_second * 10.0) as u64,
        }
    }

    pub(crate) fn set_backlog(&self, jobs: u64) {
        self.backlog.store(jobs, Ordering::Relaxed);
    }

    pub(crate) fn backlog(&self) -> u64 {
        self.backlog.load(Ordering::Relaxed)
    }

    /// The time stands still until the end of the quiet point.
    pub(crate) fn pause(&self) {
        self.paused.lock().since = Some(Instant::now());
    }

    pub(crate) fn resume(&self) {
        let mut paused = self.paused.lock();
        let lasted = paused.since.take().map(|since| since.elapsed());
        paused.before += lasted.unwrap_or_default();
    }

    pub(crate) fn elapsed(&self) -> Duration {
        let paused = self.paused.lock();
        let now = paused.since.unwrap_or_else(Instant::now);
        now.saturating_duration_since(self.began).saturating_sub(paused.before)
    }

    pub(crate) fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// How many jobs are due and not sent.
    fn missing(&self) -> u64 {
        let due = (self.elapsed().as_secs_f64() * self.per_second) as u64;
        due.saturating_sub(self.sent())
    }

    /// Waits until a job is due, or for some time: an idle caller looks whether it should stop. Returns the number to send.
    pub(crate) async fn turn(&self, most: u64) -> u64 {
        for _ in 0..50 {
            let count = self.missing().min(most).min(MAX_BATCH);
            if count > 0 && self.backlog.load(Ordering::Relaxed) < self.max_backlog {
                self.sent.fetch_add(count, Ordering::Relaxed);
                return count;
            }
            tokio::time::sleep(TICK).await;
        }
        0
    }
}

#[cfg(test)]
mod tests {
    use super::Pace;
    use std::time::{Duration, Instant};

    #[test]
    fn the_time_stands_still_at_a_quiet_point() {
        let pace = Pace::new(1, Duration::from_secs(10));
        pace.pause();
        let (at, paused_at) = (pace.elapsed(), Instant::now());
        while Instant::now() == paused_at {}
        assert_eq!(pace.elapsed(), at);
        pace.resume();
        assert!(pace.elapsed() >= at);
    }

    #[tokio::test]
    async fn nothing_is_sent_before_it_is_due_or_while_too_much_waits() {
        let pace = Pace::new(1_000_000, Duration::from_secs(10));
        assert!(pace.turn(100).await > 0);
        assert!(pace.sent() <= 100);
        pace.set_backlog(u64::MAX);
        assert_eq!(pace.turn(100).await, 0);
    }
}
