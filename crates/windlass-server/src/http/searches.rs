//! How many searches run at once. A search reads and redacts megabytes of payloads, so a tenant has few at a time, and so
//! has everybody together: what is left of the server and of its connections serves other requests.

use std::time::Duration;

use uuid::Uuid;
use windlass::{Turn, Turns};

use super::problem::{Problem, ProblemKind};

/// Searches at once of one tenant, and of all.
const OF_TENANT: usize = 2;
const OF_ALL: usize = 4;
/// How long one more waits for its turn before it is refused.
const PATIENCE: Duration = Duration::from_secs(2);

#[derive(Debug)]
pub(crate) struct Searches(Turns);

impl Default for Searches {
    fn default() -> Self {
        Self::within(PATIENCE)
    }
}

impl Searches {
    fn within(patience: Duration) -> Self {
        Self(Turns::new(OF_TENANT, OF_ALL, None, patience))
    }

    /// Waits a moment for a turn.
    pub(crate) async fn turn(&self, tenant: Uuid) -> Result<Turn, Problem> {
        self.0.take(tenant).await.ok_or_else(|| {
            let detail = format!("other searches are under way: a tenant has at most {OF_TENANT} at a time");
            Problem::of(ProblemKind::TooManyRequests, detail).retry_after(PATIENCE.as_secs())
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
        let at_once = async |tenant| searches.turn(tenant).await;
        let first = at_once(tenants[0]).await.unwrap();
        let _second = at_once(tenants[0]).await.unwrap();
        let refused = at_once(tenants[0]).await.unwrap_err();
        assert_eq!((refused.kind, refused.retry_after), (ProblemKind::TooManyRequests, Some(2)));
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
