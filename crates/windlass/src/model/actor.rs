//! Who acts, and how far they see.

use uuid::Uuid;

use super::tenant::INSTALLATION;

/// Who acts, as the audit trail will name them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Actor {
    /// What and which: `token:4f…`, `user:0192…`, `jwt:…`.
    pub name: String,
    /// The role in which it acts.
    pub role: String,
    /// The network address of the caller.
    pub from_address: Option<String>,
    /// The id of the request.
    pub request_id: Option<String>,
}

impl Actor {
    /// An actor with this name, such as `user:7`.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), ..Self::default() }
    }

    /// Sets the role in which it acts.
    #[must_use]
    pub fn role(mut self, role: impl Into<String>) -> Self {
        self.role = role.into();
        self
    }

    /// Sets the network address of the caller.
    #[must_use]
    pub fn from_address(mut self, address: Option<String>) -> Self {
        self.from_address = address;
        self
    }

    /// Sets the id of the request.
    #[must_use]
    pub fn request_id(mut self, id: Option<String>) -> Self {
        self.request_id = id;
        self
    }
}

/// How far a transaction sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// One tenant.
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
