//! Limits how many connections of a server the requests of one tenant may hold, so that requests of other tenants
//! always get one.
//!
//! Further requests of the tenant wait in a bounded queue. A request beyond that bound, or one that has waited too
//! long, gets an error. One tenant alone can use all connections except a quarter.

use std::sync::Arc;
use std::time::Duration;

use uuid::Uuid;

use super::database::{Database, Session};
use super::permits::{Permit, Permits};
use crate::error::{Error, Result};

/// How many requests of one tenant may wait for each connection that it may hold, and for how long.
const WAITING: usize = 64;
const PATIENCE: Duration = Duration::from_secs(10);

/// The shares of all tenants.
#[derive(Debug, Clone)]
pub(super) struct Shares(Arc<Permits>);

/// One connection of a tenant's share.
pub(super) type Share = Permit;

impl Shares {
    pub(super) fn of(connections: usize) -> Self {
        let for_others = if connections > 1 { (connections / 4).max(1) } else { 0 };
        // The pool itself limits the total.
        Self(Arc::new(Permits::new(connections - for_others, usize::MAX, Some(WAITING), PATIENCE)))
    }

    async fn take(&self, tenant: Uuid) -> Result<Share> {
        self.0.take(tenant).await.ok_or(Error::Busy)
    }
}

impl Database {
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
        let most = |connections| Shares::of(connections).0.of_tenant();
        assert_eq!([1, 2, 4, 8, 40].map(most), [1, 1, 3, 6, 30]);
        let shares = Shares::of(2);
        let (loud, quiet) = (Uuid::from_u128(1), Uuid::from_u128(2));
        let held = shares.take(loud).await.unwrap();
        let mut waiting: Vec<_> = (0..WAITING).map(|_| Box::pin(shares.take(loud))).collect();
        for one in &mut waiting {
            assert!(futures_util::poll!(one).is_pending());
        }
        assert!(matches!(shares.take(loud).await, Err(Error::Busy)));
        shares.take(quiet).await.unwrap();
        drop(held);
        assert!(waiting.remove(0).await.is_ok(), "the waiting request is next");
    }
}
