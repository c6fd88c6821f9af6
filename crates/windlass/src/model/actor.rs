//! Who acts, and how far they see.

use uuid::Uuid;

use super::tenant::INSTALLATION;

/// Who acts, as the audit trail will name them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Actor {
    /// What and which: `token:4f…`, `user:0192…`, `jwt:…`.
    pub name: String,
    pub role: String,
    pub from_address: Option<String>,
    pub request_id: Option<String>,
}

/// How far a transaction sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    Tenant(Uuid),
    /// Every tenant: for super-admins.
    Everything,
}

impl Reach {
    pub(crate) fn tenant(self) -> Option<Uuid> {
        match self {
            Self::Tenant(tenant) => Some(tenant),
            Self::Everything => None,
        }
    }

    /// Whose part of the audit trail, and of the request keys, this belongs to.
    pub(crate) fn owner(self) -> Uuid {
        self.tenant().unwrap_or(INSTALLATION)
    }
}
