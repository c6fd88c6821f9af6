//! API tokens as the database knows them: everything but the secret. How a secret is made and compared is its holder's
//! affair (`windlass-server`); here only its hash passes.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// A token to be made.
#[derive(Debug, Clone, Serialize)]
pub struct NewToken {
    pub id: String,
    /// `api`, `worker` or `admin`.
    pub kind: String,
    pub name: String,
    pub role: String,
    /// What it may do of what its role may; everything, if not given.
    pub scopes: Option<Vec<String>>,
    pub created_by: String,
    pub expires_at: Option<Timestamp>,
}

/// A token as people may see it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Token {
    pub tenant_id: Uuid,
    pub id: String,
    pub kind: String,
    pub name: String,
    pub role: String,
    pub scopes: Option<Vec<String>>,
    pub created_by: String,
    pub created_at: Timestamp,
    pub expires_at: Option<Timestamp>,
    pub revoked_at: Option<Timestamp>,
    pub last_used_at: Option<Timestamp>,
    pub replaced_by: Option<String>,
}

/// What authentication needs to know of a token.
#[derive(Debug, Clone, Deserialize)]
pub struct KnownToken {
    /// Nil for the installation's own.
    pub tenant_id: Uuid,
    pub id: String,
    pub kind: String,
    pub name: String,
    pub role: String,
    pub scopes: Option<Vec<String>>,
    /// SHA-256 of the secret, in hex.
    pub secret_hash: String,
    pub is_valid: bool,
    pub requests_per_minute: Option<u32>,
    pub expires_at: Option<Timestamp>,
    /// Until it expires, by the database's clock.
    pub expires_in_ms: Option<i64>,
}
