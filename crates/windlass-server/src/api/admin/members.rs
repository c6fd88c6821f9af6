//! Members: people with a role in a tenant.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use serde_json::json;
use utoipa::ToSchema;
use windlass::{Act, Member};

use crate::api::schema;
use crate::auth::{Caller, MemberRole, Secret, member_fields};
use crate::http::{App, Body, Id, IdempotencyKey, PageQuery, Problem, Query, keep, replay};

/// A person to be let in, or to be given another role.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct MemberBody {
    #[schema(max_length = 320, format = Email, example = "ada@example.com")]
    email: String,
    #[schema(max_length = 200)]
    name: Option<String>,
    role: MemberRole,
    /// For somebody who is not known here yet; the password of somebody who is stays theirs.
    #[schema(value_type = Option<String>, min_length = 12, max_length = 200, format = Password)]
    password: Option<Secret>,
}

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

/// Add a member, or change their role
#[utoipa::path(post, path = "/api/v1/admin/members", tag = "members", request_body = MemberBody, responses((status = 201, body = schema::Member)))]
pub(crate) async fn put(
    State(app): State<App>,
    caller: Caller,
    key: IdempotencyKey,
    body: Body<MemberBody>,
) -> Result<Response, Problem> {
    let new = body.value;
    let fields = member_fields(&new.email, new.name, new.role, new.password).await?;
    let acting = app.queue().act(caller.reach(), &caller.actor()).await?;
    if let Some(again) = replay(&acting, &key, &body.fingerprint).await? {
        return Ok(again);
    }
    let member = acting.put_member(caller.tenant(), &fields).await?;
    keep(&acting, &key, StatusCode::CREATED, &json!(member)).await?;
    acting.commit(&Act::new("member.put", member.user_id).after(&member)).await?;
    Ok((StatusCode::CREATED, Json(member)).into_response())
}

/// Remove a member
#[utoipa::path(delete, path = "/api/v1/admin/members/{user_id}", tag = "members", params(("user_id" = Uuid, Path)), responses((status = 200, body = schema::Member)))]
pub(crate) async fn remove(
    State(app): State<App>,
    caller: Caller,
    Id(user): Id,
) -> Result<Json<Member>, Problem> {
    let acting = app.queue().act(caller.reach(), &caller.actor()).await?;
    let removed = acting.remove_member(caller.tenant(), user).await?;
    acting.commit(&Act::new("member.remove", user).before(&removed)).await?;
    Ok(Json(removed))
}
