//! The actor of a transaction, and the data that it can see.

use uuid::Uuid;

use super::tenant::INSTALLATION;

/// The actor, as named in the audit trail.
///
/// ```
/// use windlass::admin::Actor;
///
/// let actor = Actor::new("user:7")
///     .role("operator")
///     .from_address(Some("192.0.2.7".to_owned()))
///     .request_id(Some("req-12".to_owned()));
/// assert_eq!(actor.name, "user:7");
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Actor {
    /// The kind and the id: `token:4f…`, `user:0192…`, `jwt:…`.
    pub name: String,
    /// The role of the actor.
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

    /// Sets the role of the actor.
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

/// The data that a transaction can see.
///
/// ```
/// use windlass::DEFAULT_TENANT;
/// use windlass::admin::Reach;
///
/// assert_eq!(Reach::Tenant(DEFAULT_TENANT).tenant(), Some(DEFAULT_TENANT));
/// assert_eq!(Reach::Everything.tenant(), None);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reach {
    /// One tenant.
    Tenant(Uuid),
    /// Every tenant: for super-admins.
    Everything,
}

impl Reach {
    /// Returns the only tenant that can be reached; none if there are several.
    #[must_use]
    pub fn tenant(self) -> Option<Uuid> {
        match self {
            Self::Tenant(tenant) => Some(tenant),
            Self::Everything => None,
        }
    }

    /// The owner of the audit entries and request keys of this transaction.
    pub(crate) fn owner(self) -> Uuid {
        self.tenant().unwrap_or(INSTALLATION)
    }
}
