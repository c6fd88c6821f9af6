//! How many connections of a server one tenant's requests may hold, so that the requests of another always find one.
//!
//! A tenant that wants more waits in a line of its own. The line has an end: whoever would stand behind it, or has stood in it for too
//! long, is told so. One tenant alone can use all connections but a quarter.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use uuid::Uuid;

use super::database::{Database, Session};
use crate::error::{Error, Result};

/// Requests of one tenant that may wait for each connection it may hold, and for how long.
const WAITING: usize = 64;
const PATIENCE: Duration = Duration::from_secs(10);
const MOST_TENANTS: usize = 10_000;

/// The shares of all tenants.
#[derive(Debug, Clone)]
pub(super) struct Shares {
    most: usize,
    of: Arc<Mutex<HashMap<Uuid, TenantPlaces>>>,
}

#[derive(Debug, Clone)]
struct TenantPlaces {
    /// Those who hold a connection, and those who wait.
    line: Arc<Semaphore>,
    connections: Arc<Semaphore>,
}

/// A connection's worth of a tenant's share.
pub(super) struct Share {
    _line: OwnedSemaphorePermit,
    _connection: OwnedSemaphorePermit,
}

impl Shares {
    pub(super) fn of(connections: usize) -> Self {
        let for_others = if connections > 1 { (connections / 4).max(1) } else { 0 };
        Self { most: connections - for_others, of: Arc::default() }
    }

    async fn take(&self, tenant: Uuid) -> Result<Share> {
        let places = self.places(tenant);
        let Ok(line) = places.line.try_acquire_owned() else { return Err(Error::Busy) };
        match tokio::time::timeout(PATIENCE, places.connections.acquire_owned()).await {
            Ok(Ok(connection)) => Ok(Share { _line: line, _connection: connection }),
            _ => Err(Error::Busy),
        }
    }

    fn places(&self, tenant: Uuid) -> TenantPlaces {
        let mut of = self.of.lock().unwrap_or_else(PoisonError::into_inner);
        if of.len() >= MOST_TENANTS {
            // Whoever has none and waits for none has a full share anyway.
            of.retain(|_, places| Arc::strong_count(&places.line) > 1);
        }
        let new = || TenantPlaces {
            line: Arc::new(Semaphore::new(self.most * (1 + WAITING))),
            connections: Arc::new(Semaphore::new(self.most)),
        };
        of.entry(tenant).or_insert_with(new).clone()
    }
}

impl Database {
    /// The same connections for the calls of one tenant, or for those of nobody in particular.
    pub(crate) fn of_tenant(&self, tenant: Option<Uuid>) -> Self {
        let mut same = self.clone();
        same.tenant = tenant;
        same
    }

    /// A connection for a tenant's request, or for one that is nobody's in particular.
    pub(super) async fn session_of(&self, tenant: Option<Uuid>) -> Result<Session> {
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
    async fn a_tenant_leaves_a_quarter_to_others_and_its_line_has_an_end() {
        let most = |connections| Shares::of(connections).most;
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
        assert!(waiting.remove(0).await.is_ok(), "who waits is next");
    }
}
