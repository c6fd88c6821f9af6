//! The handle that applications hold: connections, a short memory of routes, and a clock for ids.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use uuid::{ContextV7, Uuid};

use crate::definition;
use crate::error::{Error, Result};
use crate::migrate;
use crate::server_version::{Standing, standing};
use crate::store;
use crate::store::connect;
use crate::store::database::{Database, Settings};
use crate::store::enqueue::Route;
use crate::together::Together;

/// How long a route is believed: a definition that is deactivated, or a tenant that is suspended, is honoured within this.
const ROUTE_AGE: Duration = Duration::from_secs(5);

/// A job queue in one Postgres database. Cheap to clone; clones share connections.
#[derive(Clone)]
pub struct Queue {
    inner: Arc<Inner>,
    /// Works for callers from outside: what it looks up by itself runs as their role.
    is_callers: bool,
}

struct Inner {
    settings: Settings,
    database: Database,
    routes: RwLock<HashMap<RouteKey, KnownRoute>>,
    /// What to add to this machine's clock to get the database's, in milliseconds.
    clock_offset: AtomicI64,
    ids: Mutex<ContextV7>,
    together: Together,
}

pub(crate) type CheckedRoute = Arc<(Route, Option<jsonschema::Validator>)>;

struct KnownRoute {
    since: Instant,
    route: CheckedRoute,
}

#[derive(PartialEq, Eq, Hash)]
struct RouteKey {
    tenant: Option<Uuid>,
    key: String,
    queue: Option<String>,
    priority: Option<i32>,
}

impl Queue {
    /// Connects and checks that the schema is one this release knows. Does not migrate: see [`crate::migrate()`].
    pub async fn connect(mut settings: Settings) -> Result<Self> {
        settings.prepared = settings.prepared && connect::is_direct(&settings.config).await?;
        let database = Database::new(&settings.config, settings.connections, settings.prepared)?
            .with_statement_timeout(settings.statement_timeout);
        let session = database.session().await?;
        check_server(store::tenant::server_version(&session).await?)?;
        migrate::check(session.client()).await?;
        let offset = store::tenant::clock_offset(&session).await?;
        drop(session);
        let inner = Inner {
            settings,
            database,
            routes: RwLock::default(),
            clock_offset: AtomicI64::new(offset),
            ids: Mutex::new(ContextV7::new()),
            together: Together::default(),
        };
        Ok(Self { inner: Arc::new(inner), is_callers: false })
    }

    /// The same queue for a server that works for callers from outside. What it looks up on the way to their transactions, such
    /// as the route of a job or a log, runs as the api's role for the tenant too, so that the login itself needs no right to
    /// any tenant's rows.
    #[must_use]
    pub fn for_callers(mut self) -> Self {
        self.is_callers = true;
        self
    }

    /// Connects to a URL with the default settings.
    pub async fn connect_to(url: &str) -> Result<Self> {
        Self::connect(Settings::new(url)?).await
    }

    pub(crate) fn is_callers(&self) -> bool {
        self.is_callers
    }

    pub(crate) fn together(&self) -> &Together {
        &self.inner.together
    }

    pub fn settings(&self) -> &Settings {
        &self.inner.settings
    }

    pub(crate) fn database(&self) -> &Database {
        &self.inner.database
    }

    /// A UUIDv7 by the database's clock as far as we know it, so that a machine with a wrong clock does not put its jobs
    /// into another week's partition. They rise within a process, which spares the index a search; nothing rests on it.
    pub(crate) fn new_id(&self) -> Uuid {
        let now = Timestamp::now().as_millisecond() + self.inner.clock_offset.load(Ordering::Relaxed);
        let millis = u64::try_from(now).unwrap_or_default();
        let (seconds, nanos) = (millis / 1000, (millis % 1000) as u32 * 1_000_000);
        Uuid::new_v7(uuid::Timestamp::from_unix(&self.inner.ids, seconds, nanos))
    }

    /// The route of a definition for a tenant, remembered for a few seconds.
    pub(crate) async fn route(
        &self,
        tenant: Option<Uuid>,
        key: &str,
        queue: Option<&str>,
        priority: Option<i32>,
    ) -> Result<CheckedRoute> {
        let route_key = RouteKey { tenant, key: key.to_owned(), queue: queue.map(str::to_owned), priority };
        {
            let routes = self.inner.routes.read().unwrap_or_else(PoisonError::into_inner);
            if let Some(known) = routes.get(&route_key)
                && known.since.elapsed() < ROUTE_AGE
            {
                return Ok(known.route.clone());
            }
        }
        let as_tenant = tenant.filter(|_| self.is_callers);
        let session = match as_tenant {
            Some(tenant) => store::act::write(self.database(), Some(tenant)).await?,
            None => self.database().session().await?,
        };
        let route = store::enqueue::route(&session, tenant, key, queue, priority).await?;
        if as_tenant.is_some() {
            session.commit().await?;
        }
        let validator = definition::validator(&route.arg_schema)?;
        let route = Arc::new((route, validator));
        let mut routes = self.inner.routes.write().unwrap_or_else(PoisonError::into_inner);
        if routes.len() >= 100_000 {
            routes.retain(|_, known| known.since.elapsed() < ROUTE_AGE);
        }
        routes.insert(route_key, KnownRoute { since: Instant::now(), route: route.clone() });
        Ok(route)
    }
}

fn check_server(version: i32) -> Result<()> {
    let shown = format!("Postgres {}.{}", version / 10_000, version % 10_000);
    match standing(version) {
        Standing::TooOld => {
            let message = format!("{shown} is too old: windlass needs Postgres 15 or newer");
            Err(Error::Settings { message })
        }
        Standing::Unfixed { fixed_in } => {
            tracing::warn!("{shown} lacks fixes that row-level security rests on; upgrade to {fixed_in}");
            Ok(())
        }
        Standing::Fine => Ok(()),
    }
}

impl fmt::Debug for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queue").field("settings", &self.inner.settings).finish_non_exhaustive()
    }
}
