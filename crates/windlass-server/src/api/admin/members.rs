//! Members: people with a role in a tenant. They join by invitation, see `invitations.rs`.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use serde_json::json;
use utoipa::ToSchema;
use windlass::admin::Member;
use windlass::internals::OpenReset;

use crate::api::schema;
use crate::auth::{Caller, MemberRole, accounts};
use crate::http::{
    App, Body, Id, IdempotencyKey, LinkUrl, PageQuery, Problem, Query, replay, store_response,
};

/// The members of the tenant.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Members {
    #[schema(value_type = Vec<schema::Member>)]
    members: Vec<Member>,
    /// The cursor of the next page; null on the last page.
    next_cursor: Option<String>,
}

/// List members
#[utoipa::path(get, path = "/api/v1/admin/members", tag = "members", params(PageQuery), responses((status = 200, body = Members)))]
pub(crate) async fn list(
    State(app): State<App>,
    caller: Caller,
    Query(page): Query<PageQuery>,
) -> Result<Json<Members>, Problem> {
    let reading = app.queue().read(caller.reach()).await?;
    let members = reading.members(caller.tenant()).await?;
    reading.end().await?;
    let (members, next_cursor) = page.of(members, |member| member.email.clone())?;
    Ok(Json(Members { members, next_cursor }))
}

/// The changes to a member.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct MemberChange {
    role: MemberRole,
}

/// Change the role of a member
///
/// You cannot grant a role with more permissions than your own, nor change a member who has more permissions.
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
/// You cannot remove a member with more permissions than your own.
#[utoipa::path(delete, path = "/api/v1/admin/members/{user_id}", tag = "members", params(("user_id" = Uuid, Path)), responses((status = 200, body = schema::Member)))]
pub(crate) async fn remove(
    State(app): State<App>,
    caller: Caller,
    Id(user): Id,
) -> Result<Json<Member>, Problem> {
    Ok(Json(accounts::remove(&app, &caller, user).await?))
}

/// The account whose password is reset.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ResetBody {
    #[schema(max_length = 320, format = Email, example = "ada@example.com")]
    email: String,
}

/// A link to set a new password. The link is shown only once.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ResetLink {
    user_id: uuid::Uuid,
    /// The link expires after one day, with the token or JWT that created it, or when it is used.
    #[schema(value_type = String, format = DateTime)]
    expires_at: jiff::Timestamp,
    /// Null if the request is a repetition: the link was shown the first time.
    #[schema(example = "…/ui/password-resets/…")]
    link: Option<String>,
}

/// Create a password reset link
///
/// A super-admin can do this for every account. A tenant admin can do it for a member of the tenant who is not a member of another
/// tenant and has no more permissions than the admin. Using the link ends all sessions of the account.
#[utoipa::path(post, path = "/api/v1/admin/password-resets", tag = "members", request_body = ResetBody, responses((status = 201, body = ResetLink)))]
pub(crate) async fn reset_password(
    State(app): State<App>,
    caller: Caller,
    key: IdempotencyKey,
    LinkUrl(base): LinkUrl,
    body: Body<ResetBody>,
) -> Result<Response, Problem> {
    let reset = accounts::begin_reset(&app, &caller, &body.value.email).await?;
    if let Some(again) = replay(&reset.acting, &key, &body.fingerprint).await? {
        return Ok(again);
    }
    let (made, secret) = reset.create(&caller).await?;
    let shown = |link| ResetLink { user_id: made.user_id, expires_at: made.expires_at, link };
    // The response stored for repeated requests has no secret.
    store_response(&reset.acting, &key, StatusCode::CREATED, &json!(shown(None))).await?;
    reset.acting.commit().await?;
    let response = shown(Some(format!("{base}/ui/password-resets/{}", secret.expose())));
    Ok((StatusCode::CREATED, Json(response)).into_response())
}

/// The open password reset links.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct PasswordResets {
    #[schema(value_type = Vec<schema::PasswordReset>)]
    password_resets: Vec<OpenReset>,
    /// The cursor of the next page; null on the last page.
    next_cursor: Option<String>,
}

/// List open password reset links
///
/// A tenant admin sees the links that the tenant's administrators have created; a super-admin sees those of the installation
/// too, and without a tenant all.
#[utoipa::path(get, path = "/api/v1/admin/password-resets", tag = "members", params(PageQuery), responses((status = 200, body = PasswordResets)))]
pub(crate) async fn password_resets(
    State(app): State<App>,
    caller: Caller,
    Query(page): Query<PageQuery>,
) -> Result<Json<PasswordResets>, Problem> {
    let resets = accounts::resets(&app, &caller).await?;
    let (password_resets, next_cursor) = page.of(resets, |reset| reset.user_id.to_string())?;
    Ok(Json(PasswordResets { password_resets, next_cursor }))
}

/// Revoke a password reset link
///
/// An account has at most one link. It also ends when it expires, is used or replaced, when the password changes, and when the
/// person or the creator of the link is removed from the tenant.
#[utoipa::path(delete, path = "/api/v1/admin/password-resets/{user_id}", tag = "members", params(("user_id" = Uuid, Path)), responses((status = 200, body = schema::PasswordReset)))]
pub(crate) async fn revoke_password_reset(
    State(app): State<App>,
    caller: Caller,
    Id(user): Id,
) -> Result<Json<OpenReset>, Problem> {
    Ok(Json(accounts::revoke_reset(&app, &caller, user).await?))
}
