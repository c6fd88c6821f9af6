//! The preferences of a viewer, stored in the browser.

use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Redirect, Response};

use super::posted::Posted;
use super::viewer::theme;

/// `GET /` and `GET /ui`: redirects to the start page.
pub(crate) async fn home() -> Redirect {
    Redirect::to("/ui/jobs")
}

/// `POST /ui/theme`: toggles between light and dark, for browsers without scripts.
pub(crate) async fn turn_theme(headers: HeaderMap, _: Posted) -> Response {
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
