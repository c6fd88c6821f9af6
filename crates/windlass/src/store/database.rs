//! Connections: their number, addresses and settings.
//!
//! There are two addresses: `url` may be a transaction pooler, `direct_url` must reach the server itself (LISTEN,
//! migrations). Nothing here leaves state in a session, so any transaction may run on any server connection. Statements
//! are prepared by name only on a direct connection: behind a pooler they are sent unnamed, which costs a parse but no
//! plan, because everything expensive is a function whose plan the server caches. A lost name would be the smaller
//! problem: every process counts its names in the same way, so one process could run another's statement.

mod asking;
mod ending;
mod transaction;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use deadpool_postgres::{Manager, ManagerConfig, Object, Pool, RecyclingMethod};
use parking_lot::Mutex;
use tokio_postgres::config::TargetSessionAttrs;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Config, Row};
use uuid::Uuid;

use super::act::ActsAs;
use super::connect::{is_plain, tls};
use super::holders::{HeldConnection, Holders};
use super::isolation;
use super::shares::{Share, Shares};
pub(crate) use super::statement::{Statement, query_unnamed};
use crate::error::{Error, Result};
pub(crate) use asking::Rows;

/// Where the database is, and how this process uses it.
///
/// ```
/// use std::time::Duration;
/// use windlass::Settings;
///
/// // A pooler in transaction mode for statements, the server itself for LISTEN and migrations.
/// let settings = Settings::new("postgresql://app@pooler:6432/app")?
///     .direct_url("postgresql://app@db:5432/app")?
///     .pooled()
///     .connections(20)
///     .statement_timeout(Duration::from_secs(5));
/// // Where nothing but the pooler can be reached, jobs are found by polling.
/// let settings = settings.without_listen();
/// # let _ = settings;
/// # Ok::<(), windlass::Error>(())
/// ```
#[derive(Clone)]
pub struct Settings {
    pub(crate) config: Config,
    pub(crate) direct: Config,
    pub(crate) connections: usize,
    pub(crate) prepared: bool,
    pub(crate) listen: bool,
    pub(crate) statement_timeout: Duration,
}

/// The default timeout of one statement of a caller.
const STATEMENT_TIMEOUT: Duration = Duration::from_secs(15);

/// The minimum and maximum time that the server may work on one statement of a worker.
const ENGINE_LIMITS: (Duration, Duration) = (Duration::from_secs(60), Duration::from_secs(86_400));

impl Settings {
    /// Parses a `postgresql://` URL or a key=value string. If it has several hosts, the writable one is used.
    pub fn new(url: &str) -> Result<Self> {
        let config = parse(url)?;
        Ok(Self {
            direct: config.clone(),
            config,
            connections: 8,
            prepared: true,
            listen: true,
            statement_timeout: STATEMENT_TIMEOUT,
        })
    }

    /// Sets the address that reaches the server itself, if `url` is a pooler.
    pub fn direct_url(mut self, url: &str) -> Result<Self> {
        self.direct = parse(url)?;
        Ok(self)
    }

    /// Sets the maximum number of connections of this process (default 8).
    #[must_use]
    pub fn connections(mut self, connections: usize) -> Self {
        self.connections = connections.max(1);
        self
    }

    /// Sets the timeout of one statement of an external caller (default 15 s). The server cancels longer ones.
    #[must_use]
    pub fn statement_timeout(mut self, timeout: Duration) -> Self {
        self.statement_timeout = timeout.max(Duration::from_millis(1));
        self
    }

    /// Declares that `url` is a transaction pooler. Otherwise this is detected when connecting or, at the latest, by
    /// the first statement that it loses.
    #[must_use]
    pub fn pooled(mut self) -> Self {
        self.prepared = false;
        self
    }

    /// Disables LISTEN: work is then found by polling only.
    #[must_use]
    pub fn without_listen(mut self) -> Self {
        self.listen = false;
        self
    }
}

/// Never prints the address: it may contain a password.
impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings").field("connections", &self.connections).finish_non_exhaustive()
    }
}

fn parse(url: &str) -> Result<Config> {
    let mut config: Config = url.parse().map_err(|error: tokio_postgres::Error| Error::Settings {
        message: std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string),
    })?;
    if config.get_application_name().is_none() {
        config.application_name("windlass");
    }
    if config.get_connect_timeout().is_none() {
        config.connect_timeout(Duration::from_secs(5));
    }
    config.keepalives_idle(Duration::from_secs(15));
    config.tcp_user_timeout(Duration::from_secs(30));
    if config.get_hosts().len() > 1 {
        config.target_session_attrs(TargetSessionAttrs::ReadWrite);
    }
    Ok(config)
}

/// A pool of connections to one address.
#[derive(Clone)]
pub(crate) struct Database {
    pool: Pool,
    prepared: Arc<AtomicBool>,
    has_unusual_defaults: Arc<AtomicBool>,
    statement_timeout: Duration,
    /// The holders of connections, if no task may hold two.
    holders: Option<Holders>,
    /// The time that the server may work on one statement of the engine, if that limit is set per statement.
    limit: Option<Duration>,
    /// The same if the limit is set once per connection: it is set per statement behind a pooler, which would lose it.
    pooled_limit: Option<Duration>,
    is_plain: bool,
    pub(super) shares: Option<Shares>,
    /// The tenant whose share the statements below count for.
    pub(super) tenant: Option<Uuid>,
    pub(super) is_application: bool,
    pub(super) acts_as: ActsAs,
}

impl Database {
    pub(crate) fn new(config: &Config, connections: usize, prepared: bool) -> Result<Self> {
        let config = &if prepared { isolation::with_options(config) } else { config.clone() };
        let recycling = ManagerConfig { recycling_method: RecyclingMethod::Fast };
        let is_plain = is_plain(config);
        let manager = if is_plain {
            Manager::from_config(config.clone(), tokio_postgres::NoTls, recycling)
        } else {
            Manager::from_config(config.clone(), tls()?, recycling)
        };
        let has_unusual_defaults = Arc::new(AtomicBool::new(false));
        let pool = Pool::builder(manager)
            .post_create(isolation::look(has_unusual_defaults.clone()))
            .max_size(connections)
            .runtime(deadpool_postgres::Runtime::Tokio1)
            .wait_timeout(Some(Duration::from_secs(30)))
            .create_timeout(Some(Duration::from_secs(10)))
            .build()
            .map_err(|error| Error::Settings { message: error.to_string() })?;
        let prepared = Arc::new(AtomicBool::new(prepared));
        let statement_timeout = STATEMENT_TIMEOUT;
        Ok(Self {
            pool,
            prepared,
            has_unusual_defaults,
            statement_timeout,
            holders: None,
            limit: None,
            pooled_limit: None,
            is_plain,
            shares: None,
            tenant: None,
            is_application: false,
            acts_as: ActsAs::default(),
        })
    }

    /// For claims, heartbeats and settlements: the server cancels each of their statements after a time longer than the
    /// patience of the caller, which cancels it before that. The limit is an option of the connection and costs nothing
    /// per statement. A pooler does not keep such options, so behind one it is sent with each statement.
    pub(crate) fn for_engine(settings: &Settings, connections: usize, patience: Duration) -> Result<Self> {
        let limit = patience.saturating_mul(2).clamp(ENGINE_LIMITS.0, ENGINE_LIMITS.1);
        let mut config = settings.config.clone();
        if settings.prepared {
            let given = config.get_options().unwrap_or_default();
            config.options(format!("-c statement_timeout={} {given}", limit.as_millis()));
        }
        let mut database = Self::new(&config, connections, settings.prepared)?;
        database.pooled_limit = Some(limit);
        Ok(database)
    }

    /// For the statements of callers.
    pub(crate) fn with_statement_timeout(mut self, timeout: Duration) -> Self {
        self.statement_timeout = timeout;
        self
    }

    /// For requests: each may hold one connection at a time (debug builds panic at the second), and each tenant its
    /// share.
    pub(crate) fn for_requests(mut self) -> Self {
        self.holders = cfg!(debug_assertions).then(Holders::default);
        self.shared()
    }

    /// Each tenant may hold its share of the connections.
    pub(crate) fn shared(mut self) -> Self {
        self.shares = Some(Shares::of(self.pool.status().max_size));
        self
    }

    /// For the engine's own statements, which the server cancels after this time.
    pub(crate) fn limited_to(mut self, limit: Duration) -> Self {
        self.limit = Some(limit);
        self
    }

    pub(crate) fn statement_timeout(&self) -> Duration {
        self.statement_timeout
    }

    /// Closes the idle connections, for a caller whose last statement got no response: the next one on the same
    /// connection would wait behind it.
    pub(crate) fn forget_connections(&self) {
        self.pool.retain(|_, _| false);
    }

    pub(crate) async fn session(&self) -> Result<Session> {
        if let Some(holders) = &self.holders {
            holders.refuse_second();
        }
        let client = Some(self.pool.get().await?);
        Ok(Session {
            client,
            _held: self.holders.as_ref().and_then(Holders::hold),
            share: None,
            prepared: self.prepared.clone(),
            has_unusual_defaults: self.has_unusual_defaults.load(Ordering::Relaxed),
            is_open: false,
            patience: None,
            pooled_limit: self.pooled_limit,
            is_plain: self.is_plain,
            is_silent: AtomicBool::new(false),
            is_asking: AtomicBool::new(false),
            preparing: Mutex::default(),
        })
    }

    /// Runs one statement in its own transaction, on any connection.
    pub(crate) async fn query(
        &self,
        statement: &Statement,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>> {
        let mut session = self.session_of(self.tenant).await?;
        match self.limit {
            Some(limit) => session.query_within(limit, statement, params).await,
            None => session.query(statement, params).await,
        }
    }

    pub(crate) async fn query_one(
        &self,
        statement: &Statement,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<Row> {
        statement.row_of(self.query(statement, params).await?)
    }
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Database").field("status", &self.pool.status()).finish()
    }
}

/// How often a transaction is retried after a deadlock.
pub(crate) const CONFLICT_TRIES: u32 = 5;

/// Waits for a short random time, different for each of the transactions that conflicted.
pub(crate) async fn conflict_pause() {
    tokio::time::sleep(Duration::from_millis(20).mul_f64(rand::random())).await;
}

/// A connection from the pool. If it is dropped before a response was read, it returns to the pool when the statement has
/// ended, if that is soon (see `ending`). If it is dropped inside a transaction, a rollback is sent, which runs before the
/// statements of its next user.
pub(crate) struct Session {
    client: Option<Object>,
    _held: Option<HeldConnection>,
    pub(super) share: Option<Share>,
    prepared: Arc<AtomicBool>,
    has_unusual_defaults: bool,
    is_open: bool,
    /// How long to wait for the response to a statement, if not forever.
    patience: Option<Duration>,
    pooled_limit: Option<Duration>,
    is_plain: bool,
    is_silent: AtomicBool,
    /// A statement was sent and its response has not been read.
    is_asking: AtomicBool,
    /// The statement that is being prepared.
    preparing: Mutex<Option<(&'static str, &'static [Type])>>,
}

impl Session {
    /// Abandons a statement without a response within this time. It may have taken effect anyway.
    pub(crate) fn patient_for(mut self, patience: Duration) -> Self {
        self.patience = Some(patience);
        self
    }

    pub(crate) fn client(&self) -> &tokio_postgres::Client {
        self.object()
    }

    /// Whether the connection is not shared, as far as known: state that is left on it is there next time.
    pub(crate) fn is_direct(&self) -> bool {
        self.prepared.load(Ordering::Relaxed)
    }

    /// Starts a transaction with the given text, in one round trip.
    pub(crate) async fn begin_with(&mut self, text: &str) -> Result<()> {
        let text = &isolation::completed(text, self.has_unusual_defaults);
        self.is_open = true;
        self.is_asking.store(true, Ordering::Relaxed);
        let begun = self.client().batch_execute(text).await;
        self.is_asking.store(false, Ordering::Relaxed);
        Ok(begun?)
    }

    /// Starts a read-only transaction with one snapshot.
    pub(crate) async fn begin_reading(&mut self) -> Result<()> {
        self.begin_with("begin isolation level repeatable read, read only").await
    }

    /// Runs statements without a result inside the open transaction.
    pub(crate) async fn batch(&self, text: &str) -> Result<()> {
        self.is_asking.store(true, Ordering::Relaxed);
        let done = self.client().batch_execute(text).await;
        self.is_asking.store(false, Ordering::Relaxed);
        Ok(done?)
    }

    pub(crate) async fn commit(mut self) -> Result<()> {
        self.is_asking.store(true, Ordering::Relaxed);
        self.client().batch_execute("commit").await?;
        self.is_asking.store(false, Ordering::Relaxed);
        self.is_open = false;
        Ok(())
    }

    fn object(&self) -> &Object {
        self.client.as_ref().expect("the connection is taken out only on drop")
    }
}
