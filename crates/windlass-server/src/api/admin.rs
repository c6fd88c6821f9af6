//! Administration: `/api/v1/admin`. Tokens, members and the audit trail are also open to tenant admins, for their own tenant.

pub(crate) mod audit;
pub(crate) mod invitations;
pub(crate) mod members;
pub(crate) mod operations;
pub(crate) mod tenants;
pub(crate) mod tokens;
