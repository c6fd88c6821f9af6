//! Signing in and out, and choosing the tenant to look at. What a session is, and who may have one, is `auth::session`'s.

use std::net::SocketAddr;

use askama::Template;
use axum::extract::{ConnectInfo, Query, State as FromState};
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use axum::response::{IntoResponse, Redirect, Response};
use serde::Deserialize;
use uuid::Uuid;

use super::assets;
use super::page::{Page, back, is_own, page, sentence};
use super::posted::Posted;
use super::query::encode_into;
use super::viewer::{Viewer, theme};
use crate::auth::{Secret, session};
use crate::http::{App, Problem};

#[derive(Template)]
#[template(path = "sign_in.html")]
struct SignInPage {
    theme: Option<&'static str>,
    css: String,
    wrong: Option<String>,
    email: String,
    next: String,
    is_token: bool,
}

#[derive(Debug, Default, Deserialize)]
pub(crate) struct Wanted {
    #[serde(default)]
    next: String,
}

/// For whoever has not signed in: there, and afterwards back to what they wanted.
pub(crate) fn to_sign_in(wanted: &Uri) -> Redirect {
    let wanted = wanted.path_and_query().map_or("", |wanted| wanted.as_str());
    let mut address = "/ui/sign-in".to_owned();
    if is_own(wanted) && wanted != "/ui/jobs" {
        address.push_str("?next=");
        encode_into(&mut address, wanted);
    }
    Redirect::to(&address)
}

/// `GET /ui/sign-in`
pub(crate) async fn form(headers: HeaderMap, Query(wanted): Query<Wanted>) -> Page {
    page(&SignInPage {
        theme: theme(&headers),
        css: assets::css_address(),
        wrong: None,
        email: String::new(),
        next: wanted.next,
        is_token: false,
    })
}

/// `POST /ui/sign-in`
pub(crate) async fn enter(
    FromState(app): FromState<App>,
    ConnectInfo(from): ConnectInfo<SocketAddr>,
    headers: HeaderMap,
    posted: Posted,
) -> Page {
    let user_agent = headers.get(header::USER_AGENT).and_then(|agent| agent.to_str().ok()).map(str::to_owned);
    let from = session::From { address: Some(from.ip().to_string()), user_agent };
    let token = posted.text("token");
    let email = posted.text("email").unwrap_or_default();
    let begun = match token {
        Some(token) => session::sign_in_with_token(&app, &Secret::new(token), &from).await,
        None => {
            session::sign_in(&app, email, Secret::new(posted.get("password").unwrap_or_default()), &from)
                .await
        }
    };
    match begun {
        Ok(cookie) => {
            let next = posted.get("next").filter(|next| is_own(next)).unwrap_or("/ui/jobs");
            Ok(with_cookie(Redirect::to(next).into_response(), cookie))
        }
        Err(problem) if problem.kind.status().is_client_error() => {
            let mut answer = page(&SignInPage {
                theme: theme(&headers),
                css: assets::css_address(),
                wrong: Some(sentence(&problem.detail)),
                email: email.to_owned(),
                next: posted.get("next").unwrap_or_default().to_owned(),
                is_token: token.is_some(),
            })?;
            *answer.status_mut() = StatusCode::UNPROCESSABLE_ENTITY;
            Ok(answer)
        }
        Err(problem) => Err(problem.into()),
    }
}

/// `POST /ui/sign-out`
pub(crate) async fn leave(FromState(app): FromState<App>, headers: HeaderMap, _: Posted) -> Page {
    let cookie = session::sign_out(&app, &headers).await?;
    Ok(with_cookie(Redirect::to("/ui/sign-in").into_response(), cookie))
}

/// `POST /ui/tenant`: looks at another tenant.
pub(crate) async fn switch(
    FromState(app): FromState<App>,
    viewer: Viewer,
    headers: HeaderMap,
    posted: Posted,
) -> Page {
    let tenant = posted.get("tenant").and_then(|id| Uuid::try_parse(id).ok());
    let tenant = tenant.ok_or_else(|| Problem::invalid("/tenant", "must be a tenant's id"))?;
    session::choose_tenant(&app, &headers, tenant).await?;
    let looking = app.queue().look(viewer.caller.wide_reach()).await?;
    let name = looking.tenant_names(Some(&[tenant]), 1).await?.pop();
    looking.end().await?;
    let name = name.map_or_else(|| "another tenant".to_owned(), |(_, name)| name);
    Ok(back("/ui/jobs", "succeeded", format!("You look at {name} now.")))
}

fn with_cookie(mut response: Response, cookie: HeaderValue) -> Response {
    response.headers_mut().append(header::SET_COOKIE, cookie);
    response
}
