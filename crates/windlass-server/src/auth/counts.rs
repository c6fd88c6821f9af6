//! Counts recent failures by hashed keys, such as addresses and accounts, in a fixed amount of memory. Every server process counts
//! separately.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hash};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};

const WINDOW: Duration = Duration::from_secs(60);
const MAX_KEYS: usize = 50_000;

#[derive(Debug)]
pub(super) struct Counts {
    hasher: RandomState,
    windows: Mutex<Windows>,
}

/// What was counted, and in which window.
#[derive(Debug)]
pub(super) struct Counted {
    keys: Vec<u64>,
    window: u64,
}

/// The current window and the previous one: a failure is counted for one to two windows.
#[derive(Debug)]
struct Windows {
    number: u64,
    since: Instant,
    now: HashMap<u64, u32>,
    before: HashMap<u64, u32>,
}

impl Default for Counts {
    fn default() -> Self {
        let windows =
            Windows { number: 0, since: Instant::now(), now: HashMap::new(), before: HashMap::new() };
        Self { hasher: RandomState::new(), windows: Mutex::new(windows) }
    }
}

impl Counts {
    pub(super) fn key(&self, of: impl Hash) -> u64 {
        self.hasher.hash_one(of)
    }

    /// Returns the seconds to wait if the current counts of the keys do not permit one more.
    pub(super) fn check(&self, keys: &[u64], permits: impl FnOnce(&[u32]) -> bool) -> Result<(), u64> {
        self.lock().check(keys, permits)
    }

    /// Counts one more of each key.
    pub(super) fn add(&self, keys: &[u64]) {
        self.lock().add(keys);
    }

    /// Counts one more of each key if the current counts permit it; else returns the seconds to wait.
    pub(super) fn begin(&self, keys: Vec<u64>, permits: impl FnOnce(&[u32]) -> bool) -> Result<Counted, u64> {
        let mut windows = self.lock();
        windows.check(&keys, permits)?;
        windows.add(&keys);
        Ok(Counted { keys, window: windows.number })
    }

    /// Subtracts an attempt that did not fail, from the window in which it was counted.
    pub(super) fn take_back(&self, counted: &Counted) {
        let mut windows = self.lock();
        let age = windows.number - counted.window;
        let Windows { now, before, .. } = &mut *windows;
        let window = match age {
            0 => now,
            1 => before,
            _ => return,
        };
        for key in &counted.keys {
            if let Some(count) = window.get_mut(key) {
                *count = count.saturating_sub(1);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Windows> {
        self.windows.lock()
    }
}

impl Windows {
    fn check(&mut self, keys: &[u64], permits: impl FnOnce(&[u32]) -> bool) -> Result<(), u64> {
        self.rotate(keys.len());
        let counted: Vec<u32> = keys.iter().map(|key| self.of(*key)).collect();
        if permits(&counted) {
            return Ok(());
        }
        Err((WINDOW * 2).saturating_sub(self.since.elapsed()).as_secs().max(1))
    }

    fn add(&mut self, keys: &[u64]) {
        self.rotate(keys.len());
        for key in keys {
            *self.now.entry(*key).or_default() += 1;
        }
    }

    fn of(&self, key: u64) -> u32 {
        self.now.get(&key).unwrap_or(&0) + self.before.get(&key).unwrap_or(&0)
    }

    /// Starts the next window when this one is over or full.
    fn rotate(&mut self, more: usize) {
        if self.since.elapsed() >= WINDOW * 2 {
            self.now.clear();
        }
        if self.since.elapsed() >= WINDOW || self.now.len() + more > MAX_KEYS {
            self.start_next();
        }
    }

    fn start_next(&mut self) {
        self.before = std::mem::take(&mut self.now);
        self.since = Instant::now();
        self.number += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::{Counts, MAX_KEYS};

    #[test]
    fn an_attempt_is_subtracted_from_the_window_in_which_it_was_counted() {
        let counts = Counts::default();
        let key = counts.key("one");
        let begin = || counts.begin(vec![key], |_| true).unwrap();
        let first = begin();
        counts.lock().start_next();
        let second = begin();
        counts.take_back(&first);
        let windows = counts.lock();
        assert_eq!((windows.before[&key], windows.now[&key]), (0, 1));
        drop(windows);
        counts.lock().start_next();
        counts.lock().start_next();
        begin();
        counts.take_back(&second);
        assert_eq!(counts.lock().of(key), 1, "its window is over");
    }

    #[test]
    fn the_number_of_keys_is_limited() {
        let counts = Counts::default();
        for n in 0..MAX_KEYS {
            counts.add(&[counts.key(n), counts.key("all")]);
        }
        let windows = counts.lock();
        assert!(windows.now.len() <= MAX_KEYS && windows.before.len() <= MAX_KEYS);
    }
}
