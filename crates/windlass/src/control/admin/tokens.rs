//! API tokens: creating, revoking, rotating and finding them.

use uuid::Uuid;

use crate::control::transaction::{Acting, Reading};
use crate::error::{Error, Result};
use crate::model::token::{KnownToken, NewToken, Token};
use crate::queue::Queue;
use crate::store;

#[doc(hidden)]
impl Queue {
    /// Finds a token of any tenant by its id. `shown` is the hash of the presented secret; the use of the token is
    /// recorded only if the hash matches. It is none for a session that was started with the token.
    pub async fn find_token(&self, id: &str, shown: Option<&[u8]>) -> Result<Option<KnownToken>> {
        store::token::find(self.database(), id, shown).await
    }
}

#[doc(hidden)]
impl Acting {
    /// Creates a token for a tenant, or for the installation ([`INSTALLATION`](crate::admin::INSTALLATION)).
    pub async fn create_token(&self, tenant: Uuid, token: &NewToken, hash: &[u8]) -> Result<Token> {
        let made = store::token::create(&self.session, tenant, token, hash).await?;
        self.was_recorded();
        Ok(made)
    }

    /// Revokes a token.
    pub async fn revoke_token(&self, tenant: Uuid, id: &str) -> Result<Token> {
        let revoked = store::token::revoke(&self.session, tenant, id).await?;
        let revoked = revoked.ok_or(Error::Unknown { what: "token" })?;
        self.was_recorded();
        Ok(revoked)
    }

    /// Creates the successor of a token; the old one stays valid for the overlap. Returns the new one.
    pub async fn rotate_token(
        &self,
        old: &Token,
        overlap_seconds: u32,
        new: &NewToken,
        hash: &[u8],
    ) -> Result<Token> {
        let overlap = i32::try_from(overlap_seconds).unwrap_or(i32::MAX);
        let made = store::token::rotate(&self.session, old, overlap, new, hash).await?;
        self.was_recorded();
        Ok(made)
    }

    /// A token that is visible to this transaction.
    pub async fn token(&self, id: &str) -> Result<Token> {
        let found = store::token::list(&self.session, None, Some(id)).await?.pop();
        found.ok_or(Error::Unknown { what: "token" })
    }
}

#[doc(hidden)]
impl Reading {
    /// The tokens of a tenant, or all tokens that are visible to this transaction.
    pub async fn tokens(&self, tenant: Option<Uuid>) -> Result<Vec<Token>> {
        store::token::list(&self.session, tenant, None).await
    }

    /// The name of a token that is visible to this transaction.
    pub async fn token_name(&self, id: &str) -> Result<Option<String>> {
        Ok(store::token::list(&self.session, None, Some(id)).await?.pop().map(|token| token.name))
    }
}
