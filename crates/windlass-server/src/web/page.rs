//! Turns a template into a response, and a failure into a page that shows what happened and what to do.

use askama::Template;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{Html, IntoResponse, Redirect, Response};

use super::assets;
use super::flash;
use super::frame::Flash;
use crate::auth::Permission;
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

fn dress(mut response: Response) -> Response {
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

/// A problem, shown as a page.
#[derive(Debug)]
pub(crate) struct PageProblem(pub(crate) Problem);

impl<E: Into<Problem>> From<E> for PageProblem {
    fn from(error: E) -> Self {
        Self(error.into())
    }
}

#[derive(Template)]
#[template(path = "problem.html")]
struct ProblemPage {
    theme: Option<&'static str>,
    css: String,
    status: u16,
    title: &'static str,
    detail: String,
    advice: &'static str,
    may_retry: bool,
    /// For the holder of a link, who may not be signed in and may not know about tenants.
    is_link: bool,
}

impl IntoResponse for PageProblem {
    fn into_response(self) -> Response {
        drawn(self.0, None, false)
    }
}

/// The page for an invalid or expired link.
pub(crate) fn dead_link(problem: Problem, theme: Option<&'static str>) -> Response {
    let is_link = problem.kind == ProblemKind::NotFound;
    without_referrer(drawn(problem, theme, is_link))
}

fn drawn(problem: Problem, theme: Option<&'static str>, is_link: bool) -> Response {
    let status = problem.kind.status();
    let (advice, may_retry) = if is_link { ("", false) } else { advice(&problem) };
    let template = ProblemPage {
        theme,
        css: assets::css_address(),
        status: status.as_u16(),
        title: if is_link { "This link is not valid" } else { title(problem.kind) },
        detail: sentence(&problem.detail),
        advice,
        may_retry,
        is_link,
    };
    let Ok(html) = template.render() else { return problem.into_response() };
    let mut response = dress((status, Html(html)).into_response());
    let is_busy = status == StatusCode::SERVICE_UNAVAILABLE;
    if let Some(seconds) = problem.retry_after.or(is_busy.then_some(2)) {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

/// The title of the error page.
const fn title(kind: ProblemKind) -> &'static str {
    match kind {
        ProblemKind::Unauthorized => "Sign in required",
        ProblemKind::Forbidden => "You don't have access",
        ProblemKind::NotFound => "Not found",
        ProblemKind::Conflict | ProblemKind::LeaseLost | ProblemKind::PreconditionFailed => "Conflict",
        ProblemKind::BadRequest | ProblemKind::UnsupportedMediaType | ProblemKind::Invalid => {
            "Invalid request"
        }
        ProblemKind::MethodNotAllowed => "Method not allowed",
        ProblemKind::BodyTooLarge => "Request too large",
        ProblemKind::TooManyRequests => "Too many requests",
        ProblemKind::QuotaReached => "Quota reached",
        ProblemKind::Internal => "Internal error",
        ProblemKind::Unavailable => "Temporarily unavailable",
        ProblemKind::Contention => "Concurrent change",
        ProblemKind::RequestTimeout | ProblemKind::Timeout => "Timeout",
    }
}

/// The detail of the problem of an address that no page has.
pub(crate) const NO_PAGE: &str = "there is no page at this address";

/// What to do about the problem, and whether a retry may help.
fn advice(problem: &Problem) -> (&'static str, bool) {
    match problem.kind {
        ProblemKind::NotFound if problem.detail == NO_PAGE => ("", false),
        // No tenant admin can grant this permission.
        ProblemKind::Forbidden if problem.detail == Permission::Administer.required() => {
            ("Only super-admins can open this page.", false)
        }
        ProblemKind::NotFound => ("It may have been deleted, or it may belong to another tenant.", false),
        ProblemKind::Forbidden => {
            ("Ask a tenant admin for a role with this permission, or switch tenants.", false)
        }
        ProblemKind::Conflict | ProblemKind::PreconditionFailed => {
            ("Reload the page to see the current state.", false)
        }
        ProblemKind::Unavailable | ProblemKind::Contention | ProblemKind::TooManyRequests => {
            ("Nothing was changed. Try again in a moment.", true)
        }
        // An action on many jobs may have been done in part.
        ProblemKind::Timeout => ("Check what was changed before you try again.", true),
        ProblemKind::Internal => {
            ("Nothing was changed. If it happens again, search the server log for the request ID.", true)
        }
        _ => ("Go back and fix it.", false),
    }
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
