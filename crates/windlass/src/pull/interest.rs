//! What a claim requests, and how much of it one tenant may have waiting. A worker chooses the names in its claims
//! freely, so nothing of the dispatcher may depend on their number: they are hashed once, by the caller, and after that
//! a request is its digest.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::error::{Error, Result};
use crate::store::pull::PullLane;

/// The maximum number of waiting claims of one tenant, a quarter of the connections that a server accepts.
const MAX_CLAIMS: usize = 2_500;
/// The maximum number of different requests among them, because a job is offered to each, and of the bytes of names in
/// those, because each name costs a lookup of the lanes.
pub(super) const MAX_INTERESTS: usize = 200;
const MAX_NAME_BYTES: usize = 1 << 20;

/// The request of a claim.
#[derive(Debug)]
pub(super) struct Interest {
    pub(super) tenant: Option<Uuid>,
    pub(super) keys: Vec<String>,
    queues: Vec<String>,
}

/// Equal for equal requests of the same tenant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct InterestId([u8; 32]);

impl Interest {
    pub(super) fn new(tenant: Option<Uuid>, keys: Vec<String>, queues: Vec<String>) -> Self {
        let sorted = |mut names: Vec<String>| {
            names.sort_unstable();
            names.dedup();
            names
        };
        Self { tenant, keys: sorted(keys), queues: sorted(queues) }
    }

    pub(super) fn wants(&self, lane: &PullLane) -> bool {
        let names = |all: &[String], one: &str| {
            all.is_empty() || all.binary_search_by(|name| (**name).cmp(one)).is_ok()
        };
        self.tenant.is_none_or(|tenant| tenant == lane.tenant)
            && names(&self.keys, &lane.definition_key)
            && names(&self.queues, &lane.queue)
    }

    fn id(&self) -> InterestId {
        let mut digest = Sha256::new();
        digest.update(self.tenant.unwrap_or_default());
        digest.update([u8::from(self.tenant.is_some())]);
        for names in [&self.keys, &self.queues] {
            digest.update(names.len().to_be_bytes());
            for name in names {
                digest.update(name.len().to_be_bytes());
                digest.update(name);
            }
        }
        InterestId(digest.finalize().into())
    }

    fn name_bytes(&self) -> usize {
        self.keys.iter().chain(&self.queues).map(String::len).sum()
    }
}

/// The claims of each tenant that wait, or that the dispatcher has not let go yet.
#[derive(Debug, Clone, Default)]
pub(super) struct ClaimPermits(Arc<Mutex<HashMap<Option<Uuid>, TenantClaims>>>);

#[derive(Debug, Default)]
struct TenantClaims {
    claims: usize,
    name_bytes: usize,
    /// Each request, and the number of claims with it.
    interests: HashMap<InterestId, (Arc<Interest>, usize)>,
}

/// The permit of one claim. It is part of what the dispatcher holds, so a caller that disconnects gets no new permit
/// before the dispatcher has noticed.
#[derive(Debug)]
pub(super) struct ClaimPermit {
    permits: ClaimPermits,
    pub(super) id: InterestId,
    /// Shared by all claims with the same request.
    pub(super) interest: Arc<Interest>,
}

impl ClaimPermits {
    /// Takes a permit for a claim, unless its tenant has too many. Workers of the installation have no limit: they
    /// belong to the operator of the server.
    pub(super) fn take(&self, interest: Interest) -> Result<ClaimPermit> {
        let (id, bytes, tenant) = (interest.id(), interest.name_bytes(), interest.tenant);
        let mut all = self.all();
        if tenant.is_some() {
            // Checked before the entry exists, so that a rejected claim leaves none.
            let (nothing, current) = (TenantClaims::default(), all.get(&tenant));
            let current = current.unwrap_or(&nothing);
            if current.claims >= MAX_CLAIMS {
                return Err(Error::Busy {
                    reason: "the tenant has 2500 waiting claims, which is the limit; use fewer workers, or let each claim more jobs",
                });
            }
            if !current.interests.contains_key(&id) {
                current.check(bytes)?;
            }
        }
        let permits = all.entry(tenant).or_default();
        permits.claims += 1;
        let entry = permits.interests.entry(id).or_insert_with(|| {
            permits.name_bytes += bytes;
            (Arc::new(interest), 0)
        });
        entry.1 += 1;
        let interest = entry.0.clone();
        drop(all);
        Ok(ClaimPermit { permits: self.clone(), id, interest })
    }

    fn all(&self) -> MutexGuard<'_, HashMap<Option<Uuid>, TenantClaims>> {
        self.0.lock()
    }

    #[cfg(test)]
    pub(super) fn claims(&self, tenant: Option<Uuid>) -> usize {
        self.all().get(&tenant).map_or(0, |permits| permits.claims)
    }
}

impl TenantClaims {
    /// Whether there is room for one more request.
    fn check(&self, bytes: usize) -> Result<()> {
        let problem = if self.interests.len() >= MAX_INTERESTS {
            format!("{MAX_INTERESTS} different lists of definitions and queues")
        } else if self.name_bytes + bytes > MAX_NAME_BYTES {
            format!("lists of definitions and queues with {MAX_NAME_BYTES} bytes")
        } else {
            return Ok(());
        };
        let message =
            format!("the waiting claims of the tenant have {problem}; use the same list in every worker");
        Err(Error::refused("definition_keys", message))
    }
}

impl Drop for ClaimPermit {
    fn drop(&mut self) {
        let mut all = self.permits.all();
        let Some(permits) = all.get_mut(&self.interest.tenant) else { return };
        permits.claims -= 1;
        if let Some(entry) = permits.interests.get_mut(&self.id) {
            entry.1 -= 1;
            if entry.1 == 0 {
                permits.interests.remove(&self.id);
                permits.name_bytes -= self.interest.name_bytes();
            }
        }
        if permits.claims == 0 {
            all.remove(&self.interest.tenant);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interest(tenant: Option<Uuid>, name: impl Into<String>) -> Interest {
        Interest::new(tenant, vec![name.into()], Vec::new())
    }

    ///
    #[test]
    fn a_tenant_has_so_many_waiting_claims_and_different_requests_and_others_do_not_notice() {
        let permits = ClaimPermits::default();
        let (loud, quiet) = (Some(Uuid::from_u128(1)), Some(Uuid::from_u128(2)));
        let mut held: Vec<ClaimPermit> =
            (0..MAX_INTERESTS).map(|n| permits.take(interest(loud, format!("{n}"))).unwrap()).collect();
        let refused = permits.take(interest(loud, "one more")).unwrap_err();
        assert!(refused.to_string().contains("200 different lists"), "{refused}");
        held.extend((held.len()..MAX_CLAIMS).map(|_| permits.take(interest(loud, "7")).unwrap()));
        let refused = permits.take(interest(loud, "7")).unwrap_err();
        assert!(matches!(refused, Error::Busy { .. }));
        assert!(refused.to_string().contains(&format!("{MAX_CLAIMS} waiting claims")), "{refused}");
        assert!(permits.take(interest(quiet, "one more")).is_ok());
        assert!((0..MAX_CLAIMS).all(|n| permits.take(interest(None, format!("{n}"))).is_ok()));
        held.truncate(MAX_INTERESTS - 1);
        let long = "x".repeat(MAX_NAME_BYTES);
        let refused = permits.take(interest(loud, long)).unwrap_err();
        assert!(refused.to_string().contains("with 1048576 bytes"), "{refused}");
        assert!(permits.take(interest(loud, "one more")).is_ok());
        drop(held);
        assert!(permits.all().is_empty(), "nothing is remembered of claims that ended");
    }

    #[test]
    fn equal_requests_have_one_id_and_others_have_another() {
        let id = |tenant: u128, keys: &[&str], queues: &[&str]| {
            let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
            Interest::new(Some(Uuid::from_u128(tenant)), owned(keys), owned(queues)).id()
        };
        assert_eq!(id(1, &["a", "b", "a"], &[]), id(1, &["b", "a"], &[]));
        let all = [
            id(0, &["a", "b"], &[]),
            id(1, &["a", "b"], &[]),
            id(1, &["ab"], &[]),
            id(1, &["a"], &["b"]),
            id(1, &[], &["a", "b"]),
            Interest::new(None, vec!["a".to_owned(), "b".to_owned()], Vec::new()).id(),
        ];
        let different: std::collections::HashSet<InterestId> = all.into();
        assert_eq!(different.len(), all.len());
    }
}
