//! Counts recent failures by hashed keys, such as addresses and accounts, in a fixed amount of memory. Every server process counts
//! separately.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hash};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

const WINDOW: Duration = Duration::from_secs(60);
const MAX_KEYS: usize = 50_000;

#[derive(Debug)]
pub(super) struct Counts {
    hasher: RandomState,
    windows: Mutex<Windows>,
}

/// The current window and the previous one: a failure is counted for one to two windows.
#[derive(Debug)]
struct Windows {
    since: Instant,
    now: HashMap<u64, u32>,
    before: HashMap<u64, u32>,
}

impl Default for Counts {
    fn default() -> Self {
        let windows = Windows { since: Instant::now(), now: HashMap::new(), before: HashMap::new() };
        Self { hasher: RandomState::new(), windows: Mutex::new(windows) }
    }
}

impl Counts {
    pub(super) fn key(&self, of: impl Hash) -> u64 {
        self.hasher.hash_one(of)
    }

    /// Counts one more of each key if the current counts permit it; else returns the seconds to wait.
    pub(super) fn begin(&self, keys: &[u64], permits: impl FnOnce(&[u32]) -> bool) -> Result<(), u64> {
        let mut windows = self.lock();
        windows.rotate(keys.len());
        let counted: Vec<u32> = keys.iter().map(|key| windows.of(*key)).collect();
        if !permits(&counted) {
            return Err((WINDOW * 2).saturating_sub(windows.since.elapsed()).as_secs().max(1));
        }
        for key in keys {
            *windows.now.entry(*key).or_default() += 1;
        }
        Ok(())
    }

    /// Subtracts an attempt that did not fail.
    pub(super) fn take_back(&self, keys: &[u64]) {
        let mut windows = self.lock();
        for key in keys {
            if let Some(count) = windows.now.get_mut(key) {
                *count = count.saturating_sub(1);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Windows> {
        self.windows.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Windows {
    fn of(&self, key: u64) -> u32 {
        self.now.get(&key).unwrap_or(&0) + self.before.get(&key).unwrap_or(&0)
    }

    /// Starts the next window when this one is over or full.
    fn rotate(&mut self, more: usize) {
        if self.since.elapsed() >= WINDOW * 2 {
            self.now.clear();
        }
        if self.since.elapsed() >= WINDOW || self.now.len() + more > MAX_KEYS {
            self.before = std::mem::take(&mut self.now);
            self.since = Instant::now();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Counts, MAX_KEYS};

    #[test]
    fn the_number_of_keys_is_limited() {
        let counts = Counts::default();
        for n in 0..MAX_KEYS {
            counts.begin(&[counts.key(n), counts.key("all")], |_| true).unwrap();
        }
        let windows = counts.lock();
        assert!(windows.now.len() <= MAX_KEYS && windows.before.len() <= MAX_KEYS);
    }
}
