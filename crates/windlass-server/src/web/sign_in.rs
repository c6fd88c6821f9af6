//! Signing in and out. Sessions themselves are in `auth::session`.

use askama::Template;
use axum::extract::State as FromState;
use axum::http::{HeaderMap, HeaderValue, Uri, header};
use axum::response::{IntoResponse, Redirect, Response};
use serde::Deserialize;

use super::assets;
use super::form_body::FormBody;
use super::page::{Page, is_own, page, refused_form, sentence};
use super::query::encode_into;
use super::url_parameters::UiQuery;
use super::viewer::theme;
use crate::auth::Secret;
use crate::auth::session;
use crate::http::{App, ProblemKind};

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
pub(crate) struct WantedPage {
    #[serde(default)]
    next: String,
}

/// Redirects a viewer who is not signed in to the sign-in page, and from there back to the requested page.
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
pub(crate) async fn form(headers: HeaderMap, UiQuery(wanted): UiQuery<WantedPage>) -> Page {
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
    headers: HeaderMap,
    from: session::From,
    posted: FormBody,
) -> Page {
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
            let next = posted.get("next").filter(|next| is_own(next)).unwrap_or("/ui");
            Ok(with_cookie(Redirect::to(next).into_response(), cookie))
        }
        Err(problem) if problem.kind.is_correctable() => {
            let response = page(&SignInPage {
                theme: theme(&headers),
                css: assets::css_address(),
                wrong: Some(if problem.kind == ProblemKind::Unauthorized {
                    "Incorrect email, password, or token.".to_owned()
                } else {
                    sentence(&problem.detail)
                }),
                email: email.to_owned(),
                next: posted.get("next").unwrap_or_default().to_owned(),
                is_token: token.is_some(),
            })?;
            Ok(refused_form(response, &problem))
        }
        Err(problem) => Err(problem.into()),
    }
}

/// `POST /ui/sign-out`
pub(crate) async fn leave(FromState(app): FromState<App>, from: session::From, _: FormBody) -> Page {
    let cookie = session::sign_out(&app, &from).await?;
    Ok(with_cookie(Redirect::to("/ui/sign-in").into_response(), cookie))
}

pub(crate) fn with_cookie(mut response: Response, cookie: HeaderValue) -> Response {
    response.headers_mut().append(header::SET_COOKIE, cookie);
    response
}
