//! How many of something one party may have open at once, so that none can take every place there is: connections of an address, streams
//! of a tenant.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The places that each party has taken.
#[derive(Debug)]
pub(crate) struct Places<K: Eq + Hash> {
    most: usize,
    taken: Arc<Mutex<HashMap<K, usize>>>,
}

impl<K: Eq + Hash> Clone for Places<K> {
    fn clone(&self) -> Self {
        Self { most: self.most, taken: self.taken.clone() }
    }
}

/// A place that is taken until it is dropped.
#[derive(Debug)]
pub(crate) struct Place<K: Eq + Hash> {
    places: Places<K>,
    party: K,
}

impl<K: Eq + Hash> Places<K> {
    pub(crate) fn new(most: usize) -> Self {
        Self { most, taken: Arc::default() }
    }

    fn taken(&self) -> MutexGuard<'_, HashMap<K, usize>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Eq + Hash + Clone> Places<K> {
    /// One more place for this party, unless it has as many as it may.
    pub(crate) fn take(&self, party: K) -> Option<Place<K>> {
        {
            let mut all = self.taken();
            let taken = all.entry(party.clone()).or_default();
            if *taken >= self.most {
                return None;
            }
            *taken += 1;
        }
        Some(Place { places: self.clone(), party })
    }
}

impl<K: Eq + Hash> Place<K> {
    /// How many places the same party has, this one included.
    pub(crate) fn siblings(&self) -> usize {
        self.places.taken().get(&self.party).copied().unwrap_or_default()
    }
}

impl<K: Eq + Hash> Drop for Place<K> {
    fn drop(&mut self) {
        let mut all = self.places.taken();
        if let Some(taken) = all.get_mut(&self.party) {
            *taken -= 1;
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
    fn a_party_has_so_many_places_and_gets_them_back() {
        let places = Places::new(2);
        let (first, second) = (places.take("a").unwrap(), places.take("a").unwrap());
        assert_eq!(second.siblings(), 2);
        assert!(places.take("a").is_none());
        let _other = places.take("b").unwrap();
        drop(first);
        assert_eq!(second.siblings(), 1);
        let third = places.take("a").unwrap();
        assert!(places.take("a").is_none());
        drop(second);
        drop(third);
        assert_eq!(places.taken().len(), 1, "those that have none are forgotten");
    }
}
