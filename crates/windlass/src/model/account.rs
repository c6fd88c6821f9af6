//! Accounts as values: people, their sessions, their memberships, and how they come to a tenant: invitations and passwords.
//!
//! An account belongs to a person and may be a member of several tenants. No tenant sets or reads anything of it: what a
//! tenant has is an invitation, and after it was accepted a member.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// A person with a role in a tenant.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Member {
    pub tenant_id: Uuid,
    pub user_id: Uuid,
    pub email: String,
    pub name: String,
    pub role: String,
    pub is_active: bool,
    pub created_at: Timestamp,
}

/// A person as signing in needs them. The hash never leaves: it has no place in what is shown.
#[derive(Clone, Deserialize)]
pub struct Account {
    pub id: Uuid,
    pub email: String,
    pub name: String,
    pub password_hash: Option<String>,
    pub is_super_admin: bool,
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
    pub user_id: Option<Uuid>,
    pub token_id: Option<String>,
    pub chosen_tenant: Option<Uuid>,
    pub email: Option<String>,
    pub name: Option<String>,
    pub is_super_admin: bool,
    pub members: Vec<Membership>,
}

/// One tenant that a signed-in person may look at.
#[derive(Debug, Clone, Deserialize, Serialize)]
pub struct Membership {
    pub tenant_id: Uuid,
    pub slug: String,
    pub name: String,
    pub role: String,
    pub requests_per_minute: Option<u32>,
}

/// Whose session.
#[derive(Debug, Clone, Copy)]
pub enum SessionOf<'a> {
    /// A person's, whose password was compared with this hash.
    User { id: Uuid, password_hash: &'a str },
    /// That of a token's holder.
    Token(&'a str),
}

/// A session to begin. Only the hash of its secret is kept.
#[derive(Debug, Clone, Copy)]
pub struct NewSession<'a> {
    pub hash: &'a [u8],
    pub of: SessionOf<'a>,
    pub seconds: u32,
    /// The session that the browser had, which ends.
    pub replaces: Option<&'a [u8]>,
    pub from_address: Option<&'a str>,
    pub user_agent: Option<&'a str>,
}

/// An open invitation as its tenant sees it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Invitation {
    pub tenant_id: Uuid,
    pub id: Uuid,
    pub email: String,
    pub role: String,
    pub created_by: String,
    pub created_at: Timestamp,
    pub expires_at: Timestamp,
}

/// The same as whoever holds its link sees it.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct InvitedTo {
    pub tenant_id: Uuid,
    pub tenant_name: String,
    pub id: Uuid,
    pub email: String,
    pub role: String,
    pub expires_at: Timestamp,
}

/// A link that sets a new password, without its secret.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PasswordReset {
    pub user_id: Uuid,
    pub expires_at: Timestamp,
}

/// Whose password a link sets.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct ResetOf {
    pub user_id: Uuid,
    pub email: String,
    /// The tenant whose administrator made the link; nil for the installation's.
    pub tenant_id: Uuid,
}

/// An account to be made by whoever accepts an invitation.
#[derive(Debug, Clone)]
pub struct NewAccount {
    pub id: Uuid,
    pub name: String,
    pub password_hash: String,
}
