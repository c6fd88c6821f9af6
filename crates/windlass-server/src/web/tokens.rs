//! API tokens. A secret is shown only once, in the response to the request that created it.

use askama::Template;
use axum::extract::State as FromState;
use uuid::Uuid;
use windlass::admin::INSTALLATION;
use windlass::internals::{NewToken, Token};

use super::form::{Form, Shown, Wrong};
use super::form_body::FormBody;
use super::frame::{Frame, Section};
use super::page::{Page, back, page};
use super::query::instant;
use super::relative_time::RelativeTime;
use super::search::{Search, Searched};
use super::status_mark::StatusMark;
use super::url_parameters::UiQuery;
use super::viewer::{Viewer, role_name};
use crate::auth::{Role, TokenKind, TokenSecret, creator_problem};
use crate::http::{App, Problem, ProblemKind, check_future};

#[derive(Template)]
#[template(path = "tokens.html")]
struct TokensPage {
    frame: Frame,
    scope: String,
    /// Whether the viewer can create tokens of the installation, which are not those of a tenant.
    has_installation: bool,
    search: Searched,
    rows: Vec<TokenRow>,
}

struct TokenRow {
    id: String,
    tenant_id: Uuid,
    name: String,
    state: StatusMark,
    role: String,
    permissions: String,
    used: Option<RelativeTime>,
    expires: Option<RelativeTime>,
    may_revoke: bool,
}

/// `GET /ui/tokens`
pub(crate) async fn list(
    FromState(app): FromState<App>,
    viewer: Viewer,
    UiQuery(search): UiQuery<Search>,
) -> Page {
    let frame = viewer.frame(&app, Section::Tokens).await?;
    let reading = app.queue().read(viewer.caller.wide_reach()).await?;
    let tokens = reading.tokens(None).await?;
    reading.end().await?;
    let found = search.among(&tokens, |token, wanted| {
        token.name.to_lowercase().contains(wanted) || token.id.contains(wanted)
    });
    let now = frame.now;
    let row = |token: &Token| {
        let is_over = token.expires_at.is_some_and(|at| at <= now);
        let is_revoked = token.revoked_at.is_some();
        TokenRow {
            id: token.id.clone(),
            tenant_id: token.tenant_id,
            name: token.name.clone(),
            state: match (is_revoked, is_over) {
                (true, _) => StatusMark::new("canceled", "dash", "Revoked"),
                (false, true) => StatusMark::new("canceled", "clock", "Expired"),
                (false, false) => StatusMark::new("succeeded", "tick", "Valid"),
            },
            role: role_name(&token.role),
            permissions: token
                .scopes
                .as_ref()
                .map_or_else(|| "All permissions of its role".to_owned(), |scopes| scopes.join(", ")),
            used: token.last_used_at.map(|at| RelativeTime::new(at, now)),
            expires: token.expires_at.map(|at| RelativeTime::new(at, now)),
            may_revoke: !is_revoked && !is_over && viewer.caller.check_revoke(token).is_ok(),
        }
    };
    page(&TokensPage {
        scope: format!("{}: API tokens for programs", viewer.scope_words(&frame)),
        has_installation: viewer.caller.role == Role::SuperAdmin,
        rows: found.iter().take(Search::SHOWN).map(|token| row(token)).collect(),
        search: search.searched(tokens.len(), found.len()),
        frame,
    })
}

#[derive(Template)]
#[template(path = "token.html")]
struct NewTokenPage {
    frame: Frame,
    form: Form,
    shown: Shown,
    roles: Vec<(&'static str, &'static str)>,
}

/// The roles of a token, with descriptions.
const ROLES: [(&str, &str); 5] = [
    ("viewer", "Viewer: read only"),
    ("operator", "Operator: can also enqueue, cancel, and retry jobs"),
    ("tenant_admin", "Tenant admin: can also manage triggers and tokens, and delete jobs"),
    ("worker", "Worker: claims and settles jobs"),
    ("super_admin", "Super-admin: full access to all tenants"),
];

/// The fields of the form, by their names in the API.
const FIELDS: [(&str, &str); 4] =
    [("name", "name"), ("role", "role"), ("expires", "expires"), ("expires_at", "expires")];

/// `GET /ui/tokens/new`
pub(crate) async fn new(FromState(app): FromState<App>, viewer: Viewer) -> Page {
    show(&app, &viewer, &FormBody::default(), None).await
}

async fn show(app: &App, viewer: &Viewer, typed: &FormBody, wrong: Option<Wrong>) -> Page {
    let frame = viewer.frame(app, Section::Tokens).await?;
    let may_give = |role: &str| role.parse().is_ok_and(|role| viewer.caller.check_grant(role, None).is_ok());
    page(&NewTokenPage {
        shown: Shown::typed(typed),
        roles: ROLES.into_iter().filter(|(role, _)| may_give(role)).collect(),
        form: Form {
            title: "New token".to_owned(),
            list: "Tokens",
            list_href: "/ui/tokens",
            action: "/ui/tokens/new".to_owned(),
            save: Some("Create token"),
            wrong,
        },
        frame,
    })
}

/// `POST /ui/tokens/new`
pub(crate) async fn create(FromState(app): FromState<App>, viewer: Viewer, posted: FormBody) -> Page {
    match make(&app, &viewer, &posted).await {
        Ok((token, secret)) => made(&app, &viewer, &token, &secret).await,
        Err(problem) if problem.kind == ProblemKind::Invalid => {
            show(&app, &viewer, &posted, Some(Wrong::of(&problem, &FIELDS))).await
        }
        Err(problem) => Err(problem.into()),
    }
}

async fn make(app: &App, viewer: &Viewer, posted: &FormBody) -> Result<(Token, TokenSecret), Problem> {
    let caller = &viewer.caller;
    let name = posted.text("name").filter(|name| name.chars().count() <= 200);
    let name = name.ok_or_else(|| Problem::invalid("/name", "must have 1 to 200 characters"))?;
    let role: Role = posted
        .get("role")
        .unwrap_or_default()
        .parse()
        .map_err(|()| Problem::invalid("/role", "is not a known role"))?;
    let expires_at = posted
        .text("expires")
        .map(instant)
        .transpose()
        .map_err(|wrong| Problem::invalid("/expires", wrong))?;
    caller.check_grant(role, None)?;
    check_future(expires_at)?;
    caller.check_expiry(expires_at)?;
    let (tenant, kind) = match role {
        Role::SuperAdmin => (INSTALLATION, TokenKind::Admin),
        Role::Worker => (caller.tenant(), TokenKind::Worker),
        Role::Viewer | Role::Operator | Role::TenantAdmin => (caller.tenant(), TokenKind::Api),
    };
    let secret = TokenSecret::generate(kind);
    let new = NewToken {
        id: secret.id().to_owned(),
        kind: kind.as_str().to_owned(),
        name: name.to_owned(),
        role: role.to_string(),
        scopes: None,
        created_by: caller.name(),
        expires_at,
    };
    let acting = app.queue().act(caller.global_reach(), &caller.actor()).await?;
    let token = acting.create_token(tenant, &new, &secret.hash()).await.map_err(creator_problem)?;
    acting.commit().await?;
    app.authenticator().remember_token(secret.id()).await;
    Ok((token, secret))
}

#[derive(Template)]
#[template(path = "token_secret.html")]
struct SecretPage {
    frame: Frame,
    about: String,
    secret: String,
}

async fn made(app: &App, viewer: &Viewer, token: &Token, secret: &TokenSecret) -> Page {
    let mut frame = viewer.frame(app, Section::Tokens).await?;
    // A refresh would fetch the page without the secret.
    frame.is_live = false;
    let about = format!("{}, {}", token.name, role_name(&token.role));
    page(&SecretPage { frame, about, secret: secret.expose() })
}

/// `POST /ui/tokens`: revokes a token.
pub(crate) async fn revoke(FromState(app): FromState<App>, viewer: Viewer, posted: FormBody) -> Page {
    let id = posted.get("revoke").unwrap_or_default();
    let is_super = viewer.caller.role == Role::SuperAdmin;
    let named = posted.get("of").and_then(|id| Uuid::try_parse(id).ok());
    let tenant = named.filter(|_| is_super).unwrap_or_else(|| viewer.caller.tenant());
    let acting = app.queue().act(viewer.caller.global_reach(), &viewer.caller.actor()).await?;
    viewer.caller.check_revoke(&acting.token(id).await?)?;
    let token = acting.revoke_token(tenant, id).await?;
    acting.commit().await?;
    app.authenticator().forget(&token.id);
    Ok(back("/ui/tokens", "succeeded", format!("Revoked token {}.", token.name)))
}
