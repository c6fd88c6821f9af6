//! API tokens: shown once when they are created.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use serde_json::json;
use utoipa::ToSchema;
use windlass::admin::{Acting, INSTALLATION};
use windlass::internals::{NewToken, Token};

use crate::api::schema;
use crate::auth::{Caller, Permission, Role, TokenKind, TokenSecret, creator_problem};
use crate::http::{
    App, Body, IdempotencyKey, PageQuery, Problem, ProblemKind, Query, Segment, Time, check_future, replay,
    store_response,
};

const MAX_SCOPES: usize = 20;

/// A new token.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewTokenBody {
    #[schema(min_length = 1, max_length = 200, pattern = "\\S", example = "nightly sync")]
    name: String,
    role: Role,
    /// Restricts the token to some permissions of its role: `jobs:read`, `jobs:write`, …
    #[schema(max_items = 20, example = json!(["jobs:read", "jobs:write"]))]
    scopes: Option<Vec<String>>,
    #[schema(value_type = Option<String>, format = DateTime)]
    expires_at: Option<Time>,
}

/// A token with its secret. The secret is shown only once.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct TokenCreated {
    #[serde(flatten)]
    #[schema(inline, value_type = schema::Token)]
    shown: Token,
    /// The complete token. Null if the request is a repetition: the secret was shown the first time.
    #[schema(example = "wl_api_4f0c9be1a7d2e853_…")]
    token: Option<String>,
}

/// The tokens, ordered by id.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Tokens {
    #[schema(value_type = Vec<schema::Token>)]
    tokens: Vec<Token>,
    /// The cursor of the next page; null on the last page.
    next_cursor: Option<String>,
}

/// List tokens
///
/// Returns the tokens of the tenant, or all tokens for a super-admin without `X-Tenant-Id`.
#[utoipa::path(get, path = "/api/v1/admin/tokens", tag = "tokens", params(PageQuery), responses((status = 200, body = Tokens)))]
pub(crate) async fn list(
    State(app): State<App>,
    caller: Caller,
    Query(page): Query<PageQuery>,
) -> Result<Json<Tokens>, Problem> {
    let reading = app.queue().read(caller.wide_reach()).await?;
    let tokens = reading.tokens(None).await?;
    reading.end().await?;
    let (tokens, next_cursor) = page.of(tokens, |token| token.id.clone())?;
    Ok(Json(Tokens { tokens, next_cursor }))
}

/// Create a token
///
/// Its secret is only in this response.
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
    if scopes.len() > MAX_SCOPES {
        return Err(Problem::invalid("/scopes", format!("must have at most {MAX_SCOPES} scopes")));
    }
    for (at, scope) in scopes.iter().enumerate() {
        if Permission::from_scope(scope).is_none_or(|permission| !new.role.may(permission)) {
            let granted = Permission::ALL.into_iter().skip(2).filter(|permission| new.role.may(*permission));
            let granted: Vec<&str> = granted.map(Permission::as_str).collect();
            let (role, granted) = (new.role, granted.join(", "));
            let scope: String = scope.chars().take(100).collect();
            let message = format!("{scope:?} is not a permission of the role {role}, which has {granted}");
            return Err(Problem::invalid(format!("/scopes/{at}"), message));
        }
    }
    check_scoped(&caller, new.scopes.is_some())?;
    caller.check_grant(new.role, new.scopes.as_deref())?;
    let expires_at = new.expires_at.map(|at| at.0);
    check_future(expires_at)?;
    caller.check_expiry(expires_at)?;
    let (tenant, kind) = match new.role {
        Role::SuperAdmin => (INSTALLATION, TokenKind::Admin),
        Role::Worker if caller.role == Role::SuperAdmin && caller.tenant.is_none() => {
            (INSTALLATION, TokenKind::Worker)
        }
        Role::Worker => (caller.tenant(), TokenKind::Worker),
        Role::Viewer | Role::Operator | Role::TenantAdmin => (caller.tenant(), TokenKind::Api),
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
    let shown = acting.create_token(tenant, &token, &secret.hash()).await.map_err(creator_problem)?;
    finish(&app, acting, &key, shown, &secret).await
}

/// A clearer error for missing scopes than the one about a permission that cannot be granted.
fn check_scoped(caller: &Caller, is_scoped: bool) -> Result<(), Problem> {
    if caller.scopes.is_some() && !is_scoped {
        return Err(Problem::invalid(
            "/scopes",
            "is required: a token with scopes can only create tokens with scopes",
        ));
    }
    Ok(())
}

async fn finish(
    app: &App,
    acting: Acting,
    key: &IdempotencyKey,
    shown: Token,
    secret: &TokenSecret,
) -> Result<Response, Problem> {
    // The response stored for repeated requests has no secret.
    store_response(
        &acting,
        key,
        StatusCode::CREATED,
        &json!(TokenCreated { shown: shown.clone(), token: None }),
    )
    .await?;
    acting.commit().await?;
    app.authenticator().remember_token(secret.id()).await;
    Ok((StatusCode::CREATED, Json(TokenCreated { shown, token: Some(secret.expose()) })).into_response())
}

/// The options of a rotation.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Rotation {
    /// How long the old token stays valid (default: one hour).
    #[schema(minimum = 0, maximum = 2_592_000, example = 3600)]
    overlap_seconds: Option<u32>,
    /// When the new token expires (default: when the old one does).
    #[schema(value_type = Option<String>, format = DateTime)]
    expires_at: Option<Time>,
}

/// Rotate a token
///
/// Creates a new token with the same role, scopes and expiry; the old one stays valid for the overlap. You cannot rotate a token
/// with more permissions than your own.
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
        return Err(Problem::invalid("/overlap_seconds", "must be at most 2592000 (30 days)"));
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
    // The expiry of the old token, unless the caller gives another one.
    check_future(body.value.expires_at.map(|at| at.0))?;
    let expires_at = match body.value.expires_at {
        Some(asked) => Some(asked.0),
        None => old.expires_at,
    };
    caller.check_expiry(expires_at)?;
    let kind = match role {
        Role::SuperAdmin => TokenKind::Admin,
        Role::Worker => TokenKind::Worker,
        Role::Viewer | Role::Operator | Role::TenantAdmin => TokenKind::Api,
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
        windlass::Error::Changed { .. } => Problem::of(
            ProblemKind::Conflict,
            "the token has expired, or was already revoked or rotated; rotate its successor, or create a token",
        ),
        error => creator_problem(error),
    })?;
    finish(&app, acting, &key, shown, &secret).await
}

/// Revoke a token
///
/// Every server rejects it within five seconds. You cannot revoke a token with more permissions than your own.
#[utoipa::path(delete, path = "/api/v1/admin/tokens/{token_id}", tag = "tokens", params(("token_id" = String, Path)), responses((status = 200, body = schema::Token)))]
pub(crate) async fn revoke(
    State(app): State<App>,
    caller: Caller,
    Segment(id): Segment,
) -> Result<Json<Token>, Problem> {
    let acting = app.queue().act(caller.wide_reach(), &caller.actor()).await?;
    let before = acting.token(&id).await?;
    caller.check_revoke(&before)?;
    let after = acting.revoke_token(before.tenant_id, &id).await?;
    acting.commit().await?;
    app.authenticator().forget(&id);
    Ok(Json(after))
}
