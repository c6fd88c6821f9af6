//! An answer that is the same for everybody: made once, and not sent again to whoever has it.

use axum::body::Bytes;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use sha2::{Digest, Sha256};

pub(super) struct Prebuilt {
    body: Bytes,
    /// Weak: the answer may be compressed on its way.
    tag: String,
}

impl Prebuilt {
    pub(super) fn new(body: impl Into<Bytes>) -> Self {
        let body = body.into();
        let hash = windlass::text::hex(&Sha256::digest(&body)[..16]);
        Self { body, tag: format!("W/\"{hash}\"") }
    }

    pub(super) fn answer(&self, asked: &HeaderMap, content_type: &'static str) -> Response {
        let headers = [
            (header::CONTENT_TYPE, content_type),
            (header::ETAG, self.tag.as_str()),
            (header::CACHE_CONTROL, "no-cache"),
        ];
        if self.is_known(asked) {
            return (StatusCode::NOT_MODIFIED, headers).into_response();
        }
        (headers, self.body.clone()).into_response()
    }

    fn is_known(&self, asked: &HeaderMap) -> bool {
        let lines = asked.get_all(header::IF_NONE_MATCH).iter().filter_map(|line| line.to_str().ok());
        let strong = self.tag.trim_start_matches("W/");
        lines.flat_map(|line| line.split(',')).any(|tag| tag.trim().trim_start_matches("W/") == strong)
    }
}
