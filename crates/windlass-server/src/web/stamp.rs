//! Every form that changes something contains the tenant for which it was rendered. While a page is open, the user may
//! switch to another tenant in a second tab, or lose the membership: the forms of such a page are rejected.
//!
//! The field is added here, to every form of every page when the response is sent, so that no page can omit it.
//! `Posted`, which every handler of a form uses, checks it.

use askama::Template;
use axum::body::{Body, to_bytes};
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse as _, Response};

use super::page::PageProblem;
use super::posted::Posted;
use crate::auth::Caller;
use crate::http::{Problem, ProblemKind};

const FIELD: &str = "acting_for";

/// The field itself.
#[derive(Template)]
#[template(path = "parts/stamp.html")]
struct Stamp<'a> {
    field: &'static str,
    tenant: &'a str,
}

/// Adds the caller's tenant to the forms of a page. Other responses are returned unchanged.
pub(crate) async fn stamp(response: Response, caller: &Caller) -> Response {
    let is_page = |kind: &HeaderValue| kind.as_bytes().starts_with(b"text/html");
    if !response.headers().get(header::CONTENT_TYPE).is_some_and(is_page) {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    let html = to_bytes(body, usize::MAX).await.ok().and_then(|bytes| String::from_utf8(bytes.into()).ok());
    let Some(html) = html.and_then(|html| stamped(&html, &caller.tenant().to_string()).ok()) else {
        return PageProblem(Problem::of(ProblemKind::Internal, "the error was logged")).into_response();
    };
    parts.headers.remove(header::CONTENT_LENGTH);
    Response::from_parts(parts, Body::from(html))
}

/// Text from users is escaped, so every form in a page comes from a template.
fn stamped(html: &str, tenant: &str) -> askama::Result<String> {
    let stamp = Stamp { field: FIELD, tenant }.render()?;
    let mut out = String::with_capacity(html.len() + 1024);
    let mut rest = html;
    while let Some(start) = rest.find("<form") {
        let end = rest[start..].find('>').map_or(rest.len(), |end| start + end + 1);
        let (before, after) = rest.split_at(end);
        out.push_str(before);
        if before[start..].contains("method=\"post\"") {
            out.push_str(&stamp);
        }
        rest = after;
    }
    out.push_str(rest);
    Ok(out)
}

/// Rejects a form that was rendered for a tenant other than the current one of the caller.
pub(super) fn check(posted: &Posted, caller: &Caller) -> Result<(), Problem> {
    if posted.get(FIELD) == Some(caller.tenant().to_string().as_str()) {
        return Ok(());
    }
    let detail =
        "this page was opened for a tenant that is no longer selected; nothing was changed; reload the page";
    Err(Problem::of(ProblemKind::Conflict, detail))
}

#[cfg(test)]
mod tests {
    use super::stamped;

    #[test]
    fn every_form_that_posts_is_stamped_and_nothing_else() {
        let html = "<form action=\"/a\"></form><form class=\"x\" method=\"post\" action=\"/b\"><b>&lt;form method=\"post\"&gt;</b></form>";
        let expected = "<form action=\"/a\"></form><form class=\"x\" method=\"post\" action=\"/b\"><input type=\"hidden\" name=\"acting_for\" value=\"7\"><b>&lt;form method=\"post\"&gt;</b></form>";
        assert_eq!(stamped(html, "7").unwrap(), expected);
        assert_eq!(stamped("no form", "7").unwrap(), "no form");
    }
}
