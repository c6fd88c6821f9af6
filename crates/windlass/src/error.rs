//! The errors that a caller can act on. Expected results (a duplicate, a lost lease, a snooze) are values and not
//! errors. Database errors are translated into these cases in `store/refusal.rs`.

mod kinds;
mod words;

use std::sync::Arc;

use tokio_postgres::error::SqlState;
use uuid::Uuid;

use words::{contention_words, describe, payload_words, schema_words};

/// A result whose error is [`Error`].
///
/// ```
/// fn image_id(name: &str) -> windlass::Result<u64, std::num::ParseIntError> {
///     name.trim_start_matches("image-").parse()
/// }
/// assert_eq!(image_id("image-7"), Ok(7));
/// ```
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The errors, as cases that a caller can match.
///
/// Expected results, such as a duplicate or a lost lease, are values and not errors.
///
/// ```
/// use windlass::Error;
///
/// fn should_try_again(error: &Error) -> bool {
///     match error {
///         Error::QuotaReached { .. } | Error::Busy { .. } => true,
///         other => other.is_transient(),
///     }
/// }
/// assert!(should_try_again(&Error::Busy { reason: "a tenant can have one dry run at a time" }));
/// ```
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No definition has this key.
    #[error("definition {key:?} not found; register its handler or create the definition first")]
    UnknownDefinition {
        /// The key.
        key: String,
    },
    /// The definition accepts no jobs.
    #[error("the definition {key:?} is not active")]
    InactiveDefinition {
        /// Its key.
        key: String,
    },
    /// The tenant does not exist, is suspended, or is not the current tenant.
    #[error("{message}")]
    TenantRefused {
        /// The tenant.
        tenant: String,
        /// Why it cannot be used.
        message: String,
    },
    /// A value is invalid.
    #[error("{field}{}: {message}", pointer.as_deref().unwrap_or_default())]
    Refused {
        /// The name of the field.
        field: String,
        /// Where in the field, as a JSON pointer.
        pointer: Option<String>,
        /// What is wrong.
        message: String,
    },
    /// The payload does not match the schema of its definition.
    #[error("{}", payload_words(faults))]
    PayloadRefused {
        /// Where in the payload, as JSON pointers, and what is wrong there; at least one, and not more than 20.
        faults: Vec<(String, String)>,
    },
    /// The idempotency key belongs to a job with other content.
    #[error("the idempotency key was already used for job {existing}")]
    IdempotencyConflict {
        /// The id of that job.
        existing: String,
    },
    /// The idempotency key belongs to another request.
    #[error("the idempotency key {key:?} was already used for a different request")]
    RequestKeyTaken {
        /// The key.
        key: String,
    },
    /// Something that must be unique is in use.
    #[error("{what} is already in use")]
    Taken {
        /// What is in use.
        what: &'static str,
    },
    /// The tenant has reached its limit of jobs that have not ended.
    #[error("the tenant has reached its job quota of {most} unfinished jobs")]
    QuotaReached {
        /// The limit.
        most: String,
    },
    /// The tenant chose more queues and priorities than its limits allow; `field` is the one that it chose.
    #[error("{field}: {message}")]
    TooManyLanes {
        /// `queue` or `priority`.
        field: String,
        /// Which limit was reached.
        message: String,
    },
    /// The tenant has reached its limit of triggers.
    #[error("the tenant has reached its limit of {most} triggers (max_triggers)")]
    TooManyTriggers {
        /// The limit.
        most: String,
    },
    /// The tenant has reached a limit on what it can do at the same time.
    #[error("{reason}")]
    Busy {
        /// Which limit, and what to do.
        reason: &'static str,
    },
    /// A transaction of many statements took longer than one statement may take. It was rolled back.
    #[error("the transaction took longer than {seconds} s and was rolled back; do less in one call")]
    TransactionTimeout {
        /// The limit.
        seconds: u64,
    },
    /// The object does not exist, or belongs to another tenant.
    #[error("{what} not found")]
    Unknown {
        /// The kind of object.
        what: &'static str,
    },
    /// The object has changed since it was read.
    #[error("the {what} has changed since it was read")]
    Changed {
        /// The kind of object.
        what: &'static str,
    },
    /// The job cannot be retried while another job holds its dedupe key.
    #[error("job {job} cannot be retried: job {holder} holds its dedupe key")]
    DedupeSlotTaken {
        /// The job.
        job: Uuid,
        /// The job that holds the key.
        holder: Uuid,
    },
    /// The job does not exist.
    #[error("job {job} not found")]
    UnknownJob {
        /// Its id.
        job: Uuid,
    },
    /// The job has not ended, so it cannot be retried.
    #[error("job {job} has not ended and cannot be retried")]
    NotFinished {
        /// Its id.
        job: Uuid,
    },
    /// The job cannot be retried: it would end without a run.
    #[error("job {job} cannot be retried: its deadline has passed; enqueue a new job")]
    DeadlinePassed {
        /// Its id.
        job: Uuid,
    },
    /// A legal hold prevents the deletion.
    #[error("{what} is under legal hold")]
    Held {
        /// What is held.
        what: String,
    },
    /// An open transaction holds what was to be changed. Nothing was changed.
    #[error(
        "{what} is locked by an open transaction, and nothing was changed; try again when that transaction has ended (`windlass doctor` names old ones)"
    )]
    Locked {
        /// What is locked.
        what: String,
    },
    /// Transactions that ran at the same time conflicted, and the database rolled this one back. The whole transaction can
    /// be repeated.
    #[error("{}, so this one was rolled back and nothing was changed; try again", contention_words(code))]
    Contended {
        /// The SQLSTATE: `40P01` (deadlock), `40001` (serialization failure) or `55P03` (lock timeout).
        code: &'static str,
    },
    /// A transaction of a caller that recorded no action. It was rolled back.
    #[error("the transaction recorded no action, so it was rolled back")]
    Unrecorded,
    /// The worker has no handler.
    #[error("a worker needs at least one handler")]
    NoHandlers,
    /// A configuration file is invalid.
    #[error("{file}:{line}: {key}{}{message}", if key.is_empty() { "" } else { ": " })]
    Configuration {
        /// The path of the file.
        file: String,
        /// The line.
        line: usize,
        /// The setting, if it is one.
        key: String,
        /// What is wrong.
        message: String,
    },
    /// The program runs commands but does not call the required function.
    #[error(
        "this program runs commands and must call windlass::worker::run_shim_if_requested() at the start of main"
    )]
    NoShim,
    /// A worker has two handlers for one definition.
    #[error("two handlers are registered for {key:?}")]
    DuplicateHandler {
        /// The key of the definition.
        key: String,
    },
    /// The connection settings are invalid.
    #[error("invalid connection settings: {message}")]
    Settings {
        /// What is wrong.
        message: String,
    },
    /// The schema is older or newer than this release supports.
    #[error("{}; {advice}", schema_words(*found, *oldest, *newest))]
    SchemaVersion {
        /// Its version.
        found: i32,
        /// The oldest supported version.
        oldest: i32,
        /// The newest supported version.
        newest: i32,
        /// What to do.
        advice: &'static str,
    },
    /// The server is older than this release supports.
    #[error("Postgres {found} is too old: windlass needs Postgres {oldest} or newer")]
    ServerVersion {
        /// Its version, such as `14.9`.
        found: String,
        /// The oldest supported major version.
        oldest: i32,
    },
    /// The transaction uses one snapshot throughout, so it cannot see changes committed before it acquired a lock.
    #[error("{message}")]
    Isolation {
        /// What was rejected.
        message: String,
    },
    /// The database returned something that this release cannot read.
    #[error("the database returned a value that this release cannot read: {message}")]
    UnexpectedResult {
        /// What was returned, and for what.
        message: String,
    },
    /// The operating system could not create a thread, or its runtime failed.
    #[error("cannot start a thread: {0}")]
    Thread(Arc<std::io::Error>),
    /// A migration was applied with different contents.
    #[error(
        "migration {version} was applied with different contents: an unreleased version created this database; it must be created again"
    )]
    MigrationChanged {
        /// Its number.
        version: i32,
    },
    /// Another role created the schema before the first migration.
    #[error(
        "the schema windlass already exists and belongs to the role {owner}: if {owner} restored it from a backup, migrate as {owner}; otherwise rename it (`alter schema windlass rename to …`) or drop it, and migrate again"
    )]
    SchemaTaken {
        /// Who owns it.
        owner: String,
    },
    /// The schema contains objects that windlass did not create and would run with its own privileges.
    #[error(
        "the schema windlass contains objects that windlass did not create, and would run them with its own privileges: find out who created them, remove them as a superuser, and migrate again: {objects}"
    )]
    ForeignObjects {
        /// The statements that drop them.
        objects: String,
    },
    /// Another process is migrating.
    #[error(
        "could not acquire the migration lock within {seconds} s; another process is migrating, or crashed while connected through a pooler"
    )]
    MigrationLock {
        /// How long was waited.
        seconds: u64,
    },
    /// Another transaction uses a table that the migration has to change.
    #[error(
        "the migration could not lock a table that is in use by {by}; this step changed nothing: end that transaction and migrate again"
    )]
    MigrationBlocked {
        /// The session that uses it.
        by: String,
    },
    /// Objects outside of the schema depend on what the migration has to change or drop.
    #[error(
        "the migration was stopped by objects that depend on ours ({reason}); this step changed nothing: drop them, as their owner or as a superuser, and migrate again: {statements}"
    )]
    MigrationDependents {
        /// What the server reported.
        reason: String,
        /// The statements that drop columns with the types of our tables.
        statements: String,
    },
    /// The login may not do what the migration needs, and these statements allow it.
    #[error("the login {login} cannot migrate: {missing}. As {by}, run:\n{statements}")]
    MigrationDenied {
        /// The login.
        login: String,
        /// What it lacks.
        missing: String,
        /// Who may run the statements.
        by: String,
        /// The statements.
        statements: String,
    },
    /// Parts of the schema are missing that are not only functions, policies and privileges.
    #[error("the migration could not repair the schema: {objects}; restore them from a backup")]
    NotRepaired {
        /// What is missing or differs.
        objects: String,
    },
    /// The database login lacks permission; `roles` are those that it needs.
    #[error("{denied}: grant the role {roles} to this login (the guide on security has a table of logins)")]
    MissingRole {
        /// What was denied.
        denied: String,
        /// The roles to grant.
        roles: String,
    },
    /// The server has no database of this name.
    #[error("{message}: check the name of the database in its URL, or create the database")]
    UnknownDatabase {
        /// What the server reported.
        message: String,
    },
    /// The server rejected the login: an unknown role, a wrong or missing password, or a client that it does not admit.
    #[error("the database rejected the login: {message}")]
    LoginRejected {
        /// What the server reported.
        message: String,
    },
    /// The database cannot be reached.
    #[error("the database cannot be reached: {0}")]
    Unreachable(Arc<dyn std::error::Error + Send + Sync>),
    /// The database rejected a statement.
    #[error("database error: {}", describe(.0))]
    Database(Arc<tokio_postgres::Error>),
    /// The same from the driver of the caller's own transaction; `code` is the SQLSTATE, if the database returned one.
    #[error("database error: {error}")]
    OtherDriver {
        /// The SQLSTATE.
        code: Option<String>,
        /// The error of the driver.
        error: Arc<dyn std::error::Error + Send + Sync>,
    },
}

impl Error {
    pub(crate) fn refused(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self::Refused { field: field.into(), pointer: None, message: message.into() }
    }

    /// The same error, or one with the roles to grant if the database denied something.
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

    /// A statement that was sent and got no response in time.
    pub(crate) fn unanswered() -> Self {
        Self::Unreachable(Arc::new(std::io::Error::from(std::io::ErrorKind::TimedOut)))
    }
}
