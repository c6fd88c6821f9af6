//! Invitations: a tenant offers a membership to an email address, and the account of that address accepts it.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use serde_json::json;
use utoipa::ToSchema;
use windlass::internals::Invitation;

use crate::api::schema;
use crate::auth::{Caller, MemberRole, accounts};
use crate::http::{
    App, Body, Id, IdempotencyKey, LinkUrl, PageQuery, Problem, Query, replay, store_response,
};

/// The person to invite.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct InvitationBody {
    #[schema(max_length = 320, format = Email, example = "ada@example.com")]
    email: String,
    role: MemberRole,
    /// How long the link is valid (default: seven days). It is not valid for longer than the token or JWT that creates it.
    #[schema(minimum = 60, maximum = 2_592_000, example = 604_800)]
    expires_in_seconds: Option<u32>,
}

/// An invitation with its link. The link is shown only once.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct InvitationCreated {
    #[serde(flatten)]
    #[schema(inline, value_type = schema::Invitation)]
    shown: Invitation,
    /// Null if the request is a repetition: the link was shown the first time.
    #[schema(example = "…/ui/invitations/…")]
    link: Option<String>,
}

/// The open invitations of the tenant.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Invitations {
    #[schema(value_type = Vec<schema::Invitation>)]
    invitations: Vec<Invitation>,
    /// The cursor of the next page; null on the last page.
    next_cursor: Option<String>,
}

/// List open invitations
#[utoipa::path(get, path = "/api/v1/admin/invitations", tag = "members", params(PageQuery), responses((status = 200, body = Invitations)))]
pub(crate) async fn list(
    State(app): State<App>,
    caller: Caller,
    Query(page): Query<PageQuery>,
) -> Result<Json<Invitations>, Problem> {
    let reading = app.queue().read(caller.reach()).await?;
    let invitations = reading.invitations(caller.tenant()).await?;
    reading.end().await?;
    let (invitations, next_cursor) = page.of(invitations, |invitation| invitation.id.to_string())?;
    Ok(Json(Invitations { invitations, next_cursor }))
}

/// Invite a person
///
/// The response has a link that is shown only once. The person opens it, signs in to the account of that address or creates it,
/// and accepts. The response does not reveal whether the address has an account. Inviting an address again replaces its open
/// invitation. You cannot grant a role with more permissions than your own. The link stops working when your token is revoked or
/// expires, or when you are no longer a member with this role.
#[utoipa::path(post, path = "/api/v1/admin/invitations", tag = "members", request_body = InvitationBody, responses((status = 201, body = InvitationCreated)))]
pub(crate) async fn create(
    State(app): State<App>,
    caller: Caller,
    key: IdempotencyKey,
    LinkUrl(base): LinkUrl,
    body: Body<InvitationBody>,
) -> Result<Response, Problem> {
    let new = body.value;
    let acting = app.queue().act(caller.reach(), &caller.actor()).await?;
    if let Some(again) = replay(&acting, &key, &body.fingerprint).await? {
        return Ok(again);
    }
    let seconds = new.expires_in_seconds.unwrap_or(accounts::INVITATION_SECONDS);
    let (shown, secret) = accounts::invite(&acting, &caller, &new.email, new.role, seconds).await?;
    // The response stored for repeated requests has no secret.
    let kept = json!(InvitationCreated { shown: shown.clone(), link: None });
    store_response(&acting, &key, StatusCode::CREATED, &kept).await?;
    acting.commit().await?;
    let link = Some(format!("{base}/ui/invitations/{}", secret.expose()));
    Ok((StatusCode::CREATED, Json(InvitationCreated { shown, link })).into_response())
}

/// Revoke an invitation
///
/// You cannot revoke an invitation to a role with more permissions than your own.
#[utoipa::path(delete, path = "/api/v1/admin/invitations/{invitation_id}", tag = "members", params(("invitation_id" = Uuid, Path)), responses((status = 200, body = schema::Invitation)))]
pub(crate) async fn revoke(
    State(app): State<App>,
    caller: Caller,
    Id(id): Id,
) -> Result<Json<Invitation>, Problem> {
    Ok(Json(accounts::revoke_invitation(&app, &caller, id).await?))
}
