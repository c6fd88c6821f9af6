//! Turns at something of which a tenant has few at a time, and all tenants together have some. Whoever wants one more waits in their
//! tenant's own queue, which has an end; whoever comes beyond it, or waits for too long, gets none.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use uuid::Uuid;

#[derive(Debug)]
pub struct Turns {
    of_tenant: usize,
    /// Those of a tenant who have a turn and those who wait for one.
    with_waiting: usize,
    patience: Duration,
    all: Arc<Semaphore>,
    tenants: Mutex<HashMap<Uuid, Line>>,
}

#[derive(Debug, Clone)]
struct Line {
    with_waiting: Arc<Semaphore>,
    turns: Arc<Semaphore>,
}

/// One turn, until it is dropped.
#[derive(Debug)]
pub struct Turn {
    _line: OwnedSemaphorePermit,
    _of_tenant: OwnedSemaphorePermit,
    _of_all: OwnedSemaphorePermit,
}

impl Turns {
    /// `waiting`: how many may wait for each turn of a tenant; none if there is no limit.
    pub fn new(of_tenant: usize, of_all: usize, waiting: Option<usize>, patience: Duration) -> Self {
        let bounded = |permits: usize| permits.min(Semaphore::MAX_PERMITS);
        let with_waiting =
            waiting.map_or(Semaphore::MAX_PERMITS, |waiting| of_tenant.saturating_mul(1 + waiting));
        Self {
            of_tenant: bounded(of_tenant),
            with_waiting: bounded(with_waiting),
            patience,
            all: Arc::new(Semaphore::new(bounded(of_all))),
            tenants: Mutex::default(),
        }
    }

    /// How many turns a tenant has at a time.
    pub fn of_tenant(&self) -> usize {
        self.of_tenant
    }

    /// Waits for a turn. None if too many of the tenant's wait already, or this one has waited for too long.
    pub async fn take(&self, tenant: Uuid) -> Option<Turn> {
        let line = self.line(tenant);
        let place = line.with_waiting.try_acquire_owned().ok()?;
        // The tenant's own comes first: those who wait for it are in nobody else's way.
        let both = async {
            let of_tenant = line.turns.acquire_owned().await.ok()?;
            let of_all = self.all.clone().acquire_owned().await.ok()?;
            Some(Turn { _line: place, _of_tenant: of_tenant, _of_all: of_all })
        };
        tokio::time::timeout(self.patience, both).await.ok().flatten()
    }

    /// Tenants that have a turn or wait for one.
    pub fn tenants(&self) -> usize {
        self.tenants.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    fn line(&self, tenant: Uuid) -> Line {
        let mut tenants = self.tenants.lock().unwrap_or_else(PoisonError::into_inner);
        // Whoever has nothing under way is like one who never came, so the table does not grow for ever.
        tenants.retain(|_, line| Arc::strong_count(&line.with_waiting) > 1);
        let new = || Line {
            with_waiting: Arc::new(Semaphore::new(self.with_waiting)),
            turns: Arc::new(Semaphore::new(self.of_tenant)),
        };
        tenants.entry(tenant).or_insert_with(new).clone()
    }
}
