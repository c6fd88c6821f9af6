//! API tokens as the database knows them: everything but the secret. How a secret is made and compared is its holder's
//! affair (`windlass-server`); here only its hash passes.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::act::{Acting, Looking};
use crate::error::{Error, Result};
use crate::queue::Queue;
use crate::store;

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

impl Queue {
    /// A token by the id it carries, whoever's it is. `shown` is the hash of the secret that came with the id: only its own notes
    /// that the token was used. None: a session that was begun with it.
    pub async fn find_token(&self, id: &str, shown: Option<&[u8]>) -> Result<Option<KnownToken>> {
        store::token::find(self.database(), id, shown).await
    }
}

impl Acting {
    /// Makes a token for a tenant, or for the installation ([`crate::INSTALLATION`]).
    pub async fn create_token(&self, tenant: Uuid, token: &NewToken, hash: &[u8]) -> Result<Token> {
        store::token::create(&self.session, tenant, token, hash).await
    }

    pub async fn revoke_token(&self, tenant: Uuid, id: &str) -> Result<Token> {
        let revoked = store::token::revoke(&self.session, tenant, id).await?;
        revoked.ok_or(Error::Unknown { what: "token" })
    }

    /// Makes the successor of a token, which goes on for the overlap and then ends. Answers the new one.
    pub async fn rotate_token(
        &self,
        old: &Token,
        overlap_seconds: u32,
        new: &NewToken,
        hash: &[u8],
    ) -> Result<Token> {
        let made = store::token::create(&self.session, old.tenant_id, new, hash).await?;
        let overlap = i32::try_from(overlap_seconds).unwrap_or(i32::MAX);
        store::token::retire(&self.session, old.tenant_id, &old.id, &made.id, overlap)
            .await?
            .ok_or(Error::Changed { what: "token" })?;
        Ok(made)
    }

    /// A token that this transaction may see.
    pub async fn token(&self, id: &str) -> Result<Token> {
        let found = store::token::list(&self.session, None, Some(id)).await?.pop();
        found.ok_or(Error::Unknown { what: "token" })
    }
}

impl Looking {
    /// The tokens of a tenant, or everyone's for a view that sees everything.
    pub async fn tokens(&self, tenant: Option<Uuid>) -> Result<Vec<Token>> {
        store::token::list(&self.session, tenant, None).await
    }
}
