//! Limits how many of something one key can have at the same time, so that none can take all: connections of an address, streams
//! of a tenant.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The used slots of each key.
#[derive(Debug)]
pub(crate) struct Slots<K: Eq + Hash> {
    limit: usize,
    used: Arc<Mutex<HashMap<K, usize>>>,
}

impl<K: Eq + Hash> Clone for Slots<K> {
    fn clone(&self) -> Self {
        Self { limit: self.limit, used: self.used.clone() }
    }
}

/// A slot, used until it is dropped.
#[derive(Debug)]
pub(crate) struct Slot<K: Eq + Hash> {
    slots: Slots<K>,
    key: K,
}

impl<K: Eq + Hash> Slots<K> {
    pub(crate) fn new(limit: usize) -> Self {
        Self { limit, used: Arc::default() }
    }

    fn used(&self) -> MutexGuard<'_, HashMap<K, usize>> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Eq + Hash + Clone> Slots<K> {
    /// One more slot for this key, unless it has reached its limit.
    pub(crate) fn take(&self, key: K) -> Option<Slot<K>> {
        {
            let mut all = self.used();
            let used = all.entry(key.clone()).or_default();
            if *used >= self.limit {
                return None;
            }
            *used += 1;
        }
        Some(Slot { slots: self.clone(), key })
    }
}

impl<K: Eq + Hash> Slot<K> {
    /// The number of slots of the same key, including this one.
    pub(crate) fn siblings(&self) -> usize {
        self.slots.used().get(&self.key).copied().unwrap_or_default()
    }
}

impl<K: Eq + Hash> Drop for Slot<K> {
    fn drop(&mut self) {
        let mut all = self.slots.used();
        if let Some(used) = all.get_mut(&self.key) {
            *used -= 1;
            if *used == 0 {
                all.remove(&self.key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_a_limit_and_dropped_slots_are_free_again() {
        let slots = Slots::new(2);
        let (first, second) = (slots.take("a").unwrap(), slots.take("a").unwrap());
        assert_eq!(second.siblings(), 2);
        assert!(slots.take("a").is_none());
        let _other = slots.take("b").unwrap();
        drop(first);
        assert_eq!(second.siblings(), 1);
        let third = slots.take("a").unwrap();
        assert!(slots.take("a").is_none());
        drop(second);
        drop(third);
        assert_eq!(slots.used().len(), 1, "keys without slots are removed");
    }
}
