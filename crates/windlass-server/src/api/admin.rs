//! What operators manage: `/api/v1/admin`. Tokens, members and the audit trail are a tenant admin's too, for their own tenant.

pub(crate) mod audit;
pub(crate) mod invitations;
pub(crate) mod members;
pub(crate) mod operations;
pub(crate) mod tenants;
pub(crate) mod tokens;
