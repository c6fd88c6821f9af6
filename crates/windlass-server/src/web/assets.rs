//! The stylesheet, the script and the mark, inside the binary. Their addresses carry a hash of what they hold, so a browser
//! keeps them for a year and still never shows an old one.

use std::sync::LazyLock;

use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use sha2::{Digest, Sha256};

use super::asked::Segment;
use super::page::PageProblem;
use crate::http::Problem;

const CSS: &str = include_str!("../../assets/windlass.css");
const JS: &str = include_str!("../../assets/windlass.js");
const MARK: &str = include_str!("../../assets/mark.svg");

static CSS_HASH: LazyLock<String> = LazyLock::new(|| hash(CSS));
static JS_HASH: LazyLock<String> = LazyLock::new(|| hash(JS));
static MARK_HASH: LazyLock<String> = LazyLock::new(|| hash(MARK));

pub(crate) fn css_address() -> String {
    format!("/ui/assets/windlass.css?v={}", *CSS_HASH)
}

pub(crate) fn js_address() -> String {
    format!("/ui/assets/windlass.js?v={}", *JS_HASH)
}

/// `GET /ui/assets/{name}`
pub(crate) async fn asset(Segment(name): Segment, headers: HeaderMap) -> Response {
    let (kind, text, hash) = match name.as_str() {
        "windlass.css" => ("text/css; charset=utf-8", CSS, &*CSS_HASH),
        "windlass.js" => ("text/javascript; charset=utf-8", JS, &*JS_HASH),
        "mark.svg" => ("image/svg+xml", MARK, &*MARK_HASH),
        _ => return PageProblem(Problem::not_found("file")).into_response(),
    };
    let tag = format!("\"{hash}\"");
    let is_known = headers.get(header::IF_NONE_MATCH).is_some_and(|known| known.as_bytes() == tag.as_bytes());
    let about =
        [(header::ETAG, tag), (header::CACHE_CONTROL, "public, max-age=31536000, immutable".to_owned())];
    if is_known {
        return (StatusCode::NOT_MODIFIED, about).into_response();
    }
    (about, [(header::CONTENT_TYPE, kind), (header::X_CONTENT_TYPE_OPTIONS, "nosniff")], text).into_response()
}

fn hash(text: &str) -> String {
    Sha256::digest(text.as_bytes()).iter().take(6).map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests;
