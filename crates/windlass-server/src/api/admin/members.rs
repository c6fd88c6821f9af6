//! Members: people with a role in a tenant. They come by invitations, which are in `invitations.rs`.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use windlass::Member;

use crate::api::schema;
use crate::auth::{Caller, MemberRole, accounts};
use crate::http::{App, Body, Id, LinkUrl, PageQuery, Problem, Query};

/// The members of the tenant.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Members {
    #[schema(value_type = Vec<schema::Member>)]
    members: Vec<Member>,
    /// For the next page; none after the last.
    next_cursor: Option<String>,
}

/// List members
#[utoipa::path(get, path = "/api/v1/admin/members", tag = "members", params(PageQuery), responses((status = 200, body = Members)))]
pub(crate) async fn list(
    State(app): State<App>,
    caller: Caller,
    Query(page): Query<PageQuery>,
) -> Result<Json<Members>, Problem> {
    let looking = app.queue().look(caller.reach()).await?;
    let members = looking.members(caller.tenant()).await?;
    looking.end().await?;
    let (members, next_cursor) = page.of(members, |member| member.email.clone())?;
    Ok(Json(Members { members, next_cursor }))
}

/// What to change of a member.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct MemberChange {
    role: MemberRole,
}

/// Change a member's role
///
/// You cannot give a role that may do more than you may, nor change a member who may.
#[utoipa::path(patch, path = "/api/v1/admin/members/{user_id}", tag = "members", params(("user_id" = Uuid, Path)), request_body = MemberChange, responses((status = 200, body = schema::Member)))]
pub(crate) async fn change(
    State(app): State<App>,
    caller: Caller,
    Id(user): Id,
    body: Body<MemberChange>,
) -> Result<Json<Member>, Problem> {
    Ok(Json(accounts::set_role(&app, &caller, user, body.value.role).await?))
}

/// Remove a member
///
/// You cannot remove a member who may do more than you may.
#[utoipa::path(delete, path = "/api/v1/admin/members/{user_id}", tag = "members", params(("user_id" = Uuid, Path)), responses((status = 200, body = schema::Member)))]
pub(crate) async fn remove(
    State(app): State<App>,
    caller: Caller,
    Id(user): Id,
) -> Result<Json<Member>, Problem> {
    Ok(Json(accounts::remove(&app, &caller, user).await?))
}

/// Whose password is to be set anew.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ResetBody {
    #[schema(max_length = 320, format = Email, example = "ada@example.com")]
    email: String,
}

/// A link with which a person sets a new password: give it to them, it is not shown again.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ResetLink {
    user_id: uuid::Uuid,
    /// The link ends a day after it was made, or when it is used.
    #[schema(value_type = String, format = DateTime)]
    expires_at: jiff::Timestamp,
    #[schema(example = "…/ui/password-resets/…")]
    link: String,
}

/// Make a link that resets a password
///
/// A super-admin may for every account. A tenant's administrator may for a member of the tenant who is a member of no other
/// tenant and may not do more than the administrator. Using the link ends every session of the account.
#[utoipa::path(post, path = "/api/v1/admin/password-resets", tag = "members", request_body = ResetBody, responses((status = 201, body = ResetLink)))]
pub(crate) async fn reset_password(
    State(app): State<App>,
    caller: Caller,
    LinkUrl(base): LinkUrl,
    body: Body<ResetBody>,
) -> Result<Response, Problem> {
    let (made, secret) = accounts::create_reset(&app, &caller, &body.value.email).await?;
    let link = format!("{base}/ui/password-resets/{}", secret.expose());
    let answer = ResetLink { user_id: made.user_id, expires_at: made.expires_at, link };
    Ok((StatusCode::CREATED, Json(answer)).into_response())
}
