//! A concurrency limiter with a limit per tenant and one in total. Further requests wait in a bounded queue of their tenant; those
//! beyond the bound, or that wait for too long, get no permit.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use uuid::Uuid;

/// The limits, and the requests that run or wait under them.
#[derive(Debug)]
pub struct Permits {
    of_tenant: usize,
    /// The running requests of a tenant, and those with the waiting ones.
    with_waiting: usize,
    timeout: Duration,
    all: Arc<Semaphore>,
    tenants: Mutex<HashMap<Uuid, TenantPermits>>,
}

#[derive(Debug, Clone)]
struct TenantPermits {
    with_waiting: Arc<Semaphore>,
    permits: Arc<Semaphore>,
}

/// One permit, until it is dropped.
#[derive(Debug)]
pub struct Permit {
    _queued: OwnedSemaphorePermit,
    _of_tenant: OwnedSemaphorePermit,
    _of_all: OwnedSemaphorePermit,
}

impl Permits {
    /// `waiting`: how many may wait for each permit of a tenant; `None` for no bound.
    pub fn new(of_tenant: usize, of_all: usize, waiting: Option<usize>, timeout: Duration) -> Self {
        let bounded = |permits: usize| permits.min(Semaphore::MAX_PERMITS);
        let with_waiting =
            waiting.map_or(Semaphore::MAX_PERMITS, |waiting| of_tenant.saturating_mul(1 + waiting));
        Self {
            of_tenant: bounded(of_tenant),
            with_waiting: bounded(with_waiting),
            timeout,
            all: Arc::new(Semaphore::new(bounded(of_all))),
            tenants: Mutex::default(),
        }
    }

    /// Returns how many permits a tenant has at a time.
    pub fn of_tenant(&self) -> usize {
        self.of_tenant
    }

    /// Waits for a permit. `None` if too many requests of the tenant wait already, or this one has waited for too long.
    pub async fn take(&self, tenant: Uuid) -> Option<Permit> {
        let queue = self.queue(tenant);
        let queued = queue.with_waiting.try_acquire_owned().ok()?;
        // The limit of the tenant comes first: those who wait for it do not block other tenants.
        let both = async {
            let of_tenant = queue.permits.acquire_owned().await.ok()?;
            let of_all = self.all.clone().acquire_owned().await.ok()?;
            Some(Permit { _queued: queued, _of_tenant: of_tenant, _of_all: of_all })
        };
        tokio::time::timeout(self.timeout, both).await.ok().flatten()
    }

    /// Returns the number of tenants that have a permit or wait for one.
    pub fn tenants(&self) -> usize {
        self.tenants.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    fn queue(&self, tenant: Uuid) -> TenantPermits {
        let mut tenants = self.tenants.lock().unwrap_or_else(PoisonError::into_inner);
        // Tenants without requests are removed, so that the table does not grow forever.
        tenants.retain(|_, queue| Arc::strong_count(&queue.with_waiting) > 1);
        let new = || TenantPermits {
            with_waiting: Arc::new(Semaphore::new(self.with_waiting)),
            permits: Arc::new(Semaphore::new(self.of_tenant)),
        };
        tenants.entry(tenant).or_insert_with(new).clone()
    }
}
