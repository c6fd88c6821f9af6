//! Accounts as values: people, their sessions, their memberships, invitations and password resets.
//!
//! An account belongs to a person and can be a member of several tenants. A tenant cannot read or change it: a tenant
//! has an invitation, and a member after the invitation was accepted.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// A person with a role in a tenant.
///
/// ```no_run
/// # async fn example(reading: &windlass::admin::Reading) -> windlass::Result<()> {
/// for member in reading.members(windlass::DEFAULT_TENANT).await?.iter().filter(|member| member.is_active) {
///     println!("{} <{}> is {}", member.name, member.email, member.role);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Member {
    /// The tenant of the member.
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

/// An account, for signing in. The hash is not part of anything that is shown.
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
    /// Whether it has access to every tenant.
    pub is_super_admin: bool,
    /// Whether it can sign in.
    pub is_active: bool,
}

impl std::fmt::Debug for Account {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Account").field("id", &self.id).field("email", &self.email).finish_non_exhaustive()
    }
}

/// The user or token of a browser session.
#[derive(Debug, Clone, Deserialize)]
pub struct SignedIn {
    /// The id of the account.
    pub user_id: Option<Uuid>,
    /// The token, if the session was started with one.
    pub token_id: Option<String>,
    /// The tenant that was chosen last.
    pub chosen_tenant: Option<Uuid>,
    /// The email address.
    pub email: Option<String>,
    /// The name shown to people.
    pub name: Option<String>,
    /// Whether it has access to every tenant.
    pub is_super_admin: bool,
    /// The tenants that the account is a member of.
    pub members: Vec<Membership>,
}

/// A tenant of which a signed-in user is a member.
#[derive(Debug, Clone, Deserialize, Serialize)]
pub struct Membership {
    /// The id of the tenant.
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

/// The owner of a session.
#[derive(Debug, Clone, Copy)]
pub enum SessionOf<'a> {
    /// A user, whose password was compared with this hash.
    User {
        /// The id of the account.
        id: Uuid,
        /// The hash that the password was compared with.
        password_hash: &'a str,
    },
    /// The holder of a token.
    Token(&'a str),
}

/// A new session. Only the hash of its secret is stored.
#[derive(Debug, Clone, Copy)]
pub struct NewSession<'a> {
    /// The hash of the session's secret.
    pub hash: &'a [u8],
    /// The owner of the session.
    pub of: SessionOf<'a>,
    /// How long it lasts.
    pub seconds: u32,
    /// The previous session of the browser, which ends.
    pub replaces: Option<&'a [u8]>,
    /// The network address of the caller.
    pub from_address: Option<&'a str>,
    /// The user agent of the caller.
    pub user_agent: Option<&'a str>,
}

/// An open invitation as its tenant sees it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Invitation {
    /// The tenant of the invitation.
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

/// An invitation as the holder of its link sees it.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct InvitedTo {
    /// The tenant of the invitation.
    pub tenant_id: Uuid,
    /// The name of the tenant.
    pub tenant_name: String,
    /// The id of the invitation.
    pub id: Uuid,
    /// The email address.
    pub email: String,
    /// The name of the role.
    pub role: String,
    /// Who created it.
    pub created_by: String,
    /// When it expires.
    pub expires_at: Timestamp,
}

/// What the creator of a link may do now.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct LinkCreator {
    /// The name of the role; none for a creator that is not stored here, such as a JWT.
    pub role: Option<String>,
    /// The scopes of a token that has some.
    pub scopes: Option<Vec<String>>,
}

/// A password reset link, without its secret.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PasswordReset {
    /// The id of the account.
    pub user_id: Uuid,
    /// When it expires.
    pub expires_at: Timestamp,
}

/// An open password reset link as administrators see it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct OpenReset {
    /// The id of the account.
    pub user_id: Uuid,
    /// Its email address.
    pub email: String,
    /// The tenant whose administrator created the link; nil for the installation.
    pub tenant_id: Uuid,
    /// Who created it.
    pub created_by: String,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it expires.
    pub expires_at: Timestamp,
}

/// The account of a password reset link.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct ResetOf {
    /// The id of the account.
    pub user_id: Uuid,
    /// The email address.
    pub email: String,
    /// The tenant whose administrator created the link; nil for the installation.
    pub tenant_id: Uuid,
    /// Who created it.
    pub created_by: String,
}

/// A new account, created when an invitation is accepted.
#[derive(Debug, Clone)]
pub struct NewAccount {
    /// The id of the account.
    pub id: Uuid,
    /// The name shown to people.
    pub name: String,
    /// The hash of its password.
    pub password_hash: String,
}
