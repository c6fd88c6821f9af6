//! Turns a template into a response.

use askama::Template;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{Html, IntoResponse, Redirect, Response};

use super::flash;
use super::frame::Flash;
use super::problem::PageProblem;
use crate::http::{Problem, ProblemKind};

/// Only our own stylesheet, script and images; nothing inline; no other site can embed our pages or receive our forms.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                      form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// The response of a page handler.
pub(crate) type Page = Result<Response, PageProblem>;

/// A complete page.
pub(crate) fn page(template: &impl Template) -> Page {
    let html = template.render().map_err(|error| {
        tracing::error!(%error, "a page could not be rendered");
        PageProblem(Problem::of(ProblemKind::Internal, "the error was logged"))
    })?;
    Ok(dress(Html(html).into_response()))
}

/// Sets the headers that every page has.
pub(super) fn dress(mut response: Response) -> Response {
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    // The message about the last action is shown once.
    headers.append(header::SET_COOKIE, HeaderValue::from_static(flash::CLEAR));
    response
}

/// A form that is shown again with an error. Never 401: the form asks for the credential, not the browser.
pub(crate) fn refused_form(mut response: Response, problem: &Problem) -> Response {
    *response.status_mut() = match problem.kind.status() {
        StatusCode::UNAUTHORIZED => StatusCode::UNPROCESSABLE_ENTITY,
        status => status,
    };
    if let Some(seconds) = problem.retry_after {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

/// For a page whose URL is secret: the requests that it causes reveal only the name of this server. (`no-referrer`
/// would make browsers send `Origin: null` with its forms.)
pub(crate) fn without_referrer(mut response: Response) -> Response {
    response.headers_mut().insert(header::REFERRER_POLICY, HeaderValue::from_static("strict-origin"));
    response
}

/// After an action: redirects to a page that shows the result once. A URL from a form is used only if it is one of our
/// own pages.
pub(crate) fn back(to: &str, role: &'static str, text: impl Into<String>) -> Response {
    let to = if is_own(to) { to } else { "/ui/jobs" };
    let cookie = flash::cookie(&Flash { role, text: text.into() });
    let mut response = Redirect::to(to).into_response();
    if let Ok(cookie) = HeaderValue::from_str(&cookie) {
        response.headers_mut().append(header::SET_COOKIE, cookie);
    }
    response
}

/// `/ui/…` without anything that a browser would interpret as another host.
pub(crate) fn is_own(address: &str) -> bool {
    address.starts_with("/ui/")
        && !address.contains("//")
        && address.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\')
}

/// A message of the library as a sentence.
pub(crate) fn sentence(message: &str) -> String {
    let is_whole = message.is_empty() || message.ends_with(['.', '!', '?', ')']);
    capital(message) + if is_whole { "" } else { "." }
}

/// Changes the first letter to upper case.
pub(crate) fn capital(words: &str) -> String {
    let mut letters = words.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::{is_own, sentence};

    #[test]
    fn redirects_lead_only_to_our_own_pages() {
        assert!(is_own("/ui/jobs?status=failed&tag=a%20b"));
        let foreign = [
            "//evil.test/ui/",
            "https://evil.test",
            "/ui/\\evil",
            "/ui//evil.test",
            "javascript:1",
            "/api/v1",
            "/ui/\r\nx",
            "",
        ];
        assert!(foreign.iter().all(|address| !is_own(address)));
    }

    #[test]
    fn a_message_becomes_a_sentence() {
        assert_eq!(sentence("payload: is too large"), "Payload: is too large.");
        assert_eq!(sentence(""), "");
    }
}
