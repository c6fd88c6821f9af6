//! Limits the number of concurrent searches, per tenant and in total: a search reads and redacts megabytes of payloads, and the
//! rest of the server and its connections must stay available for other requests.

use std::time::Duration;

use uuid::Uuid;
use windlass::internals::{Permit, Permits};

use super::problem::{Problem, ProblemKind};

/// Concurrent searches of one tenant, and in total.
const OF_TENANT: usize = 2;
const OF_ALL: usize = 4;
/// How long a further search waits before it is rejected.
const WAIT_TIMEOUT: Duration = Duration::from_secs(2);

#[derive(Debug)]
pub(crate) struct Searches(Permits);

impl Default for Searches {
    fn default() -> Self {
        Self::within(WAIT_TIMEOUT)
    }
}

impl Searches {
    fn within(timeout: Duration) -> Self {
        Self(Permits::new(OF_TENANT, OF_ALL, None, timeout))
    }

    /// Waits a moment for a permit.
    pub(crate) async fn permit(&self, tenant: Uuid) -> Result<Permit, Problem> {
        self.0.take(tenant).await.ok_or_else(|| {
            let detail = format!(
                "too many searches in progress: a tenant can have at most {OF_TENANT} at the same time"
            );
            Problem::of(ProblemKind::TooManyRequests, detail).retry_after(WAIT_TIMEOUT.as_secs())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_tenant_and_all_tenants_together_have_few_searches_at_once() {
        let searches = Searches::within(Duration::ZERO);
        let tenants = [1, 2, 3].map(Uuid::from_u128);
        let at_once = async |tenant| searches.permit(tenant).await;
        let first = at_once(tenants[0]).await.unwrap();
        let _second = at_once(tenants[0]).await.unwrap();
        let rejected = at_once(tenants[0]).await.unwrap_err();
        assert_eq!((rejected.kind, rejected.retry_after), (ProblemKind::TooManyRequests, Some(2)));
        let _third = at_once(tenants[1]).await.unwrap();
        let _fourth = at_once(tenants[1]).await.unwrap();
        assert!(at_once(tenants[2]).await.is_err(), "four at once");
        drop(first);
        let fifth = at_once(tenants[2]).await.unwrap();
        drop(fifth);
        at_once(tenants[0]).await.unwrap();
        assert!(searches.0.tenants() <= 3);
    }
}
