//! The current caller and its permissions.

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::auth::session::{Secure, session_hash};
use crate::auth::{Caller, Permission, Role, Secret, accounts};
use crate::http::{App, Body, Problem};

/// The current caller.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Me {
    /// The kind and the id: `token:…`, `user:…` or `jwt:…`.
    #[schema(example = "token:4f0c9be1a7d2e853")]
    name: String,
    role: Role,
    /// The current tenant.
    tenant_id: Uuid,
    /// The slug of the current tenant; null if it no longer exists.
    #[schema(example = "acme")]
    tenant_slug: Option<String>,
    /// The permissions of the caller.
    permissions: Vec<&'static str>,
}

/// Read the current caller and its permissions
#[utoipa::path(get, path = "/api/v1/me", tag = "me", responses((status = 200, body = Me)))]
pub(crate) async fn read(State(app): State<App>, caller: Caller) -> Result<Json<Me>, Problem> {
    let scopes = Permission::ALL.into_iter().skip(2);
    let permissions = scopes.filter(|scope| caller.may(*scope)).map(Permission::as_str).collect();
    let tenant_id = caller.tenant();
    let tenant_slug = app.authenticator().tenant_slug(tenant_id).await?;
    Ok(Json(Me { name: caller.name(), role: caller.role, tenant_id, tenant_slug, permissions }))
}

/// A password change.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PasswordChange {
    #[schema(value_type = String, max_length = 1024, format = Password)]
    current_password: Secret,
    #[schema(value_type = String, min_length = 12, max_length = 200, format = Password)]
    new_password: Secret,
}

/// Change your password
///
/// For users who signed in with a password. It ends all other sessions of the account.
#[utoipa::path(post, path = "/api/v1/me/password", tag = "me", request_body = PasswordChange, responses((status = 204)))]
pub(crate) async fn change_password(
    State(app): State<App>,
    caller: Caller,
    headers: HeaderMap,
    secure: Secure,
    body: Body<PasswordChange>,
) -> Result<StatusCode, Problem> {
    let session = session_hash(&headers, secure);
    let PasswordChange { current_password, new_password } = body.value;
    accounts::change_password(&app, &caller, session, current_password, new_password).await?;
    Ok(StatusCode::NO_CONTENT)
}
