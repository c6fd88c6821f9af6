//! What a caller can do about an error: repeat the call, or not.

use tokio_postgres::error::SqlState;

use super::Error;

impl Error {
    /// Whether the same call may succeed later, on this or another connection: a lost connection, a failover, a deadlock.
    ///
    /// ```
    /// use windlass::Error;
    ///
    /// assert!(!Error::NoHandlers.is_transient());
    /// ```
    #[must_use]
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Unreachable(_) | Self::Busy { .. } | Self::Locked { .. } | Self::Contended { .. } => true,
            Self::Database(error) => error.code().is_none_or(|state| is_transient_state(state.code())),
            Self::OtherDriver { code, .. } => code.as_deref().is_none_or(is_transient_state),
            _ => false,
        }
    }

    /// Whether the server canceled a statement because it took too long, or a transaction was rolled back for that reason.
    ///
    /// ```
    /// use windlass::Error;
    ///
    /// assert!(Error::TransactionTimeout { seconds: 60 }.is_timeout());
    /// assert!(!Error::NoHandlers.is_timeout());
    /// ```
    #[must_use]
    pub fn is_timeout(&self) -> bool {
        match self {
            Self::Database(error) => error.code() == Some(&SqlState::QUERY_CANCELED),
            Self::TransactionTimeout { .. } => true,
            _ => false,
        }
    }

    /// Whether a lock timeout occurred while waiting for a row that another transaction holds. The transaction was
    /// rolled back.
    pub(crate) fn is_lock_timeout(&self) -> bool {
        matches!(self, Self::Contended { code: "55P03" })
    }

    /// Whether a deadlock or a serialization failure occurred. The transaction was rolled back.
    pub(crate) fn is_conflict(&self) -> bool {
        matches!(self, Self::Contended { code: "40P01" | "40001" })
    }

    /// Whether a transaction pooler lost our prepared statements: they must not be used with it.
    pub(crate) fn is_lost_statement(&self) -> bool {
        let Self::Database(error) = self else { return false };
        match error.as_db_error() {
            // The name belongs to a statement of another process, which has other parameters.
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

/// Classes of transient conditions, and a write on a server that has just become a standby.
fn is_transient_state(code: &str) -> bool {
    let class = code.get(..2).unwrap_or_default();
    matches!(class, "08" | "40" | "53" | "55" | "57" | "58")
        || code == SqlState::READ_ONLY_SQL_TRANSACTION.code()
}
