//! Translates refusals of the database into the cases of [`Error`]. The database uses SQLSTATEs of our own class `WL`;
//! this is the only place that translates them.

use std::sync::Arc;

use super::access;
use crate::error::Error;

impl From<tokio_postgres::Error> for Error {
    fn from(error: tokio_postgres::Error) -> Self {
        let Some(db) = error.as_db_error() else {
            return if is_password_missing(&error) {
                Error::LoginRejected { message: "it requires a password, and none is given".to_owned() }
            } else if error.is_closed() {
                Error::Unreachable(Arc::new(error))
            } else {
                Error::Database(Arc::new(error))
            };
        };
        let refusal = Refusal {
            code: db.code().code(),
            message: db.message(),
            detail: db.detail(),
            column: db.column(),
            constraint: db.constraint(),
        };
        refusal.meaning().unwrap_or_else(|| Error::Database(Arc::new(error)))
    }
}

/// The driver reports it as an invalid configuration, and only in words.
fn is_password_missing(error: &tokio_postgres::Error) -> bool {
    std::error::Error::source(error).is_some_and(|cause| cause.to_string() == "password missing")
}

/// A refusal by the database, from any driver.
pub(crate) struct Refusal<'a> {
    pub(crate) code: &'a str,
    pub(crate) message: &'a str,
    pub(crate) detail: Option<&'a str>,
    pub(crate) column: Option<&'a str>,
    pub(crate) constraint: Option<&'a str>,
}

impl Refusal<'_> {
    /// Returns the corresponding error, if it is one of ours.
    pub(crate) fn meaning(&self) -> Option<Error> {
        let detail = || self.detail.unwrap_or_default().to_owned();
        let message = || self.message.to_owned();
        Some(match self.code {
            "WL001" => Error::UnknownDefinition { key: detail() },
            "WL002" => Error::InactiveDefinition { key: detail() },
            "WL003" => Error::TenantRefused { tenant: detail(), message: message() },
            "WL005" | "WL007" | "WL008" => Error::refused(self.column.unwrap_or("options"), message()),
            "WL020" => Error::Held { what: detail() },
            "WL006" => Error::IdempotencyConflict { existing: detail() },
            "WL009" => Error::RequestKeyTaken { key: detail() },
            "WL010" => Error::QuotaReached { most: detail() },
            "WL014" => {
                Error::TooManyLanes { field: self.column.unwrap_or("queue").to_owned(), message: message() }
            }
            "WL015" => Error::TooManyTriggers { most: detail() },
            "WL011" => {
                Error::Changed { what: if self.detail == Some("token") { "token" } else { "definition" } }
            }
            "WL017" => Error::Taken { what: "the job id" },
            "WL016" => Error::Locked { what: detail() },
            "WL021" => Error::Isolation { message: message() },
            "42501" => self.missing_role()?,
            "3D000" => Error::UnknownDatabase { message: message() },
            "28P01" | "28000" => Error::LoginRejected { message: message() },
            "23505" | "WL018" => Error::Taken { what: taken(self.constraint?)? },
            "23514" => Error::refused(self.constraint.unwrap_or("value"), "is out of range"),
            "40P01" => Error::Contended { code: "40P01" },
            "40001" => Error::Contended { code: "40001" },
            "55P03" => Error::Contended { code: "55P03" },
            _ => return None,
        })
    }

    /// A function that this login may not call, if the server reports it in English.
    fn missing_role(&self) -> Option<Error> {
        let function = self.message.strip_prefix("permission denied for function ")?;
        let roles = access::roles_for(function).join(" or ");
        (!roles.is_empty()).then(|| Error::MissingRole { denied: self.message.to_owned(), roles })
    }
}

impl From<deadpool_postgres::PoolError> for Error {
    fn from(error: deadpool_postgres::PoolError) -> Self {
        match error {
            deadpool_postgres::PoolError::Backend(error) => Self::from(error),
            other => Error::Unreachable(Arc::new(other)),
        }
    }
}

/// Returns the object that must be unique, by the name of its constraint.
fn taken(constraint: &str) -> Option<&'static str> {
    match constraint {
        "tenants_slug_unique" => Some("the slug"),
        "users_email_unique" => Some("the email address"),
        "job_definitions_key_unique" => Some("the definition's key"),
        "api_tokens_by_id" => Some("the token's id"),
        "job_workers_worker_id_unique" => Some("the worker's name"),
        "sessions_pkey" => Some("the session's secret"),
        // The fast paths insert without a check: the key of a partition of the jobs.
        job if job.starts_with("job_") && job.ends_with("_pkey") => Some("the job id"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::Refusal;
    use crate::error::Error;

    #[test]
    fn a_wrong_password_is_a_rejected_login() {
        for code in ["28P01", "28000"] {
            let message = "password authentication failed for user \"app\"";
            let refusal = Refusal { code, message, detail: None, column: None, constraint: None };
            let error = refusal.meaning().unwrap();
            assert!(matches!(&error, Error::LoginRejected { .. }), "{error:?}");
            assert!(error.to_string().contains(message) && !error.is_transient(), "{error}");
        }
    }
}
