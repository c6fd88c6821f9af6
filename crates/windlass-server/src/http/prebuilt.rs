//! A response that is the same for all callers: built once, and not sent again to clients that have it cached.

use axum::body::Bytes;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use sha2::{Digest, Sha256};

pub(super) struct Prebuilt {
    body: Bytes,
    /// Weak, because the response may be compressed.
    tag: String,
}

impl Prebuilt {
    pub(super) fn new(body: impl Into<Bytes>) -> Self {
        let body = body.into();
        let hash = windlass::internals::text::hex(&Sha256::digest(&body)[..16]);
        Self { body, tag: format!("W/\"{hash}\"") }
    }

    pub(super) fn respond(&self, request: &HeaderMap, content_type: &'static str) -> Response {
        let headers = [
            (header::CONTENT_TYPE, content_type),
            (header::ETAG, self.tag.as_str()),
            (header::CACHE_CONTROL, "no-cache"),
        ];
        if self.is_cached(request) {
            return (StatusCode::NOT_MODIFIED, headers).into_response();
        }
        (headers, self.body.clone()).into_response()
    }

    fn is_cached(&self, request: &HeaderMap) -> bool {
        let lines = request.get_all(header::IF_NONE_MATCH).iter().filter_map(|line| line.to_str().ok());
        let strong = self.tag.trim_start_matches("W/");
        lines.flat_map(|line| line.split(',')).any(|tag| tag.trim().trim_start_matches("W/") == strong)
    }
}
