//! The known routes, for a few seconds, with the compiled schemas of their definitions. A definition has a route for each
//! tenant, queue and priority, and all of them share one compiled schema.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use jsonschema::Validator;
use parking_lot::{Mutex, RwLock};
use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::error::Result;
use crate::model::definition;
use crate::store::enqueue::Route;

/// How long a route is cached: the deactivation of a definition or the suspension of a tenant takes effect within this
/// time.
const ROUTE_AGE: Duration = Duration::from_secs(5);

/// Above this number of entries, unused ones are removed.
const MANY: usize = 4_000;

/// A route, and the validator of its payloads; none if it accepts everything.
pub(crate) type CheckedRoute = Arc<(Route, Option<Arc<Validator>>)>;

#[derive(PartialEq, Eq, Hash)]
pub(super) struct RouteKey {
    pub(super) tenant: Option<Uuid>,
    pub(super) key: String,
    pub(super) queue: Option<String>,
    pub(super) priority: Option<i32>,
}

struct KnownRoute {
    since: Instant,
    route: CheckedRoute,
}

#[derive(Default)]
pub(super) struct Routes {
    known: RwLock<Pruned<RouteKey, KnownRoute>>,
    /// By the digest of the schema; they live as long as a route needs them.
    validators: Mutex<Pruned<[u8; 32], Weak<Validator>>>,
}

impl Routes {
    pub(super) fn get(&self, key: &RouteKey) -> Option<CheckedRoute> {
        let known = self.known.read();
        known.all.get(key).filter(|known| known.since.elapsed() < ROUTE_AGE).map(|known| known.route.clone())
    }

    /// Keeps a route. Fails if the schema of its definition is invalid.
    pub(super) fn put(&self, key: RouteKey, route: Route) -> Result<CheckedRoute> {
        let validator = self.validator(&route.arg_schema)?;
        let route = Arc::new((route, validator));
        let mut known = self.known.write();
        let is_fresh = |known: &KnownRoute| known.since.elapsed() < ROUTE_AGE;
        known.insert(key, KnownRoute { since: Instant::now(), route: route.clone() }, is_fresh);
        Ok(route)
    }

    fn validator(&self, schema: &str) -> Result<Option<Arc<Validator>>> {
        let digest: [u8; 32] = Sha256::digest(schema).into();
        let known = self.validators.lock().all.get(&digest).cloned();
        if let Some(known) = known.and_then(|known| known.upgrade()) {
            return Ok(Some(known));
        }
        let Some(compiled) = definition::validator(schema)?.map(Arc::new) else { return Ok(None) };
        let mut validators = self.validators.lock();
        validators.insert(digest, Arc::downgrade(&compiled), |known| known.strong_count() > 0);
        Ok(Some(compiled))
    }
}

/// A map that removes unused entries when it has become large, and then again when it has doubled.
struct Pruned<K, V> {
    all: HashMap<K, V>,
    prune_at: usize,
}

impl<K, V> Default for Pruned<K, V> {
    fn default() -> Self {
        Self { all: HashMap::new(), prune_at: MANY }
    }
}

impl<K: Eq + std::hash::Hash, V> Pruned<K, V> {
    fn insert(&mut self, key: K, value: V, is_used: impl Fn(&V) -> bool) {
        if self.all.len() >= self.prune_at {
            self.all.retain(|_, value| is_used(value));
            self.prune_at = (self.all.len() * 2).max(MANY);
        }
        self.all.insert(key, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A-187: one large schema, compiled once for all queues and priorities.
    #[test]
    fn routes_with_the_same_schema_share_its_validator() {
        let routes = Routes::default();
        let one = routes.validator(r#"{"type": "object"}"#).unwrap().unwrap();
        let same = routes.validator(r#"{"type": "object"}"#).unwrap().unwrap();
        assert!(Arc::ptr_eq(&one, &same));
        let other = routes.validator(r#"{"type": "string"}"#).unwrap().unwrap();
        assert!(!Arc::ptr_eq(&one, &other));
        assert!(routes.validator("{}").unwrap().is_none());
        drop((one, same));
        assert_eq!(Arc::strong_count(&routes.validator(r#"{"type": "object"}"#).unwrap().unwrap()), 1);
    }

    #[test]
    fn unused_entries_are_removed_when_there_are_many() {
        let mut map = Pruned::default();
        for n in 0..MANY * 3 {
            map.insert(n, n, |_| false);
            assert!(map.all.len() <= MANY);
        }
        let mut map = Pruned::default();
        for n in 0..MANY * 3 {
            map.insert(n, n, |_| true);
        }
        assert_eq!(map.all.len(), MANY * 3, "none in use is removed");
    }
}
