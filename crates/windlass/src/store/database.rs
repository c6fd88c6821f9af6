//! Connections: how many, where to, and with which habits.
//!
//! Two addresses: `url` may be a transaction pooler, `direct_url` must reach the server itself (LISTEN, migrations).
//! Nothing here leaves state in a session, so that any transaction may run on any server connection. Statements are
//! prepared by name only where we reach the server itself: behind a pooler they are sent unnamed, which costs a parse but
//! no plan, since everything heavy is a function whose plan the server keeps. Losing a name there would be the lesser evil:
//! names count up in every process alike, so that one process's may run another's statement.

mod asking;
mod transaction;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use deadpool_postgres::{Manager, ManagerConfig, Object, Pool, RecyclingMethod};
use futures_util::FutureExt;
use tokio_postgres::config::{SslMode, TargetSessionAttrs};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Config, Row};
use uuid::Uuid;

use super::act::ActsAs;
use super::connect::tls;
use super::holders::{HeldConnection, Holders};
use super::isolation;
use super::shares::{Share, Shares};
pub(crate) use super::statement::{Statement, query_unnamed};
use crate::error::{Error, Result};
pub(crate) use asking::Rows;

/// Where the database is, and how this process uses it.
///
/// ```
/// use windlass::Settings;
///
/// // A pooler in transaction mode for statements, the server itself for LISTEN and migrations.
/// let settings = Settings::new("postgresql://app@pooler:6432/app")?
///     .direct_url("postgresql://app@db:5432/app")?
///     .connections(20);
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

/// How long one statement of a caller may take, if nobody said.
const STATEMENT_TIMEOUT: Duration = Duration::from_secs(15);

/// The least and the most time for which the server works on one statement of a worker's own.
const ENGINE_LIMITS: (Duration, Duration) = (Duration::from_secs(60), Duration::from_secs(86_400));

impl Settings {
    /// A `postgresql://` URL or a key=value string; several hosts may be named, and the writable one is used.
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

    /// The address that reaches the server itself, when `url` is a pooler's.
    pub fn direct_url(mut self, url: &str) -> Result<Self> {
        self.direct = parse(url)?;
        Ok(self)
    }

    /// How many connections this process may hold for its own calls (default 8).
    #[must_use]
    pub fn connections(mut self, connections: usize) -> Self {
        self.connections = connections.max(1);
        self
    }

    /// How long one statement of a caller from outside may take (default 15 s). The server gives up longer ones.
    #[must_use]
    pub fn statement_timeout(mut self, timeout: Duration) -> Self {
        self.statement_timeout = timeout.max(Duration::from_millis(1));
        self
    }

    /// Says that `url` is a transaction pooler, which is otherwise found out when connecting or, at the latest, by the
    /// first statement it loses.
    #[must_use]
    pub fn pooled(mut self) -> Self {
        self.prepared = false;
        self
    }

    /// Works without LISTEN: work is then found by polling alone.
    #[must_use]
    pub fn without_listen(mut self) -> Self {
        self.listen = false;
        self
    }
}

/// Never prints the address: it may hold a password.
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
    /// Who holds a connection, where nobody may hold two.
    holders: Option<Holders>,
    /// How long the server works on one statement of the engine's own, if there is a limit that is set for each of them.
    limit: Option<Duration>,
    /// The same where a limit is set once for a connection: what to set for each statement behind a pooler, where that would be lost.
    pooled_limit: Option<Duration>,
    is_plain: bool,
    pub(super) shares: Option<Shares>,
    /// Whose share the statements below count for.
    pub(super) tenant: Option<Uuid>,
    pub(super) is_application: bool,
    pub(super) acts_as: ActsAs,
}

impl Database {
    pub(crate) fn new(config: &Config, connections: usize, prepared: bool) -> Result<Self> {
        let recycling = ManagerConfig { recycling_method: RecyclingMethod::Fast };
        let manager = match config.get_ssl_mode() {
            SslMode::Disable => Manager::from_config(config.clone(), tokio_postgres::NoTls, recycling),
            _ => Manager::from_config(config.clone(), tls()?, recycling),
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
        let is_plain = config.get_ssl_mode() == SslMode::Disable;
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

    /// For claims, heartbeats and endings: the server gives up each of their statements after a time that is longer than their sender's
    /// patience, which asks it to stop before that. The limit is an option of the connection and costs nothing per statement. A pooler does
    /// not keep those, so behind one it is sent along with each statement.
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

    /// For requests: each may hold one connection at a time (debug builds panic at the second), and each tenant's its share.
    pub(crate) fn for_requests(mut self) -> Self {
        self.holders = cfg!(debug_assertions).then(Holders::default);
        self.shared()
    }

    /// Each tenant may hold its share of the connections.
    pub(crate) fn shared(mut self) -> Self {
        self.shares = Some(Shares::of(self.pool.status().max_size));
        self
    }

    /// For the engine's own statements, each of which the server gives up after this time.
    pub(crate) fn limited_to(mut self, limit: Duration) -> Self {
        self.limit = Some(limit);
        self
    }

    pub(crate) fn statement_timeout(&self) -> Duration {
        self.statement_timeout
    }

    /// Gives up the connections that are not in use, for a caller whose last question was not answered: the next one on
    /// the same connection would wait behind it.
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
        })
    }

    /// One statement in a transaction of its own, on any connection.
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
        let mut rows = self.query(statement, params).await?;
        rows.pop()
            .ok_or_else(|| Error::UnexpectedResult { message: format!("no row from `{}`", statement.text) })
    }
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Database").field("status", &self.pool.status()).finish()
    }
}

/// How often what met another in a deadlock is tried again.
pub(crate) const CONFLICT_TRIES: u32 = 5;

/// A moment, different for each of those who met.
pub(crate) async fn conflict_pause() {
    tokio::time::sleep(Duration::from_millis(20).mul_f64(rand::random())).await;
}

/// A connection taken from the pool. One that is dropped while it owes an answer is closed and not given back; one that is
/// dropped inside a transaction is told to roll back, which comes before whatever its next user sends.
pub(crate) struct Session {
    client: Option<Object>,
    _held: Option<HeldConnection>,
    pub(super) share: Option<Share>,
    prepared: Arc<AtomicBool>,
    has_unusual_defaults: bool,
    is_open: bool,
    /// How long a statement may go unanswered, if not forever.
    patience: Option<Duration>,
    pooled_limit: Option<Duration>,
    is_plain: bool,
    is_silent: AtomicBool,
    /// A statement was sent and its answer has not been taken.
    is_asking: AtomicBool,
}

impl Session {
    /// Gives up on a statement that is not answered within this time. It may have taken effect all the same.
    pub(crate) fn patient_for(mut self, patience: Duration) -> Self {
        self.patience = Some(patience);
        self
    }

    pub(crate) fn client(&self) -> &tokio_postgres::Client {
        self.object()
    }

    /// Whether the connection is ours alone, as far as we know: what is left on it will be there next time.
    pub(crate) fn is_direct(&self) -> bool {
        self.prepared.load(Ordering::Relaxed)
    }

    /// Begins a transaction and makes it what the text says, in one round trip.
    pub(crate) async fn begin_with(&mut self, text: &str) -> Result<()> {
        let text = &isolation::completed(text, self.has_unusual_defaults);
        self.is_open = true;
        self.is_asking.store(true, Ordering::Relaxed);
        let begun = self.client().batch_execute(text).await;
        self.is_asking.store(false, Ordering::Relaxed);
        Ok(begun?)
    }

    /// A transaction that only reads, and sees one snapshot throughout.
    pub(crate) async fn begin_reading(&mut self) -> Result<()> {
        self.begin_with("begin isolation level repeatable read, read only").await
    }

    /// Statements without an answer, inside the open transaction.
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

impl Drop for Session {
    fn drop(&mut self) {
        let owes = self.is_silent.load(Ordering::Relaxed) || self.is_asking.load(Ordering::Relaxed);
        if owes && let Some(client) = self.client.take() {
            drop(Object::take(client));
        } else if self.is_open {
            // Sent with the first poll and not waited for: the server answers in order.
            let _ = self.client().batch_execute("rollback").now_or_never();
        }
    }
}
