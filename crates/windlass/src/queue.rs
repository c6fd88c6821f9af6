//! The handle of applications: connections, a short-lived cache of routes, and a clock for ids.

mod clock;
mod damp;
pub(crate) mod identity;
pub(crate) mod listen;
mod routes;
pub(crate) mod slots;
pub(crate) mod waiting;

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use uuid::{ContextV7, Uuid};

use crate::error::{Error, Result};
use crate::model::actor::Actor;
use crate::store;
use crate::store::act::ActsAs;
use crate::store::database::{Database, Settings};
use crate::store::{connect, supported};

use clock::DatabaseClock;
pub(crate) use routes::CheckedRoute;
use routes::{RouteKey, Routes};
use slots::Slots;
use waiting::WaitingList;

/// How long [`Queue::connect`] may take, with all its statements.
const CONNECT_WITHIN: Duration = Duration::from_secs(45);

/// A job queue in one Postgres database. Cheap to clone; clones share connections.
///
/// ```no_run
/// # #[derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
/// # struct Resize { image: i64 }
/// # impl windlass::JobArgs for Resize { const KEY: &'static str = "resize"; }
/// use windlass::job::{Filter, State};
/// use windlass::{DEFAULT_TENANT, Queue};
///
/// # async fn example() -> windlass::Result<()> {
/// let queue = Queue::connect_to("postgresql://localhost/app").await?;
///
/// let id = queue.enqueue(Resize { image: 7 }).await?.id;
/// let job = queue.job(DEFAULT_TENANT, id).await?;
/// println!("{:?}", job.map(|job| job.status));
/// queue.cancel(DEFAULT_TENANT, id).await?;
///
/// // Many at once: list the dead letters of a definition, and retry them.
/// let dead = Filter::new(DEFAULT_TENANT).state(State::DeadLetter).definition_key("resize");
/// for job in queue.list(&dead).await?.jobs {
///     println!("{} {:?}", job.id, job.last_error);
/// }
/// queue.retry_matching(&dead, "on call").await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Queue {
    inner: Arc<Inner>,
    database: Database,
    /// Acts for external callers: its own lookups run as their role.
    is_callers: bool,
}

struct Inner {
    settings: Settings,
    routes: Routes,
    clock: DatabaseClock,
    ids: Mutex<ContextV7>,
    waiting: WaitingList,
    /// Each tenant can have one dry run at a time.
    dry_runs: Slots,
}

impl Queue {
    /// Connects, and checks that this release supports the schema. Does not migrate: see [`crate::migrate()`].
    ///
    /// ```no_run
    /// # async fn example() -> windlass::Result<()> {
    /// use windlass::{Queue, Settings};
    ///
    /// let settings = Settings::new("postgresql://localhost/app")?.connections(4);
    /// let queue = Queue::connect(settings).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn connect(settings: Settings) -> Result<Self> {
        // Its connections and statements have no limits of their own on a connection that hangs.
        tokio::time::timeout(CONNECT_WITHIN, Self::connect_patiently(settings))
            .await
            .map_err(|_| Error::unanswered())?
    }

    async fn connect_patiently(mut settings: Settings) -> Result<Self> {
        settings.prepared = settings.prepared && connect::is_direct(&settings.config).await?;
        let database = Database::new(&settings.config, settings.connections, settings.prepared)?
            .with_statement_timeout(settings.statement_timeout);
        let session = database.session().await?;
        supported::check_server(store::tenant::server_version(&session).await?)?;
        supported::check_schema(session.client()).await?;
        let (millis, at) = store::tenant::clock(&session).await?;
        let is_application = store::tenant::is_application(&session).await?;
        drop(session);
        let database = database.of_an_application(is_application);
        let inner = Inner {
            settings,
            routes: Routes::default(),
            clock: DatabaseClock::new(millis, at),
            ids: Mutex::new(ContextV7::new()),
            waiting: WaitingList::default(),
            dry_runs: Slots::new(1),
        };
        Ok(Self { inner: Arc::new(inner), database, is_callers: false })
    }

    /// The same for a process whose login needs these roles, such as `windlass_worker`. If a role is missing, this
    /// fails with its name, instead of each statement later.
    ///
    /// ```no_run
    /// # async fn example() -> windlass::Result<()> {
    /// use windlass::{Queue, Settings};
    ///
    /// let settings = Settings::new("postgresql://worker@localhost/app")?;
    /// let queue = Queue::connect_as(settings, &["windlass_worker", "windlass_keeper"]).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn connect_as(settings: Settings, roles: &[&str]) -> Result<Self> {
        let connected = Self::connect(settings).await;
        let queue = connected.map_err(|error| error.needing(&roles.join(", ")))?;
        queue.require_roles(roles).await?;
        Ok(queue)
    }

    /// The same for an operator, whose login needs the role `windlass_operator`. All operations through [`Self::act`]
    /// and [`Self::read`] use that role.
    ///
    /// ```no_run
    /// # async fn example() -> windlass::Result<()> {
    /// use windlass::admin::Reach;
    /// use windlass::{Queue, Settings};
    ///
    /// let queue = Queue::connect_as_operator(Settings::new("postgresql://ops@localhost/app")?).await?;
    /// println!("{} tenants", queue.read(Reach::Everything).await?.tenants().await?.len());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn connect_as_operator(settings: Settings) -> Result<Self> {
        Ok(Self::connect_as(settings, &["windlass_operator"]).await?.for_an_operator())
    }

    /// The same queue, with callers' transactions in the role of the operator.
    pub(crate) fn for_an_operator(mut self) -> Self {
        self.database = self.database.acting_as(ActsAs::Operator);
        self
    }

    /// Returns an error if the login lacks one of these roles.
    ///
    /// ```no_run
    /// # async fn example(queue: &windlass::Queue) -> windlass::Result<()> {
    /// queue.require_roles(&["windlass_keeper"]).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn require_roles(&self, roles: &[&str]) -> Result<()> {
        store::access::require(&self.database, roles).await
    }

    /// The same queue for a server that acts for external callers. Its own lookups before their transactions, such as
    /// the route of a job or a log, also run as the server's role for the tenant, so that a bug cannot reach the rows
    /// of another tenant.
    #[must_use]
    #[doc(hidden)]
    pub fn for_callers(mut self) -> Self {
        self.is_callers = true;
        self.database = self.database.for_requests();
        self
    }

    /// The same queue for internal statements, each of which the server cancels after this time.
    pub(crate) fn limited_to(mut self, limit: Duration) -> Self {
        self.database = self.database.limited_to(limit);
        self
    }

    /// The same queue with its own connections, so that neither waits for those of the other.
    pub(crate) fn apart(&self, connections: usize) -> Result<Self> {
        let settings = &self.inner.settings;
        let database = Database::new(&settings.config, connections, settings.prepared)?
            .with_statement_timeout(settings.statement_timeout);
        Ok(Self { inner: self.inner.clone(), database, is_callers: self.is_callers })
    }

    /// Connects to a URL with the default settings.
    ///
    /// ```no_run
    /// # async fn example() -> windlass::Result<()> {
    /// let queue = windlass::Queue::connect_to("postgresql://localhost/app").await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn connect_to(url: &str) -> Result<Self> {
        Self::connect(Settings::new(url)?).await
    }

    pub(crate) fn is_callers(&self) -> bool {
        self.is_callers
    }

    pub(crate) fn waiting(&self) -> &WaitingList {
        &self.inner.waiting
    }

    pub(crate) fn dry_runs(&self) -> Slots {
        self.inner.dry_runs.clone()
    }

    /// Returns the settings that the queue was connected with.
    ///
    /// ```no_run
    /// # async fn example(queue: &windlass::Queue) -> windlass::Result<()> {
    /// println!("{:?}", queue.settings());
    /// # Ok(())
    /// # }
    /// ```
    pub fn settings(&self) -> &Settings {
        &self.inner.settings
    }

    pub(crate) fn database(&self) -> &Database {
        &self.database
    }

    /// A UUIDv7 by the clock of the database as far as it is known, so that a machine with a wrong clock does not
    /// insert its jobs into the partition of another day. The ids increase within a process, which makes index inserts
    /// cheaper; nothing depends on it.
    pub(crate) fn new_id(&self) -> Uuid {
        let millis = self.database_millis();
        let (seconds, nanos) = (millis / 1000, (millis % 1000) as u32 * 1_000_000);
        Uuid::new_v7(uuid::Timestamp::from_unix(&self.inner.ids, seconds, nanos))
    }

    /// Checks an id that the caller chose: like `check_ids` in SQL, which the plain insert does not call.
    pub(crate) fn chosen_id(&self, id: Uuid) -> Result<Uuid> {
        let millis = id.as_u64_pair().0 >> 16;
        if id.get_version_num() == 7 && millis >= self.database_millis() + 86_400_000 {
            let message = "is a UUIDv7 more than a day in the future";
            return Err(Error::refused("job_id", message));
        }
        if id.is_nil() || id.is_max() {
            return Err(Error::refused("job_id", "must not be the nil or the max UUID"));
        }
        Ok(id)
    }

    fn database_millis(&self) -> u64 {
        self.inner.clock.millis(Instant::now())
    }

    /// Reads the clock of the database, which also shows that the database responds.
    pub(crate) async fn read_clock(&self) -> Result<()> {
        let (millis, at) = store::tenant::clock(&self.database().session().await?).await?;
        self.inner.clock.set(millis, at);
        Ok(())
    }

    async fn read_old_clock(&self) -> Result<()> {
        if self.inner.clock.is_old(Instant::now()) { self.read_clock().await } else { Ok(()) }
    }

    /// The route of a definition for a tenant, cached for a few seconds.
    pub(crate) async fn route(
        &self,
        tenant: Option<Uuid>,
        key: &str,
        queue: Option<&str>,
        priority: Option<i32>,
    ) -> Result<CheckedRoute> {
        let route_key = RouteKey { tenant, key: key.to_owned(), queue: queue.map(str::to_owned), priority };
        if let Some(known) = self.inner.routes.get(&route_key) {
            return Ok(known);
        }
        self.read_old_clock().await?;
        let as_tenant = tenant.filter(|_| self.is_callers);
        let route = match as_tenant {
            Some(tenant) => {
                let session = store::act::write(self.database(), Some(tenant), &Actor::default()).await?;
                let route = store::enqueue::route_in(&session, Some(tenant), key, queue, priority).await?;
                session.commit().await?;
                route
            }
            None => store::enqueue::route(self.database(), tenant, key, queue, priority).await?,
        };
        self.inner.routes.put(route_key, route)
    }

    /// The same for a keeper, with the queue and priority of the definition. Fails with a lock timeout instead of waiting
    /// for an open transaction of the tenant, because the other tenants would wait too.
    pub(crate) async fn keeper_route(&self, tenant: Uuid, key: &str) -> Result<CheckedRoute> {
        let route_key = RouteKey { tenant: Some(tenant), key: key.to_owned(), queue: None, priority: None };
        if let Some(known) = self.inner.routes.get(&route_key) {
            return Ok(known);
        }
        self.read_old_clock().await?;
        let route = store::enqueue::keeper_route(self.database(), tenant, key).await?;
        self.inner.routes.put(route_key, route)
    }
}

impl fmt::Debug for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queue").field("settings", &self.inner.settings).finish_non_exhaustive()
    }
}
