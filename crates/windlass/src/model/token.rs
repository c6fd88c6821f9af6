//! API tokens as they are stored: without the secret. Secrets are created and compared in `windlass-server`; this crate
//! handles only their hash.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// A new token.
#[derive(Debug, Clone, Serialize)]
pub struct NewToken {
    /// The public part of the token.
    pub id: String,
    /// `api`, `worker` or `admin`.
    pub kind: String,
    /// The name shown to people.
    pub name: String,
    /// The name of the role.
    pub role: String,
    /// Restricts the permissions of the role; none for no restriction.
    pub scopes: Option<Vec<String>>,
    /// Who created it.
    pub created_by: String,
    /// When it expires.
    pub expires_at: Option<Timestamp>,
}

/// A token as it is shown.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Token {
    /// The tenant of the token.
    pub tenant_id: Uuid,
    /// The public part of the token.
    pub id: String,
    /// The kind of token.
    pub kind: String,
    /// The name shown to people.
    pub name: String,
    /// The name of the role.
    pub role: String,
    /// The permissions that it is restricted to.
    pub scopes: Option<Vec<String>>,
    /// Who created it.
    pub created_by: String,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it expires.
    pub expires_at: Option<Timestamp>,
    /// When it was revoked.
    pub revoked_at: Option<Timestamp>,
    /// When it was last used, to the minute.
    pub last_used_at: Option<Timestamp>,
    /// The token that replaces it.
    pub replaced_by: Option<String>,
}

/// A token, for authentication.
#[derive(Debug, Clone, Deserialize)]
pub struct KnownToken {
    /// Nil for a token of the installation.
    pub tenant_id: Uuid,
    /// The public part of the token.
    pub id: String,
    /// The kind of token.
    pub kind: String,
    /// The name shown to people.
    pub name: String,
    /// The name of the role.
    pub role: String,
    /// The permissions that it is restricted to.
    pub scopes: Option<Vec<String>>,
    /// SHA-256 of the secret, in hex.
    pub secret_hash: String,
    /// Whether it is neither expired nor revoked.
    pub is_valid: bool,
    /// The tenant's limit of requests per minute.
    pub requests_per_minute: Option<u32>,
    /// When it expires.
    pub expires_at: Option<Timestamp>,
    /// The time until it expires, by the clock of the database.
    pub expires_in_ms: Option<i64>,
}
