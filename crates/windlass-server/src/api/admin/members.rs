//! Members: people with a role in a tenant.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use utoipa::ToSchema;
use windlass::{Act, Member};

use super::tenants::object;
use crate::api::schema;
use crate::auth::{Caller, Secret, hash_password};
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

/// What a person may be in a tenant.
#[derive(Debug, Clone, Copy, Deserialize, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum MemberRole {
    Viewer,
    Operator,
    TenantAdmin,
}

impl MemberRole {
    pub(crate) fn named(name: &str) -> Option<Self> {
        match name {
            "viewer" => Some(Self::Viewer),
            "operator" => Some(Self::Operator),
            "tenant_admin" => Some(Self::TenantAdmin),
            _ => None,
        }
    }
}

/// What the library needs to let somebody in; or what is wrong with it. The password is hashed here and goes no further.
pub(crate) async fn member_fields(
    email: &str,
    name: Option<String>,
    role: MemberRole,
    password: Option<Secret>,
) -> Result<Map<String, Value>, Problem> {
    let email = email.trim().to_lowercase();
    let is_address =
        email.split_once('@').is_some_and(|(before, after)| !before.is_empty() && !after.is_empty())
            && email.matches('@').count() == 1
            && email.len() <= 320
            && !email.chars().any(|letter| letter.is_whitespace() || letter.is_control());
    if !is_address {
        return Err(Problem::invalid("/email", "must be an email address"));
    }
    if name.as_ref().is_some_and(|name| name.chars().count() > 200) {
        return Err(Problem::invalid("/name", "has at most 200 characters"));
    }
    let name = name.map(|name| windlass::text::storable(name.as_bytes(), 1000));
    let password_hash = match password {
        Some(password) => Some(hash_password(password).await?),
        None => None,
    };
    Ok(object(json!({"email": email, "name": name, "role": role, "password_hash": password_hash})))
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
