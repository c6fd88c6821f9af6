//! The page that a password reset link opens.

use askama::Template;
use axum::extract::State as FromState;
use axum::http::HeaderMap;
use windlass::internals::ResetOf;

use super::assets;
use super::form_body::FormBody;
use super::link::Link;
use super::page::{Page, page, refused_form, sentence, without_referrer};
use super::viewer::theme;
use crate::auth::session;
use crate::auth::{Secret, accounts};
use crate::http::App;

#[derive(Template)]
#[template(path = "password_reset.html")]
struct ResetPage {
    theme: Option<&'static str>,
    css: String,
    email: String,
    wrong: Option<String>,
    is_done: bool,
}

/// `GET /ui/password-resets/{secret}`
pub(crate) async fn show(link: Link<ResetOf>, headers: HeaderMap) -> Page {
    drawn(&headers, link.of.email, None, false)
}

fn drawn(headers: &HeaderMap, email: String, wrong: Option<String>, is_done: bool) -> Page {
    let css = assets::css_address();
    page(&ResetPage { theme: theme(headers), css, email, wrong, is_done }).map(without_referrer)
}

/// `POST /ui/password-resets/{secret}`
pub(crate) async fn set(
    FromState(app): FromState<App>,
    Link { secret, of }: Link<ResetOf>,
    headers: HeaderMap,
    from: session::From,
    posted: FormBody,
) -> Page {
    let new = Secret::new(posted.get("new_password").unwrap_or_default());
    match accounts::use_reset(&app, (&secret, &of), new, &from).await {
        Ok(()) => drawn(&headers, of.email, None, true),
        Err(problem) if !problem.errors.is_empty() => {
            let wrong = sentence(&problem.detail.replace('_', " "));
            Ok(refused_form(drawn(&headers, of.email, Some(wrong), false)?, &problem))
        }
        Err(problem) => Err(problem.into()),
    }
}
