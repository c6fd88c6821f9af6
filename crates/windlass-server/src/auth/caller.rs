//! The one who asks, as every handler gets them.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use jiff::Timestamp;
use uuid::Uuid;
use windlass::{Actor, DEFAULT_TENANT, Reach};

use super::role::{Permission, Role};
use crate::http::Problem;

/// A verified caller. A handler that takes it can only be reached with a credential.
#[derive(Debug, Clone)]
pub struct Caller {
    pub who: Who,
    pub role: Role,
    /// The tenant they act for; none for the installation's own credentials that named none.
    pub tenant: Option<Uuid>,
    /// What they may do of what their role may; everything, if not held to less.
    pub scopes: Option<Vec<Permission>>,
    /// When the token or JWT that was shown expires, if it does.
    pub expires_at: Option<Timestamp>,
    pub from_address: Option<String>,
    pub request_id: Option<String>,
}

/// By which credential.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Who {
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
    /// Another service, by the signature of one hook.
    Hook {
        name: String,
    },
    /// Somebody at a command line who has the database's address.
    Local {
        user: String,
    },
}

impl Caller {
    pub fn may(&self, permission: Permission) -> bool {
        let free = matches!(permission, Permission::Anyone | Permission::SignedIn);
        self.role.may(permission)
            && (free || self.scopes.as_ref().is_none_or(|scopes| scopes.contains(&permission)))
    }

    /// The tenant whose jobs are meant: an installation with one tenant never has to name it.
    pub fn tenant(&self) -> Uuid {
        self.tenant.unwrap_or(DEFAULT_TENANT)
    }

    /// For what concerns the caller's tenant.
    pub fn reach(&self) -> Reach {
        Reach::Tenant(self.tenant())
    }

    /// For what only a super-admin may: the tenant they named, or everything.
    pub fn wide_reach(&self) -> Reach {
        match (self.role, self.tenant) {
            (Role::SuperAdmin, None) => Reach::Everything,
            _ => self.reach(),
        }
    }

    /// For what belongs to no tenant if a super-admin does it: definitions, queues, tenants themselves, tokens. Everybody else has
    /// their own tenant in force, whatever they ask for, and the database refuses them the installation's rows.
    pub fn global_reach(&self) -> Reach {
        if self.role == Role::SuperAdmin { Reach::Everything } else { self.reach() }
    }

    /// As the audit trail names them.
    pub fn actor(&self) -> Actor {
        Actor {
            name: self.name(),
            role: self.role.as_str().to_owned(),
            from_address: self.from_address.clone(),
            request_id: self.request_id.clone(),
        }
    }

    /// What and which: the key of request limits, and the name in the audit trail.
    pub fn name(&self) -> String {
        match &self.who {
            Who::Token { id, .. } => format!("token:{id}"),
            Who::Local { user } => format!("local:{}", windlass::text::storable(user.as_bytes(), 200)),
            Who::Hook { name } => format!("hook:{name}"),
            Who::User { id, .. } => format!("user:{id}"),
            Who::Jwt { subject, .. } => {
                format!("jwt:{}", windlass::text::storable(subject.as_bytes(), 200))
            }
        }
    }

    /// The user behind it, if it is a person known here.
    pub fn user_id(&self) -> Option<Uuid> {
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
        // Put there by the guard of every route whose permission needs a caller.
        parts.extensions.get::<Self>().cloned().ok_or_else(Problem::unauthorized)
    }
}
