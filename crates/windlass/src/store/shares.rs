//! Limits how many connections of a server the requests of one tenant may hold, so that requests of other tenants
//! always get one.
//!
//! Further requests of the tenant wait in a bounded queue. A request beyond that bound, or one that has waited too
//! long, gets an error. One tenant alone can use all connections except a quarter, and so can several together: the last
//! quarter is for tenants that hold none. While several tenants are active, each can use a quarter.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;
use uuid::Uuid;

use super::database::{Database, Session};
use super::permits::{Permit, Permits};
use crate::error::{Error, Result};

/// How many requests of one tenant may wait for each connection that it may hold, and for how long.
const WAITING: usize = 64;
const PATIENCE: Duration = Duration::from_secs(10);

const BUSY: Error = Error::Busy {
    reason: "the tenant has too many requests that wait for a database connection; send fewer at the same time",
};

/// The shares of all tenants.
#[derive(Debug, Clone)]
pub(super) struct Shares {
    /// The connections of one tenant, and its queue.
    permits: Arc<Permits>,
    slots: Arc<ConnectionSlots>,
}

/// The connections of all tenants together.
#[derive(Debug)]
struct ConnectionSlots {
    /// Beyond this number, only tenants without a connection get one. The pool itself limits the total.
    common: usize,
    held: Mutex<PlacesInUse>,
    freed: Notify,
}

#[derive(Debug, Default)]
struct PlacesInUse {
    total: usize,
    by_tenant: HashMap<Uuid, usize>,
}

/// One connection of a tenant's share.
#[derive(Debug)]
pub(super) struct Share {
    _permit: Permit,
    _slot: ConnectionSlot,
}

#[derive(Debug)]
struct ConnectionSlot {
    slots: Arc<ConnectionSlots>,
    tenant: Uuid,
}

impl Shares {
    pub(super) fn of(connections: usize) -> Self {
        let for_others = if connections > 1 { (connections / 4).max(1) } else { 0 };
        let common = connections - for_others;
        // Two at least, so that one stays free for heartbeats while another waits for a lock.
        let beside_others = (connections / 4).max(2);
        let permits = Permits::new(common, usize::MAX, Some(WAITING), PATIENCE).beside_others(beside_others);
        Self {
            permits: Arc::new(permits),
            slots: Arc::new(ConnectionSlots { common, held: Mutex::default(), freed: Notify::new() }),
        }
    }

    async fn take(&self, tenant: Uuid) -> Result<Share> {
        let permit = self.permits.take(tenant).await.ok_or(BUSY)?;
        let slot = tokio::time::timeout(PATIENCE, self.slot(tenant)).await.map_err(|_| BUSY)?;
        Ok(Share { _permit: permit, _slot: slot })
    }

    async fn slot(&self, tenant: Uuid) -> ConnectionSlot {
        loop {
            // Before the attempt, so that a slot that is freed in between is not missed.
            let mut freed = std::pin::pin!(self.slots.freed.notified());
            freed.as_mut().enable();
            if let Some(slot) = self.try_slot(tenant) {
                return slot;
            }
            freed.await;
        }
    }

    fn try_slot(&self, tenant: Uuid) -> Option<ConnectionSlot> {
        let mut held = self.slots.held();
        if held.total >= self.slots.common && held.by_tenant.contains_key(&tenant) {
            return None;
        }
        held.total += 1;
        *held.by_tenant.entry(tenant).or_default() += 1;
        drop(held);
        Some(ConnectionSlot { slots: self.slots.clone(), tenant })
    }
}

impl ConnectionSlots {
    fn held(&self) -> MutexGuard<'_, PlacesInUse> {
        self.held.lock()
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        let mut held = self.slots.held();
        held.total -= 1;
        if let Some(own) = held.by_tenant.get_mut(&self.tenant) {
            *own -= 1;
            if *own == 0 {
                held.by_tenant.remove(&self.tenant);
            }
        }
        drop(held);
        self.slots.freed.notify_waiters();
    }
}

impl Database {
    /// Returns how many connections the calls of one tenant may hold while it is alone, and while others are active.
    pub(crate) fn share(&self) -> (usize, usize) {
        let of = |shares: &Shares| (shares.permits.of_tenant(), shares.permits.of_tenant_beside_others());
        self.shares.as_ref().map_or((usize::MAX, usize::MAX), of)
    }

    /// Returns the same connections for calls of one tenant, or of no particular tenant.
    pub(crate) fn of_tenant(&self, tenant: Option<Uuid>) -> Self {
        let mut same = self.clone();
        same.tenant = tenant;
        same
    }

    /// Returns a connection for a request of a tenant, or of no particular tenant.
    pub(crate) async fn session_of(&self, tenant: Option<Uuid>) -> Result<Session> {
        let share = match (&self.shares, tenant) {
            (Some(shares), Some(tenant)) => Some(shares.take(tenant).await?),
            _ => None,
        };
        let mut session = self.session().await?;
        session.share = share;
        Ok(session)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_tenant_leaves_a_quarter_to_others_and_its_queue_is_bounded() {
        let most = |connections| Shares::of(connections).permits.of_tenant();
        assert_eq!([1, 2, 4, 8, 40].map(most), [1, 1, 3, 6, 30]);
        let shares = Shares::of(2);
        let (loud, quiet) = (Uuid::from_u128(1), Uuid::from_u128(2));
        let held = shares.take(loud).await.unwrap();
        let mut waiting: Vec<_> = (0..WAITING).map(|_| Box::pin(shares.take(loud))).collect();
        for one in &mut waiting {
            assert!(futures_util::poll!(one).is_pending());
        }
        assert!(matches!(shares.take(loud).await, Err(Error::Busy { .. })));
        shares.take(quiet).await.unwrap();
        drop(held);
        assert!(waiting.remove(0).await.is_ok(), "the waiting request is next");
    }

    /// two tenants that each hold as many as they may would hold all.
    #[tokio::test]
    async fn several_tenants_together_leave_a_quarter_to_those_that_hold_none() {
        let shares = Shares::of(8);
        let tenant = Uuid::from_u128;
        let mut held = Vec::new();
        for number in [1, 1, 1, 1, 2, 2] {
            held.push(shares.take(tenant(number)).await.unwrap());
        }
        let mut more = Box::pin(shares.take(tenant(2)));
        assert!(futures_util::poll!(&mut more).is_pending(), "it holds two already");
        let third = shares.take(tenant(3)).await.unwrap();
        let mut again = Box::pin(shares.take(tenant(3)));
        assert!(futures_util::poll!(&mut again).is_pending());
        drop(again);
        let fourth = shares.take(tenant(4)).await.unwrap();
        drop((third, fourth));
        assert!(futures_util::poll!(&mut more).is_pending(), "these were of the last quarter");
        held.truncate(5);
        more.await.unwrap();
        drop(held);
        assert!(shares.slots.held().by_tenant.is_empty(), "tenants without a connection are removed");
        assert_eq!(shares.slots.held().total, 0);
    }
}
