//! Every form that changes something says for which tenant it was drawn. Somebody may look at another tenant in a second tab,
//! or lose a membership, while a page stays open: such a page acts on nothing.
//!
//! The field is put into every form of every page here, on the way out, so that no page can forget it; and looked at in
//! `Posted`, which every handler of a form takes.

use axum::body::{Body, to_bytes};
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse as _, Response};

use super::page::PageProblem;
use super::posted::Posted;
use crate::auth::Caller;
use crate::http::{Problem, ProblemKind};

const FIELD: &str = "acting_for";

/// Puts the caller's tenant into the forms of a page. What is no page goes out as it is.
pub(crate) async fn stamp(response: Response, caller: &Caller) -> Response {
    let is_page = |kind: &HeaderValue| kind.as_bytes().starts_with(b"text/html");
    if !response.headers().get(header::CONTENT_TYPE).is_some_and(is_page) {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    let html = match to_bytes(body, usize::MAX).await.map(|bytes| String::from_utf8(bytes.into())) {
        Ok(Ok(html)) => html,
        _ => {
            return PageProblem(Problem::of(ProblemKind::Internal, "the failure was logged")).into_response();
        }
    };
    parts.headers.remove(header::CONTENT_LENGTH);
    Response::from_parts(parts, Body::from(stamped(&html, &caller.tenant().to_string())))
}

/// Text of others is escaped, so a form in a page is one of ours.
fn stamped(html: &str, tenant: &str) -> String {
    let mut out = String::with_capacity(html.len() + 1024);
    let mut rest = html;
    while let Some(start) = rest.find("<form") {
        let end = rest[start..].find('>').map_or(rest.len(), |end| start + end + 1);
        let (before, after) = rest.split_at(end);
        out.push_str(before);
        if before[start..].contains("method=\"post\"") {
            out.push_str(&format!("<input type=\"hidden\" name=\"{FIELD}\" value=\"{tenant}\">"));
        }
        rest = after;
    }
    out.push_str(rest);
    out
}

/// Refuses a form that was drawn for another tenant than the one that its sender acts for now.
pub(super) fn check(posted: &Posted, caller: &Caller) -> Result<(), Problem> {
    if posted.get(FIELD) == Some(caller.tenant().to_string().as_str()) {
        return Ok(());
    }
    let detail = "this page was opened for another tenant than the one you look at now; nothing was changed; open the page again";
    Err(Problem::of(ProblemKind::Conflict, detail))
}

#[cfg(test)]
mod tests {
    use super::stamped;

    #[test]
    fn every_form_that_posts_is_stamped_and_nothing_else() {
        let html = "<form action=\"/a\"></form><form class=\"x\" method=\"post\" action=\"/b\"><b>&lt;form method=\"post\"&gt;</b></form>";
        let expected = "<form action=\"/a\"></form><form class=\"x\" method=\"post\" action=\"/b\"><input type=\"hidden\" name=\"acting_for\" value=\"7\"><b>&lt;form method=\"post\"&gt;</b></form>";
        assert_eq!(stamped(html, "7"), expected);
        assert_eq!(stamped("no form", "7"), "no form");
    }
}
