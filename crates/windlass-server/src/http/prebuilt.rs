//! A response that is the same for all callers: built and compressed once, and not sent again to clients that have it cached. Its
//! responses share one copy of the bytes, so that many clients that read slowly need no more memory than one.

use axum::body::Bytes;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use flate2::Compression;
use sha2::{Digest, Sha256};

use super::gzip::{self, NoCompression};

#[derive(Debug)]
pub(crate) struct Prebuilt {
    body: Bytes,
    /// None if compression does not make it smaller.
    packed: Option<Bytes>,
    content_type: &'static str,
    cache: &'static str,
    /// Weak, because it belongs to the compressed bytes, too.
    tag: String,
}

impl Prebuilt {
    /// A document that clients check for changes before they use a cached copy.
    pub(crate) fn new(body: impl Into<Bytes>, content_type: &'static str) -> Self {
        let body = body.into();
        let hash = windlass::internals::text::hex(&Sha256::digest(&body)[..16]);
        let packed = gzip::pack(&body, Compression::best());
        Self { body, packed, content_type, cache: "no-cache", tag: format!("W/\"{hash}\"") }
    }

    /// For a URL that contains a hash of the content.
    pub(crate) fn immutable(self) -> Self {
        Self { cache: "public, max-age=31536000, immutable", ..self }
    }

    pub(crate) fn respond(&self, request: &HeaderMap) -> Response {
        let headers = [
            (header::CONTENT_TYPE, self.content_type),
            (header::ETAG, self.tag.as_str()),
            (header::CACHE_CONTROL, self.cache),
            (header::VARY, "accept-encoding"),
        ];
        let no_compression = axum::Extension(NoCompression);
        if self.is_cached(request) {
            return (StatusCode::NOT_MODIFIED, headers, no_compression).into_response();
        }
        match &self.packed {
            Some(packed) if gzip::is_accepted(request) => {
                (headers, [(header::CONTENT_ENCODING, "gzip")], no_compression, packed.clone())
                    .into_response()
            }
            _ => (headers, no_compression, self.body.clone()).into_response(),
        }
    }

    fn is_cached(&self, request: &HeaderMap) -> bool {
        let lines = request.get_all(header::IF_NONE_MATCH).iter().filter_map(|line| line.to_str().ok());
        let strong = self.tag.trim_start_matches("W/");
        lines.flat_map(|line| line.split(',')).any(|tag| tag.trim().trim_start_matches("W/") == strong)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::body::to_bytes;
    use axum::http::HeaderValue;

    /// Compression of each response would also need its memory while a slow client reads it.
    #[tokio::test]
    async fn compressed_responses_share_the_same_bytes_in_memory() {
        let document = Prebuilt::new("a".repeat(10_000), "text/plain");
        let gzip = HeaderMap::from_iter([(header::ACCEPT_ENCODING, HeaderValue::from_static("gzip"))]);
        let body = async || to_bytes(document.respond(&gzip).into_body(), usize::MAX).await.unwrap();
        let (first, second) = (body().await, body().await);
        assert!(first.len() < 1000);
        assert_eq!(first.as_ptr(), second.as_ptr());
    }
}
