//! Accounts as values: people, their sessions, their memberships, and how they come to a tenant: invitations and passwords.
//!
//! An account belongs to a person and may be a member of several tenants. No tenant sets or reads anything of it: what a
//! tenant has is an invitation, and after it was accepted a member.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// A person with a role in a tenant.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Member {
    /// The tenant that it belongs to.
    pub tenant_id: Uuid,
    /// The id of the account.
    pub user_id: Uuid,
    /// The email address.
    pub email: String,
    /// The name shown to people.
    pub name: String,
    /// The name of the role.
    pub role: String,
    /// Whether the account can sign in.
    pub is_active: bool,
    /// When the member joined.
    pub created_at: Timestamp,
}

/// A person as signing in needs them. The hash never leaves: it has no place in what is shown.
#[derive(Clone, Deserialize)]
pub struct Account {
    /// The id of the account.
    pub id: Uuid,
    /// The email address.
    pub email: String,
    /// The name shown to people.
    pub name: String,
    /// The hash of the password; none until the account has one.
    pub password_hash: Option<String>,
    /// Whether it may act for every tenant.
    pub is_super_admin: bool,
    /// Whether it can sign in.
    pub is_active: bool,
}

impl std::fmt::Debug for Account {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Account").field("id", &self.id).field("email", &self.email).finish_non_exhaustive()
    }
}

/// Who is behind a browser's session.
#[derive(Debug, Clone, Deserialize)]
pub struct SignedIn {
    /// The id of the account.
    pub user_id: Option<Uuid>,
    /// The token, if the session is a token's.
    pub token_id: Option<String>,
    /// The tenant that was chosen last.
    pub chosen_tenant: Option<Uuid>,
    /// The email address.
    pub email: Option<String>,
    /// The name shown to people.
    pub name: Option<String>,
    /// Whether it may act for every tenant.
    pub is_super_admin: bool,
    /// The tenants that the account is a member of.
    pub members: Vec<Membership>,
}

/// One tenant that a signed-in person may look at.
#[derive(Debug, Clone, Deserialize, Serialize)]
pub struct Membership {
    /// The tenant that it belongs to.
    pub tenant_id: Uuid,
    /// The short name of the tenant.
    pub slug: String,
    /// The name of the tenant.
    pub name: String,
    /// The name of the role.
    pub role: String,
    /// The tenant's limit of requests per minute.
    pub requests_per_minute: Option<u32>,
}

/// Whose session.
#[derive(Debug, Clone, Copy)]
pub enum SessionOf<'a> {
    /// A person's, whose password was compared with this hash.
    User {
        /// The id of the account.
        id: Uuid,
        /// The hash of the password that was shown.
        password_hash: &'a str,
    },
    /// That of a token's holder.
    Token(&'a str),
}

/// A session to begin. Only the hash of its secret is kept.
#[derive(Debug, Clone, Copy)]
pub struct NewSession<'a> {
    /// The hash of the session's secret.
    pub hash: &'a [u8],
    /// Whose session it is.
    pub of: SessionOf<'a>,
    /// How long it lasts.
    pub seconds: u32,
    /// The session that the browser had, which ends.
    pub replaces: Option<&'a [u8]>,
    /// The network address of the caller.
    pub from_address: Option<&'a str>,
    /// The browser that the caller uses.
    pub user_agent: Option<&'a str>,
}

/// An open invitation as its tenant sees it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Invitation {
    /// The tenant that it belongs to.
    pub tenant_id: Uuid,
    /// The id of the invitation.
    pub id: Uuid,
    /// The email address.
    pub email: String,
    /// The name of the role.
    pub role: String,
    /// Who created it.
    pub created_by: String,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it expires.
    pub expires_at: Timestamp,
}

/// The same as whoever holds its link sees it.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct InvitedTo {
    /// The tenant that it belongs to.
    pub tenant_id: Uuid,
    /// The name of the tenant.
    pub tenant_name: String,
    /// The id of the invitation.
    pub id: Uuid,
    /// The email address.
    pub email: String,
    /// The name of the role.
    pub role: String,
    /// When it expires.
    pub expires_at: Timestamp,
}

/// A link that sets a new password, without its secret.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PasswordReset {
    /// The id of the account.
    pub user_id: Uuid,
    /// When it expires.
    pub expires_at: Timestamp,
}

/// Whose password a link sets.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct ResetOf {
    /// The id of the account.
    pub user_id: Uuid,
    /// The email address.
    pub email: String,
    /// The tenant whose administrator made the link; nil for the installation's.
    pub tenant_id: Uuid,
}

/// An account to be made by whoever accepts an invitation.
#[derive(Debug, Clone)]
pub struct NewAccount {
    /// The id of the account.
    pub id: Uuid,
    /// The name shown to people.
    pub name: String,
    /// The hash of its password.
    pub password_hash: String,
}
