//! A failure as a page that shows what happened and what to do.

use askama::Template;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{Html, IntoResponse, Response};

use super::assets;
use super::page::{dress, sentence, without_referrer};
use crate::auth::Permission;
use crate::http::{Problem, ProblemKind};

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
