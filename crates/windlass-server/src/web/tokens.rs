//! API tokens. A secret is shown once, on the page that answers its making, and nowhere else.

use axum::extract::State as FromState;
use windlass::{Act, INSTALLATION, NewToken, Token};

use super::asked::Query;
use super::frame::Section;
use super::html::{Html, escape};
use super::list::{Cell, Fields, FormPage, Link, ListPage, ListRow, badge, columns};
use super::page::{Page, back, page, sentence};
use super::posted::Posted;
use super::query::instant;
use super::search::Search;
use super::viewer::Viewer;
use super::when::When;
use crate::auth::{Kind, Role, TokenSecret};
use crate::http::{App, Problem, ProblemKind};

/// `GET /ui/tokens`
pub(crate) async fn list(
    FromState(app): FromState<App>,
    viewer: Viewer,
    Query(search): Query<Search>,
) -> Page {
    let frame = viewer.frame(&app, Section::Tokens).await?;
    let looking = app.queue().look(viewer.caller.wide_reach()).await?;
    let tokens = looking.tokens(None).await?;
    looking.end().await?;
    let found = search.among(&tokens, |token, wanted| {
        token.name.to_lowercase().contains(wanted) || token.id.contains(wanted)
    });
    let now = frame.now;
    let row = |token: &Token| {
        let over = token.expires_at.is_some_and(|at| at <= now);
        let (role, shape, word) = match (token.revoked_at.is_some(), over) {
            (true, _) => ("canceled", "dash", "Revoked"),
            (false, true) => ("canceled", "clock", "Expired"),
            (false, false) => ("succeeded", "tick", "Valid"),
        };
        let revoke = if token.revoked_at.is_none() && !over {
            format!(
                "<form class=\"inline\" method=\"post\" action=\"/ui/tokens\"><input type=\"hidden\" name=\"of\" value=\"{}\"><button class=\"small danger\" name=\"revoke\" value=\"{}\" data-confirm=\"Revoke this token?\" data-detail=\"{}\" data-yes=\"Revoke token\">Revoke</button></form>",
                token.tenant_id,
                escape(&token.id),
                escape(&format!(
                    "Whoever uses {} is refused within five seconds. It cannot be taken back.",
                    token.name
                ))
            )
        } else {
            String::new()
        };
        let when = |at: Option<jiff::Timestamp>, none: &str| {
            at.map_or_else(|| Html(none.to_owned()), |at| When::new(at, now).into())
        };
        ListRow {
            id: format!("token-{}", escape(&token.id)),
            cells: vec![
                Cell::text(&token.name),
                Cell::html(badge(role, shape, word)),
                Cell::code(&token.id),
                Cell::text(&token.role.replace('_', " ")).named("role"),
                Cell::text(
                    &token
                        .scopes
                        .as_ref()
                        .map_or_else(|| "all of its role".to_owned(), |scopes| scopes.join(", ")),
                )
                .class("minor"),
                Cell::html(when(token.last_used_at, "never")).named("used"),
                Cell::html(when(token.expires_at, "never")).named("expires"),
                Cell::acts(revoke),
            ],
        }
    };
    page(&ListPage {
        title: "Tokens",
        aside: Search::aside(found.len(), "for programs; people sign in"),
        act: Some(Link { href: "/ui/tokens/new", word: "New token" }),
        before: search.form(tokens.len(), "/ui/tokens", "Find a token", "Name or id"),
        columns: columns(&["Name", "State", "Id", "Role", "May", "Last used", "Expires", "!Actions"]),
        rows: found.iter().take(Search::SHOWN).map(|token| row(token)).collect(),
        empty: ("No tokens", "Make one for a program that enqueues jobs or runs them."),
        next: None,
        frame,
    })
}

/// `GET /ui/tokens/new`
pub(crate) async fn new(FromState(app): FromState<App>, viewer: Viewer) -> Page {
    show(&app, &viewer, &Posted::default(), None).await
}

async fn show(app: &App, viewer: &Viewer, typed: &Posted, wrong: Option<String>) -> Page {
    let frame = viewer.frame(app, Section::Tokens).await?;
    let roles = [
        ("viewer", "Viewer: looks"),
        ("operator", "Operator: also enqueues, cancels, retries"),
        ("tenant_admin", "Tenant admin: also triggers, tokens, deleting"),
        ("worker", "Worker: claims and settles jobs"),
        ("super_admin", "Super-admin: everything, every tenant"),
    ];
    let roles: Vec<(String, String)> = roles
        .into_iter()
        .filter(|(role, _)| role.parse().is_ok_and(|role| viewer.caller.check_grant(role, None).is_ok()))
        .map(|(role, words)| (role.to_owned(), words.to_owned()))
        .collect();
    let text = |name: &str| typed.get(name).unwrap_or_default().to_owned();
    let chosen = typed.get("role").unwrap_or("operator");
    let fields = Fields::default()
        .input(("name", "Name"), "text!", &text("name"), "What it is for, for example nightly sync.")
        .select(("role", "Role"), &roles, chosen, "")
        .input(("expires", "Expires (UTC)"), "datetime-local", &text("expires"), "Never if left empty.");
    page(&FormPage {
        title: "New token".to_owned(),
        up: ("/ui/tokens", "Tokens"),
        head: Html::default(),
        wrong,
        before: Html::default(),
        action: "/ui/tokens/new".to_owned(),
        fields: fields.html(),
        save: "Make token",
        others: Vec::new(),
        beside: Html(
            "<p class=\"muted\">The secret is shown once, after this step. Only its hash is kept.</p>"
                .to_owned(),
        ),
        after: Html::default(),
        frame,
    })
}

/// `POST /ui/tokens/new`
pub(crate) async fn create(FromState(app): FromState<App>, viewer: Viewer, posted: Posted) -> Page {
    match make(&app, &viewer, &posted).await {
        Ok((token, secret)) => made(&app, &viewer, &token, &secret).await,
        Err(problem) if problem.kind == ProblemKind::Invalid => {
            show(&app, &viewer, &posted, Some(sentence(&problem.detail))).await
        }
        Err(problem) => Err(problem.into()),
    }
}

async fn make(app: &App, viewer: &Viewer, posted: &Posted) -> Result<(Token, TokenSecret), Problem> {
    let caller = &viewer.caller;
    let name = posted.text("name").filter(|name| name.chars().count() <= 200);
    let name = name.ok_or_else(|| Problem::invalid("/name", "must have 1 to 200 characters"))?;
    let role: Role = posted
        .get("role")
        .unwrap_or_default()
        .parse()
        .map_err(|()| Problem::invalid("/role", "is not known"))?;
    let expires_at = posted
        .text("expires")
        .map(instant)
        .transpose()
        .map_err(|wrong| Problem::invalid("/expires", wrong))?;
    caller.check_grant(role, None)?;
    caller.check_expiry(expires_at)?;
    let (tenant, kind) = match role {
        Role::SuperAdmin => (INSTALLATION, Kind::Admin),
        Role::Worker => (caller.tenant(), Kind::Worker),
        Role::Viewer | Role::Operator | Role::TenantAdmin => (caller.tenant(), Kind::Api),
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
    let token = acting.create_token(tenant, &new, &secret.hash()).await?;
    acting.commit(&Act::new("token.create", &token.id).after(&token)).await?;
    Ok((token, secret))
}

async fn made(app: &App, viewer: &Viewer, token: &Token, secret: &TokenSecret) -> Page {
    let mut frame = viewer.frame(app, Section::Tokens).await?;
    // The page would be fetched again, and the secret with it gone.
    frame.is_live = false;
    let before = format!(
        "<div class=\"note is-succeeded\"><svg class=\"mark\" aria-hidden=\"true\"><use href=\"#s-tick\"/></svg><div><h2>Copy it now: it is not shown again</h2><p class=\"muted\"><bdi>{}</bdi>, {}</p><br><div class=\"code\"><pre id=\"secret\" tabindex=\"0\">{}</pre><button class=\"small copy\" type=\"button\" data-copy-from=\"secret\">Copy</button></div><div class=\"acts\"><a class=\"button\" href=\"/ui/tokens\">All tokens</a></div></div></div>",
        escape(&token.name),
        escape(&token.role.replace('_', " ")),
        escape(&secret.expose())
    );
    page(&ListPage {
        title: "New token",
        aside: String::new(),
        act: None,
        before: Html(before),
        columns: Vec::new(),
        rows: Vec::new(),
        empty: ("That is all", "Its name, role and last use stay on the page of tokens."),
        next: None,
        frame,
    })
}

/// `POST /ui/tokens`: revokes one.
pub(crate) async fn revoke(FromState(app): FromState<App>, viewer: Viewer, posted: Posted) -> Page {
    let id = posted.get("revoke").unwrap_or_default();
    let is_super = viewer.caller.role == Role::SuperAdmin;
    let named = posted.get("of").and_then(|id| uuid::Uuid::try_parse(id).ok());
    let tenant = named.filter(|_| is_super).unwrap_or_else(|| viewer.caller.tenant());
    let acting = app.queue().act(viewer.caller.global_reach(), &viewer.caller.actor()).await?;
    let token = acting.revoke_token(tenant, id).await?;
    acting.commit(&Act::new("token.revoke", &token.id).after(&token)).await?;
    app.authenticator().forget(&token.id);
    Ok(back("/ui/tokens", "succeeded", format!("Revoked the token {}.", token.name)))
}
