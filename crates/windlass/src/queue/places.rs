//! How much of something one party may have at once, so that none can take every place there is: claims and dry runs of a tenant, and in
//! the server streams of a tenant and connections of an address.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use uuid::Uuid;

/// The places that each party has taken.
#[derive(Debug)]
pub struct Places<K: Eq + Hash = Uuid> {
    most: usize,
    taken: Arc<Mutex<HashMap<K, usize>>>,
}

impl<K: Eq + Hash> Clone for Places<K> {
    fn clone(&self) -> Self {
        Self { most: self.most, taken: self.taken.clone() }
    }
}

/// What was taken, until it is dropped.
#[derive(Debug)]
pub struct Place<K: Eq + Hash = Uuid> {
    places: Places<K>,
    party: K,
    count: usize,
}

impl<K: Eq + Hash> Places<K> {
    pub fn new(most: usize) -> Self {
        Self { most, taken: Arc::default() }
    }

    fn taken(&self) -> MutexGuard<'_, HashMap<K, usize>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Eq + Hash + Clone> Places<K> {
    /// So many more for this party, unless that would be more than it may have.
    pub fn take(&self, party: K, count: usize) -> Option<Place<K>> {
        let mut all = self.taken();
        let taken = all.get(&party).copied().unwrap_or_default() + count;
        if taken > self.most {
            return None;
        }
        all.insert(party.clone(), taken);
        drop(all);
        Some(Place { places: self.clone(), party, count })
    }
}

impl<K: Eq + Hash> Place<K> {
    /// How many places the same party has, these included.
    pub fn siblings(&self) -> usize {
        self.places.taken().get(&self.party).copied().unwrap_or_default()
    }
}

impl<K: Eq + Hash> Drop for Place<K> {
    fn drop(&mut self) {
        let mut all = self.places.taken();
        if let Some(taken) = all.get_mut(&self.party) {
            *taken -= self.count;
            if *taken == 0 {
                all.remove(&self.party);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_tenant_reaches_its_limit_and_others_do_not_notice() {
        let places = Places::new(2_500);
        let (loud, quiet) = (Uuid::from_u128(1), Uuid::from_u128(2));
        let mut held: Vec<Place> = (0..2_500).map(|_| places.take(loud, 1).unwrap()).collect();
        assert!(places.take(loud, 1).is_none());
        assert!(places.take(quiet, 1).is_some());
        assert_eq!(held[0].siblings(), 2_500);
        held.pop();
        assert!(places.take(loud, 1).is_some());
        drop(held);
        assert!(places.take(loud, 2_501).is_none());
        assert!(places.taken().is_empty(), "those that have none are forgotten");
    }
}
