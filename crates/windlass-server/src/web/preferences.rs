//! The preferences of a viewer, stored in the browser.

use axum::extract::State as FromState;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Redirect, Response};
use windlass::admin::Reach;

use super::form_body::FormBody;
use super::viewer::theme;
use crate::auth::Permission;
use crate::http::App;

/// `GET /` and `GET /ui`: redirects to the start page. For a super-admin who has not chosen a tenant, that is the overview
/// of all tenants: the default tenant may have no jobs.
pub(crate) async fn home(FromState(app): FromState<App>, request: Parts) -> Redirect {
    let found = app.authenticator().authenticate(&request).await;
    let sees_all = found.is_ok_and(|found| {
        matches!(found.caller.wide_reach(), Reach::Everything) && found.caller.may(Permission::Administer)
    });
    Redirect::to(if sees_all { "/ui/overview" } else { "/ui/jobs" })
}

/// `POST /ui/theme`: toggles between light and dark, for browsers without scripts.
pub(crate) async fn turn_theme(headers: HeaderMap, _: FormBody) -> Response {
    let next = if theme(&headers) == Some("dark") { "light" } else { "dark" };
    let from = headers
        .get(header::REFERER)
        .and_then(|from| from.to_str().ok())
        .and_then(|from| from.find("/ui/").map(|at| &from[at..]));
    let to = from.filter(|address| super::page::is_own(address)).unwrap_or("/ui/jobs");
    let mut response = Redirect::to(to).into_response();
    let cookie = format!("windlass_theme={next}; Path=/ui; Max-Age=31536000; SameSite=Lax");
    if let Ok(cookie) = HeaderValue::from_str(&cookie) {
        response.headers_mut().append(header::SET_COOKIE, cookie);
    }
    response
}
