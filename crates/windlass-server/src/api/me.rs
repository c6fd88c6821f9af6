//! Who am I: for people who hold a token and wonder.

use axum::Json;
use serde::Serialize;
use utoipa::ToSchema;
use uuid::Uuid;

use crate::auth::{Caller, Permission, Role};

/// The caller as the server sees them.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Me {
    /// What and which: `token:…`, `user:…` or `jwt:…`.
    #[schema(example = "token:4f0c9be1a7d2e853")]
    name: String,
    role: Role,
    /// The tenant that is acted for.
    tenant_id: Uuid,
    /// What may be done.
    permissions: Vec<&'static str>,
}

/// Who am I, and what may I do
#[utoipa::path(get, path = "/api/v1/me", tag = "me", responses((status = 200, body = Me)))]
pub(crate) async fn read(caller: Caller) -> Json<Me> {
    let scopes = Permission::ALL.into_iter().skip(2);
    let permissions = scopes.filter(|scope| caller.may(*scope)).map(Permission::as_str).collect();
    Json(Me { name: caller.name(), role: caller.role, tenant_id: caller.tenant(), permissions })
}
