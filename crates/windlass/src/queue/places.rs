//! How much of something each tenant may have under way at once.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use uuid::Uuid;

use crate::error::{Error, Result};

/// What each tenant has taken.
#[derive(Debug, Clone)]
pub(crate) struct Places {
    most: usize,
    taken: Arc<Mutex<HashMap<Uuid, usize>>>,
}

/// What was taken, until it is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    places: Places,
    tenant: Uuid,
    count: usize,
}

impl Places {
    pub(crate) fn new(most: usize) -> Self {
        Self { most, taken: Arc::default() }
    }

    /// Takes so many more for a tenant, or refuses.
    pub(crate) fn take(&self, tenant: Uuid, count: usize) -> Result<Place> {
        let mut all = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = all.get(&tenant).copied().unwrap_or_default() + count;
        if taken > self.most {
            return Err(Error::Busy);
        }
        all.insert(tenant, taken);
        Ok(Place { places: self.clone(), tenant, count })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut all = self.places.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(taken) = all.get_mut(&self.tenant) {
            *taken -= self.count;
            if *taken == 0 {
                all.remove(&self.tenant);
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
        assert!(matches!(places.take(loud, 1), Err(Error::Busy)));
        assert!(places.take(quiet, 1).is_ok());
        held.pop();
        assert!(places.take(loud, 1).is_ok());
        drop(held);
        assert!(matches!(places.take(loud, 2_501), Err(Error::Busy)));
        assert!(places.taken.lock().unwrap().is_empty(), "those that have none are forgotten");
    }
}
