//! Limits how many slots one key can use at the same time, so that none can use all: dry runs of a tenant,
//! and in the server streams of a tenant and connections of an address.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use uuid::Uuid;

/// The used slots of each key.
#[derive(Debug)]
pub struct Slots<K: Eq + Hash = Uuid> {
    limit: usize,
    used: Arc<Mutex<HashMap<K, usize>>>,
}

impl<K: Eq + Hash> Clone for Slots<K> {
    fn clone(&self) -> Self {
        Self { limit: self.limit, used: self.used.clone() }
    }
}

/// Slots, used until this is dropped.
#[derive(Debug)]
pub struct SlotGuard<K: Eq + Hash = Uuid> {
    slots: Slots<K>,
    key: K,
    count: usize,
}

impl<K: Eq + Hash> Slots<K> {
    /// At most this many for each key.
    pub fn new(limit: usize) -> Self {
        Self { limit, used: Arc::default() }
    }

    fn used(&self) -> MutexGuard<'_, HashMap<K, usize>> {
        self.used.lock()
    }
}

impl<K: Eq + Hash + Clone> Slots<K> {
    /// Takes `count` more slots for this key, unless that exceeds its limit.
    pub fn take(&self, key: K, count: usize) -> Option<SlotGuard<K>> {
        let mut all = self.used();
        let taken = all.get(&key).copied().unwrap_or_default() + count;
        if taken > self.limit {
            return None;
        }
        all.insert(key.clone(), taken);
        drop(all);
        Some(SlotGuard { slots: self.clone(), key, count })
    }
}

impl<K: Eq + Hash> SlotGuard<K> {
    /// The number of slots of the same key, including these.
    pub fn siblings(&self) -> usize {
        self.slots.used().get(&self.key).copied().unwrap_or_default()
    }
}

impl<K: Eq + Hash> Drop for SlotGuard<K> {
    fn drop(&mut self) {
        let mut all = self.slots.used();
        if let Some(taken) = all.get_mut(&self.key) {
            *taken -= self.count;
            if *taken == 0 {
                all.remove(&self.key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_tenant_at_its_limit_does_not_affect_others() {
        let slots = Slots::new(2_500);
        let (loud, quiet) = (Uuid::from_u128(1), Uuid::from_u128(2));
        let mut held: Vec<SlotGuard> = (0..2_500).map(|_| slots.take(loud, 1).unwrap()).collect();
        assert!(slots.take(loud, 1).is_none());
        assert!(slots.take(quiet, 1).is_some());
        assert_eq!(held[0].siblings(), 2_500);
        held.pop();
        assert!(slots.take(loud, 1).is_some());
        drop(held);
        assert!(slots.take(loud, 2_501).is_none());
        assert!(slots.used().is_empty(), "keys without slots are removed");
    }
}
