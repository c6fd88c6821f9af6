//! A concurrency limiter with a limit per tenant and one in total. Further requests wait in a bounded queue of their tenant; those
//! beyond the bound, or that wait for too long, get no permit.
//!
//! A tenant can have a lower limit while other tenants are active. What it runs in excess of that does not make it faster, because
//! the processors are busy anyway, but every further statement is one more that the others compete with. The limit is read when a
//! permit becomes free, so that requests are served in order.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use uuid::Uuid;

/// A tenant is active for this long after its last request.
const ACTIVE_FOR: Duration = Duration::from_secs(1);

/// The limits, and the requests that run or wait under them.
#[derive(Debug)]
pub struct Permits {
    timeout: Duration,
    all: Arc<Semaphore>,
    tenants: Arc<Tenants>,
}

#[derive(Debug)]
struct Tenants {
    limits: TenantLimits,
    table: Mutex<TenantTable>,
}

#[derive(Debug)]
struct TenantLimits {
    alone: usize,
    beside_others: usize,
    /// The limit of running and waiting requests together.
    with_waiting: usize,
}

#[derive(Debug, Default)]
struct TenantTable {
    requests: HashMap<Uuid, TenantRequests>,
    /// The tenant of the last request and its time, and the time of the last request of any other tenant.
    last: Option<(Uuid, Instant)>,
    last_of_others: Option<Instant>,
}

#[derive(Debug, Default)]
struct TenantRequests {
    running: usize,
    waiting: VecDeque<oneshot::Sender<TenantPermit>>,
}

/// One permit, until it is dropped.
#[derive(Debug)]
pub struct Permit {
    _of_tenant: TenantPermit,
    _of_all: OwnedSemaphorePermit,
}

/// The part of one tenant. When it is dropped, the next requests of the queue run.
#[derive(Debug)]
struct TenantPermit {
    tenants: Arc<Tenants>,
    tenant: Uuid,
}

impl Permits {
    /// `waiting`: how many may wait for each permit of a tenant; `None` for no bound.
    pub fn new(of_tenant: usize, of_all: usize, waiting: Option<usize>, timeout: Duration) -> Self {
        let with_waiting = waiting.map_or(usize::MAX, |waiting| of_tenant.saturating_mul(1 + waiting));
        let limits = TenantLimits { alone: of_tenant, beside_others: of_tenant, with_waiting };
        Self {
            timeout,
            all: Arc::new(Semaphore::new(of_all.min(Semaphore::MAX_PERMITS))),
            tenants: Arc::new(Tenants { limits, table: Mutex::default() }),
        }
    }

    /// Limits a tenant to this many permits while others are active; to one at least.
    #[must_use]
    pub fn beside_others(self, permits: usize) -> Self {
        let TenantLimits { alone, with_waiting, .. } = self.tenants.limits;
        let limits = TenantLimits { alone, beside_others: permits.clamp(1, alone.max(1)), with_waiting };
        Self { tenants: Arc::new(Tenants { limits, table: Mutex::default() }), ..self }
    }

    /// Returns how many permits a tenant has at a time.
    pub fn of_tenant(&self) -> usize {
        self.tenants.limits.alone
    }

    /// The same while others are active.
    pub fn of_tenant_beside_others(&self) -> usize {
        self.tenants.limits.beside_others
    }

    /// Waits for a permit. `None` if too many requests of the tenant wait already, or this one has waited for too long.
    pub async fn take(&self, tenant: Uuid) -> Option<Permit> {
        let next = self.tenants.queue(tenant)?;
        // The limit of the tenant comes first: those who wait for it do not block other tenants.
        let both = async {
            let of_tenant = next.await.ok()?;
            let of_all = self.all.clone().acquire_owned().await.ok()?;
            Some(Permit { _of_tenant: of_tenant, _of_all: of_all })
        };
        tokio::time::timeout(self.timeout, both).await.ok().flatten()
    }

    /// Returns the number of tenants that have a permit or wait for one.
    pub fn tenants(&self) -> usize {
        self.tenants.locked().requests.len()
    }
}

impl Tenants {
    /// Queues a request. Its permit arrives at once if the limit allows it. `None` if the queue is full.
    fn queue(self: &Arc<Self>, tenant: Uuid) -> Option<oneshot::Receiver<TenantPermit>> {
        let mut table = self.locked();
        table.count_request(tenant, Instant::now());
        let requests = table.requests.entry(tenant).or_default();
        requests.remove_abandoned();
        if requests.running + requests.waiting.len() >= self.limits.with_waiting {
            return None;
        }
        let (permit, next) = oneshot::channel();
        requests.waiting.push_back(permit);
        self.grant(table, tenant);
        Some(next)
    }

    /// Gives permits to those who wait, as many as the limit allows now. A tenant with a queue has a running request, whose end
    /// calls this again.
    fn grant(self: &Arc<Self>, mut table: MutexGuard<'_, TenantTable>, tenant: Uuid) {
        let limits = &self.limits;
        let limit =
            if table.has_others(tenant, Instant::now()) { limits.beside_others } else { limits.alone };
        let Some(requests) = table.requests.get_mut(&tenant) else { return };
        requests.remove_abandoned();
        let mut returned = Vec::new();
        while requests.running < limit
            && let Some(waiting) = requests.waiting.pop_front()
        {
            requests.running += 1;
            returned.extend(waiting.send(TenantPermit { tenants: self.clone(), tenant }).err());
        }
        if requests.running == 0 && requests.waiting.is_empty() {
            table.requests.remove(&tenant);
        }
        // To drop those that were abandoned at this moment needs the lock again.
        drop(table);
        drop(returned);
    }

    fn locked(&self) -> MutexGuard<'_, TenantTable> {
        self.table.lock()
    }
}

impl TenantRequests {
    /// Those who no longer wait have dropped their end.
    fn remove_abandoned(&mut self) {
        self.waiting.retain(|waiting| !waiting.is_closed());
    }
}

impl TenantTable {
    fn count_request(&mut self, tenant: Uuid, now: Instant) {
        if let Some((last, at)) = self.last
            && last != tenant
        {
            self.last_of_others = Some(at);
        }
        self.last = Some((tenant, now));
    }

    /// Whether another tenant has a request, or had one a moment ago.
    fn has_others(&self, tenant: Uuid, now: Instant) -> bool {
        let of_others = match self.last {
            Some((last, at)) if last != tenant => Some(at),
            _ => self.last_of_others,
        };
        of_others.is_some_and(|at| now < at + ACTIVE_FOR)
            || self.requests.keys().any(|other| *other != tenant)
    }
}

impl Drop for TenantPermit {
    fn drop(&mut self) {
        let tenants = self.tenants.clone();
        let mut table = tenants.locked();
        if let Some(requests) = table.requests.get_mut(&self.tenant) {
            requests.running -= 1;
        }
        tenants.grant(table, self.tenant);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOUD: Uuid = Uuid::from_u128(1);
    const CALM: Uuid = Uuid::from_u128(2);

    #[tokio::test]
    async fn a_tenant_has_fewer_permits_while_another_is_active() {
        let permits = Permits::new(4, 100, None, Duration::from_secs(10)).beside_others(2);
        let mut held = Vec::new();
        for _ in 0..4 {
            held.push(permits.take(LOUD).await.unwrap());
        }
        let other = permits.take(CALM).await.unwrap();
        let mut next = Box::pin(permits.take(LOUD));
        assert!(futures_util::poll!(&mut next).is_pending());
        held.truncate(2);
        assert!(futures_util::poll!(&mut next).is_pending(), "two run, and the other tenant is active");
        held.truncate(1);
        next.await.unwrap();
        drop((held, other));
        assert_eq!(permits.tenants(), 0, "tenants without requests are removed");
    }

    #[tokio::test]
    async fn permits_are_given_in_the_order_of_the_requests_and_abandoned_ones_are_skipped() {
        let permits = Permits::new(1, 100, Some(3), Duration::from_secs(10));
        let held = permits.take(LOUD).await.unwrap();
        let mut waiting: Vec<_> = (0..3).map(|_| Box::pin(permits.take(LOUD))).collect();
        for one in &mut waiting {
            assert!(futures_util::poll!(one).is_pending());
        }
        assert!(permits.take(LOUD).await.is_none(), "the queue is full");
        drop(waiting.remove(0));
        let mut last = Box::pin(permits.take(LOUD));
        assert!(futures_util::poll!(&mut last).is_pending(), "an abandoned request leaves its place");
        drop(held);
        assert!(futures_util::poll!(&mut last).is_pending());
        assert!(futures_util::poll!(&mut waiting[1]).is_pending());
        // Dropped with a permit that it has not seen.
        drop(waiting.remove(0));
        waiting.remove(0).await.unwrap();
        last.await.unwrap();
    }

    #[test]
    fn a_tenant_is_active_for_a_while_after_its_last_request() {
        let (mut table, now) = (TenantTable::default(), Instant::now());
        table.count_request(LOUD, now);
        assert!(!table.has_others(LOUD, now) && table.has_others(CALM, now));
        table.count_request(CALM, now);
        table.count_request(LOUD, now + ACTIVE_FOR / 2);
        assert!(table.has_others(LOUD, now + ACTIVE_FOR / 2));
        assert!(!table.has_others(LOUD, now + ACTIVE_FOR));
        table.requests.entry(CALM).or_default();
        assert!(table.has_others(LOUD, now + ACTIVE_FOR), "it has a request that runs for long");
    }
}
