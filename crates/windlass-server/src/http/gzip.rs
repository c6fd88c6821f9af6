//! Compression outside the layer: of documents that are compressed once, and of large responses on a thread that has a permit.
//!
//! The layer compresses on the threads of the runtime, and again for every request. It gets only responses that take about a
//! millisecond.

use std::io::Write as _;

use axum::body::{Body, Bytes, HttpBody as _, to_bytes};
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::Response;
use flate2::Compression;
use flate2::write::GzEncoder;

/// What the layer compresses at most: about a millisecond of a thread of the runtime.
pub(super) const SMALL: u64 = 64 * 1024;
/// Compressing more than this takes longer than sending it.
const LARGEST: u64 = 512 * 1024;

/// Marks a response that is sent as it is, so that the layer does not compress it.
#[derive(Debug, Clone, Copy)]
pub(super) struct NoCompression;

/// The compressed bytes; none if they are not smaller.
pub(super) fn pack(body: &[u8], level: Compression) -> Option<Bytes> {
    let mut packed = GzEncoder::new(Vec::with_capacity(body.len() / 4), level);
    packed.write_all(body).ok()?;
    let packed = packed.finish().ok()?;
    (packed.len() < body.len()).then(|| packed.into())
}

/// Compresses a response that is too large for the layer. Call it on a separate thread.
pub(super) async fn pack_large(response: Response, is_accepted: bool) -> Response {
    let is_packable = !response.headers().contains_key(header::CONTENT_ENCODING)
        && response.body().size_hint().exact().is_some_and(|bytes| (SMALL + 1..=LARGEST).contains(&bytes));
    if !is_packable {
        return response;
    }
    let (mut head, body) = response.into_parts();
    // Set on uncompressed responses too, so that a cache does not send them to a client that accepts gzip, or vice versa.
    head.headers.append(header::VARY, HeaderValue::from_static("accept-encoding"));
    if !is_accepted {
        return Response::from_parts(head, body);
    }
    // Its whole length is known, so it is in memory already.
    let Ok(body) = to_bytes(body, usize::MAX).await else { return Response::from_parts(head, Body::empty()) };
    let Some(packed) = pack(&body, Compression::fast()) else {
        return Response::from_parts(head, Body::from(body));
    };
    head.headers.remove(header::CONTENT_LENGTH);
    head.headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    Response::from_parts(head, Body::from(packed))
}

/// Whether the client accepts gzip. A weight of zero rejects it.
pub(super) fn is_accepted(request: &HeaderMap) -> bool {
    let lines = request.get_all(header::ACCEPT_ENCODING).iter().filter_map(|line| line.to_str().ok());
    let codings = lines.flat_map(|line| line.split(',')).map(|coding| {
        let (name, weight) = coding.split_once(';').unwrap_or((coding, ""));
        let weight = weight.trim().trim_start_matches(['q', 'Q']).trim_start().trim_start_matches('=').trim();
        (
            name.trim().to_ascii_lowercase(),
            weight.is_empty() || weight.parse().is_ok_and(|weight: f32| weight > 0.0),
        )
    });
    let codings: Vec<(String, bool)> = codings.collect();
    let of =
        |wanted: &str| codings.iter().find(|(name, _)| name == wanted).map(|(_, is_accepted)| *is_accepted);
    of("gzip").or_else(|| of("x-gzip")).or_else(|| of("*")).unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gzip_is_accepted_by_name_or_by_a_star_and_not_with_a_weight_of_zero() {
        let accepts = |text: &'static str| {
            is_accepted(&HeaderMap::from_iter([(header::ACCEPT_ENCODING, HeaderValue::from_static(text))]))
        };
        for text in ["gzip", "GZIP", "deflate, gzip;q=0.5", "br, *", "x-gzip", "gzip; q = 1.0"] {
            assert!(accepts(text), "{text}");
        }
        for text in ["", "br", "gzip;q=0", "gzip;q=0.0, *", "*;q=0", "identity", "gzip;q=x"] {
            assert!(!accepts(text), "{text}");
        }
        assert!(!is_accepted(&HeaderMap::new()));
    }

    #[tokio::test]
    async fn a_large_response_is_compressed_and_small_and_very_large_ones_are_not() {
        let packed = async |bytes: usize| {
            let response = Response::new(Body::from("a".repeat(bytes)));
            let response = pack_large(response, true).await;
            response.headers().contains_key(header::CONTENT_ENCODING)
        };
        assert!(!packed(64 * 1024).await, "left to the layer");
        assert!(packed(64 * 1024 + 1).await);
        assert!(packed(512 * 1024).await);
        assert!(!packed(512 * 1024 + 1).await);
    }

    #[tokio::test]
    async fn a_response_that_may_be_compressed_varies_even_if_gzip_is_not_accepted() {
        for (bytes, is_accepted, varies) in [(100_000, true, 1), (100_000, false, 1), (600_000, false, 0)] {
            let response = pack_large(Response::new(Body::from("a".repeat(bytes))), is_accepted).await;
            assert_eq!(response.headers().get_all(header::VARY).iter().count(), varies);
            let is_packed = response.headers().contains_key(header::CONTENT_ENCODING);
            assert_eq!(is_packed, is_accepted, "{bytes}");
        }
    }
}
