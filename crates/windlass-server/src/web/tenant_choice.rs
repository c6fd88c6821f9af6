//! Switching tenants: from the top bar of every page, and on this page for a session without a valid tenant.

use askama::Template;
use axum::extract::State as FromState;
use axum::http::HeaderMap;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Redirect};
use uuid::Uuid;
use windlass::admin::Reach;

use super::assets;
use super::form_body::FormBody;
use super::frame::TenantName;
use super::page::{Page, back, page};
use super::viewer::theme;
use crate::auth::session;
use crate::http::{App, Problem, ProblemKind};

#[derive(Template)]
#[template(path = "tenant_choice.html")]
struct ChoicePage {
    theme: Option<&'static str>,
    css: String,
    who: String,
    /// The user is no longer a member of the previously selected tenant.
    was_lost: bool,
    tenants: Vec<TenantName>,
}

/// `GET /ui/tenant`
pub(crate) async fn show(FromState(app): FromState<App>, headers: HeaderMap, from: session::From) -> Page {
    let Some((session, _)) = session::signed_in(&app, &from).await? else {
        return Ok(Redirect::to("/ui/sign-in").into_response());
    };
    // A token belongs to a tenant, and a super-admin has access to all.
    let Some(who) = session.email.filter(|_| !session.is_super_admin) else {
        return Ok(Redirect::to("/ui/jobs").into_response());
    };
    let chosen = session.chosen_tenant;
    let was_lost = chosen.is_some() && session.members.iter().all(|member| Some(member.tenant_id) != chosen);
    let tenants = session.members.into_iter();
    page(&ChoicePage {
        theme: theme(&headers),
        css: assets::css_address(),
        who,
        was_lost,
        tenants: tenants.map(|member| TenantName { id: member.tenant_id, name: member.name }).collect(),
    })
}

/// `POST /ui/tenant`
pub(crate) async fn choose(
    FromState(app): FromState<App>,
    request: Parts,
    from: session::From,
    posted: FormBody,
) -> Page {
    let Some((session, hash)) = session::signed_in(&app, &from).await? else {
        return Ok(Redirect::to("/ui/sign-in").into_response());
    };
    let tenant = posted.get("tenant").and_then(|id| Uuid::try_parse(id).ok());
    let tenant = tenant.ok_or_else(|| Problem::invalid("/tenant", "must be a tenant ID"))?;
    let own = session.members.iter().find(|member| member.tenant_id == tenant);
    let name = match own.map(|member| member.name.clone()) {
        Some(name) => Some(name),
        None => of_a_super_admin(&app, &request, tenant).await?,
    };
    let name = name.ok_or_else(|| {
        Problem::of(ProblemKind::Forbidden, "you are not a member of this tenant; nothing was changed")
    })?;
    session::choose_tenant(&app, (&session, &hash), &from, tenant).await?;
    Ok(back("/ui/jobs", "succeeded", format!("Switched to {name}.")))
}

/// The name of the tenant, if the caller is a super-admin.
async fn of_a_super_admin(app: &App, request: &Parts, tenant: Uuid) -> Result<Option<String>, Problem> {
    match app.authenticator().authenticate(request).await {
        Ok(found) if found.caller.may_choose_any_tenant() => {}
        _ => return Ok(None),
    }
    let reading = app.queue().read(Reach::Everything).await?;
    let name = reading.tenant_names(Some(&[tenant]), 1).await?.pop();
    reading.end().await?;
    Ok(name.map(|(_, name)| name))
}
