//! API tokens: shown once when they are made, and never again.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use serde_json::json;
use utoipa::ToSchema;
use windlass::{Act, Acting, INSTALLATION, NewToken, Token};

use crate::api::schema;
use crate::auth::{Caller, Kind, Permission, Role, TokenSecret};
use crate::http::{
    App, Body, IdempotencyKey, PageQuery, Problem, ProblemKind, Query, Segment, Time, keep, replay,
};

const MOST_SCOPES: usize = 20;

/// A token to be.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewTokenBody {
    #[schema(min_length = 1, max_length = 200, pattern = "\\S", example = "nightly sync")]
    name: String,
    role: Role,
    /// Holds it to less than its role may: `jobs:read`, `jobs:write`, …
    #[schema(max_items = 20, example = json!(["jobs:read", "jobs:write"]))]
    scopes: Option<Vec<String>>,
    #[schema(value_type = Option<String>, format = DateTime)]
    expires_at: Option<Time>,
}

/// A token with its secret: keep it, it is not shown again.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct TokenCreated {
    #[serde(flatten)]
    #[schema(inline, value_type = schema::Token)]
    shown: Token,
    /// The whole token. Null when the request was a repetition: the secret was shown the first time.
    #[schema(example = "wl_api_4f0c9be1a7d2e853_…")]
    token: Option<String>,
}

/// The tokens, in the order of their ids.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Tokens {
    #[schema(value_type = Vec<schema::Token>)]
    tokens: Vec<Token>,
    /// For the next page; none after the last.
    next_cursor: Option<String>,
}

/// List tokens
///
/// Of the tenant; of everyone, for a super-admin that names no tenant.
#[utoipa::path(get, path = "/api/v1/admin/tokens", tag = "tokens", params(PageQuery), responses((status = 200, body = Tokens)))]
pub(crate) async fn list(
    State(app): State<App>,
    caller: Caller,
    Query(page): Query<PageQuery>,
) -> Result<Json<Tokens>, Problem> {
    let looking = app.queue().look(caller.wide_reach()).await?;
    let tokens = looking.tokens(None).await?;
    looking.end().await?;
    let (tokens, next_cursor) = page.of(tokens, |token| token.id.clone())?;
    Ok(Json(Tokens { tokens, next_cursor }))
}

/// Create a token
///
/// Its secret is in the answer and nowhere else.
#[utoipa::path(post, path = "/api/v1/admin/tokens", tag = "tokens", request_body = NewTokenBody, responses((status = 201, body = TokenCreated)))]
pub(crate) async fn create(
    State(app): State<App>,
    caller: Caller,
    key: IdempotencyKey,
    body: Body<NewTokenBody>,
) -> Result<Response, Problem> {
    let new = body.value;
    if new.name.trim().is_empty() || new.name.chars().count() > 200 {
        return Err(Problem::invalid("/name", "must have 1 to 200 characters"));
    }
    let scopes = new.scopes.as_deref().unwrap_or_default();
    if scopes.len() > MOST_SCOPES {
        return Err(Problem::invalid("/scopes", format!("are at most {MOST_SCOPES}")));
    }
    for (at, scope) in scopes.iter().enumerate() {
        if Permission::from_scope(scope).is_none_or(|permission| !new.role.may(permission)) {
            return Err(Problem::invalid(
                format!("/scopes/{at}"),
                format!("is nothing that {} may do", new.role),
            ));
        }
    }
    check_scoped(&caller, new.scopes.is_some())?;
    caller.check_grant(new.role, new.scopes.as_deref())?;
    let expires_at = new.expires_at.map(|at| at.0);
    caller.check_expiry(expires_at)?;
    let (tenant, kind) = match new.role {
        Role::SuperAdmin => (INSTALLATION, Kind::Admin),
        Role::Worker if caller.role == Role::SuperAdmin && caller.tenant.is_none() => {
            (INSTALLATION, Kind::Worker)
        }
        Role::Worker => (caller.tenant(), Kind::Worker),
        Role::Viewer | Role::Operator | Role::TenantAdmin => (caller.tenant(), Kind::Api),
    };
    let secret = TokenSecret::generate(kind);
    let token = NewToken {
        id: secret.id().to_owned(),
        kind: kind.as_str().to_owned(),
        name: new.name,
        role: new.role.to_string(),
        scopes: new.scopes,
        created_by: caller.name(),
        expires_at,
    };
    let acting = app.queue().act(caller.global_reach(), &caller.actor()).await?;
    if let Some(again) = replay(&acting, &key, &body.fingerprint).await? {
        return Ok(again);
    }
    let shown = acting.create_token(tenant, &token, &secret.hash()).await?;
    finish(acting, &key, "token.create", None, shown, &secret).await
}

/// For whoever forgot the scopes: that some permission cannot be granted would say less.
fn check_scoped(caller: &Caller, is_scoped: bool) -> Result<(), Problem> {
    if caller.scopes.is_some() && !is_scoped {
        return Err(Problem::invalid("/scopes", "a token with scopes can only make tokens with scopes"));
    }
    Ok(())
}

async fn finish(
    acting: Acting,
    key: &IdempotencyKey,
    action: &'static str,
    before: Option<&Token>,
    shown: Token,
    secret: &TokenSecret,
) -> Result<Response, Problem> {
    let mut act = Act::new(action, &shown.id).after(&shown);
    if let Some(before) = before {
        act = act.before(before);
    }
    // What is kept for a repetition has no secret in it.
    keep(&acting, key, StatusCode::CREATED, &json!(TokenCreated { shown: shown.clone(), token: None }))
        .await?;
    acting.commit(&act).await?;
    Ok((StatusCode::CREATED, Json(TokenCreated { shown, token: Some(secret.expose()) })).into_response())
}

/// How a token is replaced.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Rotation {
    /// How long the old one goes on: an hour, if not given.
    #[schema(minimum = 0, maximum = 2_592_000, example = 3600)]
    overlap_seconds: Option<u32>,
    /// When the new one expires: when the old one does, if not given.
    #[schema(value_type = Option<String>, format = DateTime)]
    expires_at: Option<Time>,
}

/// Replace a token
///
/// Makes a new one with the same role, scopes and expiry; the old one goes on for the overlap and then ends. You cannot
/// replace a token that may do more than you may.
#[utoipa::path(post, path = "/api/v1/admin/tokens/{token_id}/rotate", tag = "tokens", params(("token_id" = String, Path)), request_body = Rotation, responses((status = 201, body = TokenCreated)))]
pub(crate) async fn rotate(
    State(app): State<App>,
    caller: Caller,
    Segment(id): Segment,
    key: IdempotencyKey,
    body: Body<Rotation>,
) -> Result<Response, Problem> {
    let overlap = body.value.overlap_seconds.unwrap_or(3600);
    if overlap > 2_592_000 {
        return Err(Problem::invalid("/overlap_seconds", "must be at most 2592000, which is thirty days"));
    }
    let acting = app.queue().act(caller.wide_reach(), &caller.actor()).await?;
    let old = acting.token(&id).await?;
    let key = IdempotencyKey { tenant: Some(old.tenant_id), ..key };
    if let Some(again) = replay(&acting, &key, &body.fingerprint).await? {
        return Ok(again);
    }
    let role: Role = old.role.parse().map_err(|()| Problem::not_found("token"))?;
    check_scoped(&caller, old.scopes.is_some())?;
    caller.check_grant(role, old.scopes.as_deref())?;
    // The old one's, unless another one is asked for that the caller may give.
    let expires_at = match body.value.expires_at {
        Some(asked) => Some(asked.0),
        None => old.expires_at,
    };
    caller.check_expiry(expires_at)?;
    let kind = match role {
        Role::SuperAdmin => Kind::Admin,
        Role::Worker => Kind::Worker,
        Role::Viewer | Role::Operator | Role::TenantAdmin => Kind::Api,
    };
    let secret = TokenSecret::generate(kind);
    let new = NewToken {
        id: secret.id().to_owned(),
        kind: old.kind.clone(),
        name: old.name.clone(),
        role: old.role.clone(),
        scopes: old.scopes.clone(),
        created_by: caller.name(),
        expires_at,
    };
    let rotated = acting.rotate_token(&old, overlap, &new, &secret.hash()).await;
    let shown = rotated.map_err(|error| match error {
        windlass::Error::Changed { .. } => {
            Problem::of(ProblemKind::Conflict, "it was revoked or replaced already; rotate its successor")
        }
        error => error.into(),
    })?;
    finish(acting, &key, "token.rotate", Some(&old), shown, &secret).await
}

/// Revoke a token
///
/// It ends everywhere within five seconds.
#[utoipa::path(delete, path = "/api/v1/admin/tokens/{token_id}", tag = "tokens", params(("token_id" = String, Path)), responses((status = 200, body = schema::Token)))]
pub(crate) async fn revoke(
    State(app): State<App>,
    caller: Caller,
    Segment(id): Segment,
) -> Result<Json<Token>, Problem> {
    let acting = app.queue().act(caller.wide_reach(), &caller.actor()).await?;
    let before = acting.token(&id).await?;
    let after = acting.revoke_token(before.tenant_id, &id).await?;
    acting.commit(&Act::new("token.revoke", &id).before(&before).after(&after)).await?;
    app.authenticator().forget(&id);
    Ok(Json(after))
}
