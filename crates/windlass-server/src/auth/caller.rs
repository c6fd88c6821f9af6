//! The authenticated caller of a request.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use jiff::Timestamp;
use uuid::Uuid;
use windlass::DEFAULT_TENANT;
use windlass::admin::{Actor, Reach};

use super::grant::HeldPermissions;
use super::role::{Permission, Role};
use crate::http::Problem;

/// An authenticated caller. A handler with this parameter can only be reached with a credential.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    pub(crate) who: Who,
    pub(crate) role: Role,
    /// The tenant; none for a credential of the installation without `X-Tenant-Id`.
    pub(crate) tenant: Option<Uuid>,
    /// Restricts the permissions of the role; `None` for no restriction.
    pub(crate) scopes: Option<Vec<Permission>>,
    /// When the token or JWT expires, if it does.
    pub(crate) expires_at: Option<Timestamp>,
    pub(crate) from_address: Option<String>,
    pub(crate) request_id: Option<String>,
}

/// The credential of the caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Who {
    Token {
        id: String,
        name: String,
    },
    User {
        id: Uuid,
        email: String,
    },
    Jwt {
        issuer: String,
        subject: String,
    },
    /// Another service, authenticated by the signature of a webhook.
    Hook {
        name: String,
    },
    /// A user of the command line with access to the database, and the login that they used.
    Local {
        user: String,
        login: String,
    },
}

impl Caller {
    /// A caller of the installation with all permissions of its role.
    pub(crate) fn new(who: Who, role: Role) -> Self {
        Self { who, role, tenant: None, scopes: None, expires_at: None, from_address: None, request_id: None }
    }

    pub(crate) fn may(&self, permission: Permission) -> bool {
        self.permissions().may(permission)
    }

    pub(super) fn permissions(&self) -> HeldPermissions<'_> {
        HeldPermissions { role: self.role, scopes: self.scopes.as_deref() }
    }

    /// The tenant, or the default one: an installation with one tenant never has to specify it.
    pub(crate) fn tenant(&self) -> Uuid {
        self.tenant.unwrap_or(DEFAULT_TENANT)
    }

    /// For operations within the tenant of the caller.
    pub(crate) fn reach(&self) -> Reach {
        Reach::Tenant(self.tenant())
    }

    /// For operations of super-admins: the chosen tenant, or all.
    pub(crate) fn wide_reach(&self) -> Reach {
        match (self.role, self.tenant) {
            (Role::SuperAdmin, None) => Reach::Everything,
            _ => self.reach(),
        }
    }

    /// For objects of the installation if a super-admin manages them: definitions, queues, tenants, tokens. All other callers are
    /// limited to their own tenant, and the database denies them the rows of the installation.
    pub(crate) fn global_reach(&self) -> Reach {
        if self.role == Role::SuperAdmin { Reach::Everything } else { self.reach() }
    }

    /// Whether the caller may find and choose any tenant: a super-admin, whose token may be restricted to other permissions.
    pub(crate) fn may_choose_any_tenant(&self) -> bool {
        self.role == Role::SuperAdmin && self.may(Permission::Administer)
    }

    /// The caller in the audit trail.
    pub(crate) fn actor(&self) -> Actor {
        Actor::new(self.name())
            .role(self.role.as_str())
            .from_address(self.from_address.clone())
            .request_id(self.request_id.clone())
    }

    /// The kind and the id: the key of request rates, and the name in the audit trail.
    pub(crate) fn name(&self) -> String {
        match &self.who {
            Who::Token { id, .. } => format!("token:{id}"),
            Who::Local { user, login } => {
                let clean = |text: &str| windlass::internals::text::storable(text.as_bytes(), 200);
                format!("local:{}@{}", clean(user), clean(login))
            }
            Who::Hook { name } => format!("hook:{name}"),
            Who::User { id, .. } => format!("user:{id}"),
            Who::Jwt { subject, .. } => {
                format!("jwt:{}", windlass::internals::text::storable(subject.as_bytes(), 200))
            }
        }
    }

    /// The id of the user, if the caller is one.
    pub(crate) fn user_id(&self) -> Option<Uuid> {
        match &self.who {
            Who::User { id, .. } => Some(*id),
            Who::Jwt { subject, .. } => subject.parse().ok(),
            Who::Token { .. } | Who::Hook { .. } | Who::Local { .. } => None,
        }
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        // Set by the guard of every route that requires a caller.
        parts.extensions.get::<Self>().cloned().ok_or_else(Problem::unauthorized)
    }
}
