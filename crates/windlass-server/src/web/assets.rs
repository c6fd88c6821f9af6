//! The stylesheet, the script and the logo, embedded in the binary. The URLs of the stylesheet and the script contain a hash of
//! their content, so that browsers can cache them for a year and never show an outdated one. That of the logo does not.

use std::sync::LazyLock;

use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use sha2::{Digest, Sha256};

use super::problem::PageProblem;
use super::url_parameters::PathSegment;
use crate::http::{Prebuilt, Problem};

const CSS: &str = include_str!("../../assets/windlass.css");
const JS: &str = include_str!("../../assets/windlass.js");
const MARK: &str = include_str!("../../assets/mark.svg");

static CSS_HASH: LazyLock<String> = LazyLock::new(|| hash(CSS));
static JS_HASH: LazyLock<String> = LazyLock::new(|| hash(JS));

static CSS_FILE: LazyLock<Prebuilt> =
    LazyLock::new(|| Prebuilt::new(CSS, "text/css; charset=utf-8").immutable());
static JS_FILE: LazyLock<Prebuilt> =
    LazyLock::new(|| Prebuilt::new(JS, "text/javascript; charset=utf-8").immutable());
static MARK_FILE: LazyLock<Prebuilt> = LazyLock::new(|| Prebuilt::new(MARK, "image/svg+xml"));

pub(crate) fn css_address() -> String {
    format!("/ui/assets/windlass.css?v={}", *CSS_HASH)
}

pub(crate) fn js_address() -> String {
    format!("/ui/assets/windlass.js?v={}", *JS_HASH)
}

/// `GET /ui/assets/{name}`
pub(crate) async fn asset(PathSegment(name): PathSegment, headers: HeaderMap) -> Response {
    let file = match name.as_str() {
        "windlass.css" => &*CSS_FILE,
        "windlass.js" => &*JS_FILE,
        "mark.svg" => &*MARK_FILE,
        _ => return PageProblem(Problem::not_found("file")).into_response(),
    };
    file.respond(&headers)
}

fn hash(text: &str) -> String {
    Sha256::digest(text.as_bytes()).iter().take(6).map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests;
