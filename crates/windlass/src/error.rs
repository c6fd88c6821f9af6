//! What can go wrong, as far as a caller may act on it. Expected answers (a duplicate, a lost lease, a snooze) are values
//! and not here. What the database says is translated into these cases in `store/refusal.rs`.

use std::sync::Arc;

use tokio_postgres::error::SqlState;
use uuid::Uuid;

pub type Result<T, E = Error> = std::result::Result<T, E>;

#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    #[error("there is no definition with key {key:?}; register its handler or create it first")]
    UnknownDefinition { key: String },
    #[error("the definition {key:?} is not active")]
    InactiveDefinition { key: String },
    #[error("the tenant {tenant} cannot be used: {message}")]
    TenantRefused { tenant: String, message: String },
    #[error("{field}{}: {message}", pointer.as_deref().unwrap_or_default())]
    Refused { field: String, pointer: Option<String>, message: String },
    #[error("the idempotency key was used for another job, {existing}")]
    IdempotencyConflict { existing: String },
    #[error("the idempotency key {key:?} was used for another request")]
    RequestKeyTaken { key: String },
    #[error("{what} is taken")]
    Taken { what: &'static str },
    #[error("the tenant may have {most} jobs that have not ended, and has them")]
    QuotaReached { most: String },
    /// The tenant chose more queues and priorities than it may; `field` is the one that was chosen.
    #[error("{field}: {message}")]
    TooManyLanes { field: String, message: String },
    #[error("the tenant may have {most} triggers (max_triggers), and has them")]
    TooManyTriggers { most: String },
    #[error("the tenant has as many requests under way as it may have; send fewer at once")]
    Busy,
    #[error("there is no such {what}")]
    Unknown { what: &'static str },
    #[error("the {what} was changed by someone else since it was read")]
    Changed { what: &'static str },
    #[error("job {job} cannot be retried: job {holder} holds its dedupe key")]
    DedupeSlotTaken { job: Uuid, holder: Uuid },
    #[error("there is no job {job}")]
    UnknownJob { job: Uuid },
    #[error("job {job} has not ended, so there is nothing to retry")]
    NotFinished { job: Uuid },
    #[error("{what} is under legal hold")]
    Held { what: String },
    /// A transaction of a caller that recorded no action. Nothing of it was committed.
    #[error("the transaction recorded no action, so it was rolled back")]
    Unrecorded,
    #[error("a worker needs at least one handler")]
    NoHandlers,
    #[error("{file}:{line}: {key}{}{message}", if key.is_empty() { "" } else { ": " })]
    Configuration { file: String, line: usize, key: String, message: String },
    #[error(
        "this program runs commands and must call windlass::worker::run_shim_if_asked() first thing in main"
    )]
    NoShim,
    #[error("two handlers are registered for {key:?}")]
    HandlerTwice { key: String },
    #[error("the connection settings are not usable: {message}")]
    Settings { message: String },
    #[error(
        "the database's schema is at version {found}, this release works with {oldest} to {newest}; {advice}"
    )]
    SchemaVersion { found: i32, oldest: i32, newest: i32, advice: &'static str },
    #[error(
        "migration {version} was applied with other contents than this release's: an unreleased version made this database, and it must be made anew"
    )]
    MigrationChanged { version: i32 },
    #[error(
        "the migration lock was not free within {seconds} s; another process is migrating, or died while connected through a pooler"
    )]
    MigrationLock { seconds: u64 },
    #[error(
        "the migration could not lock a table, because it is in use by {by}; nothing was changed by this step: end that transaction and migrate again"
    )]
    MigrationBlocked { by: String },
    /// The database login may not do this; `roles` are those that it needs.
    #[error("{denied}: grant the role {roles} to this login (the guide on security has a table of logins)")]
    MissingRole { denied: String, roles: String },
    #[error("the database cannot be reached: {0}")]
    Unreachable(Arc<dyn std::error::Error + Send + Sync>),
    #[error("the database refused: {}", describe(.0))]
    Database(Arc<tokio_postgres::Error>),
    /// The same from the driver of the caller's own transaction; `code` is the SQLSTATE, if the database gave one.
    #[error("the database refused: {error}")]
    OtherDriver { code: Option<String>, error: Arc<dyn std::error::Error + Send + Sync> },
}

impl Error {
    pub(crate) fn refused(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self::Refused { field: field.into(), pointer: None, message: message.into() }
    }

    /// The same, or which roles to grant, where the database denied something.
    pub(crate) fn needing(self, roles: &str) -> Self {
        let denied = match self {
            Self::Database(ref error) if error.code() == Some(&SqlState::INSUFFICIENT_PRIVILEGE) => {
                describe(error)
            }
            Self::MissingRole { denied, .. } => denied,
            other => return other,
        };
        Self::MissingRole { denied, roles: roles.to_owned() }
    }

    /// A statement that was sent and not answered in time.
    pub(crate) fn unanswered() -> Self {
        Self::Unreachable(Arc::new(std::io::Error::from(std::io::ErrorKind::TimedOut)))
    }

    /// Whether the same call may succeed later, on this or another connection: a lost connection, a failover, a deadlock.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Unreachable(_) | Self::Busy => true,
            Self::Database(error) => error.code().is_none_or(|state| is_transient_state(state.code())),
            Self::OtherDriver { code, .. } => code.as_deref().is_none_or(is_transient_state),
            _ => false,
        }
    }

    /// Whether the server gave a statement up because it took too long.
    #[must_use]
    pub fn is_timeout(&self) -> bool {
        matches!(self, Self::Database(error) if error.code() == Some(&SqlState::QUERY_CANCELED))
    }

    /// Whether it gave up waiting for a row that another transaction holds, and was undone whole.
    pub(crate) fn is_lock_timeout(&self) -> bool {
        matches!(self, Self::Database(error) if error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE))
    }

    /// Whether it met another transaction in a deadlock or the like and was undone whole.
    pub(crate) fn is_conflict(&self) -> bool {
        matches!(self, Self::Database(error) if matches!(
            error.code(),
            Some(&(SqlState::T_R_DEADLOCK_DETECTED | SqlState::T_R_SERIALIZATION_FAILURE))))
    }

    /// Whether a transaction pooler lost our prepared statements: they must not be used on it.
    pub(crate) fn is_lost_statement(&self) -> bool {
        let Self::Database(error) = self else { return false };
        match error.as_db_error() {
            // The name led to another process's statement, which takes other parameters.
            Some(db) if *db.code() == SqlState::PROTOCOL_VIOLATION => {
                db.message().contains("prepared statement")
            }
            Some(db) => {
                matches!(*db.code(), SqlState::INVALID_SQL_STATEMENT_NAME | SqlState::DUPLICATE_PSTATEMENT)
            }
            None => false,
        }
    }
}

/// Classes of conditions that pass, and a write on a server that has just become a standby.
fn is_transient_state(code: &str) -> bool {
    let class = code.get(..2).unwrap_or_default();
    matches!(class, "08" | "40" | "53" | "55" | "57" | "58")
        || code == SqlState::READ_ONLY_SQL_TRANSACTION.code()
}

/// tokio-postgres prints only "db error"; people need the server's own words.
fn describe(error: &tokio_postgres::Error) -> String {
    match error.as_db_error() {
        Some(db) => format!("{} ({})", db.message(), db.code().code()),
        None => std::error::Error::source(error)
            .map_or_else(|| error.to_string(), |cause| format!("{error}: {cause}")),
    }
}
