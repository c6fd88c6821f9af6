//! What a form sent. A form of another site's page is refused: the browser says where a request comes from, and what does
//! not say so must at least have an origin that is our own host.

use axum::extract::{FromRequest, Request};
use axum::http::{HeaderMap, header};
use std::collections::HashMap;
use uuid::Uuid;

use super::page::PageProblem;
use crate::http::{App, Problem, ProblemKind};

/// Fields in the order in which they came.
#[derive(Debug, Default)]
pub(crate) struct Posted(pub(crate) Vec<(String, String)>);

impl FromRequest<App> for Posted {
    type Rejection = PageProblem;

    async fn from_request(request: Request, app: &App) -> Result<Self, PageProblem> {
        if !is_same_origin(request.headers()) {
            let detail = "this form was sent by another site's page";
            return Err(Problem::of(ProblemKind::Forbidden, detail).into());
        }
        let bytes = axum::body::to_bytes(request.into_body(), app.options().max_body_bytes)
            .await
            .map_err(|_| Problem::of(ProblemKind::BodyTooLarge, "the form is too large"))?;
        let fields = pairs_of(&bytes);
        Ok(Self(fields))
    }
}

/// Pairs of an `application/x-www-form-urlencoded` body; what is not UTF-8 is replaced.
fn pairs_of(bytes: &[u8]) -> Vec<(String, String)> {
    let parts = bytes.split(|byte| *byte == b'&').filter(|part| !part.is_empty());
    let pair = |part: &[u8]| {
        let at = part.iter().position(|byte| *byte == b'=').unwrap_or(part.len());
        (decode(&part[..at]), decode(part.get(at + 1..).unwrap_or_default()))
    };
    parts.map(pair).collect()
}

fn decode(part: &[u8]) -> String {
    let mut out = Vec::with_capacity(part.len());
    let mut rest = part.iter().copied();
    while let Some(byte) = rest.next() {
        match byte {
            b'+' => out.push(b' '),
            b'%' => {
                let digit = |byte: Option<u8>| byte.and_then(|byte| char::from(byte).to_digit(16));
                let mut ahead = rest.clone();
                match (digit(ahead.next()), digit(ahead.next())) {
                    (Some(high), Some(low)) => {
                        out.push((high * 16 + low) as u8);
                        rest = ahead;
                    }
                    _ => out.push(b'%'),
                }
            }
            other => out.push(other),
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

fn is_same_origin(headers: &HeaderMap) -> bool {
    let text = |name: header::HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
    if let Some(site) = headers.get("sec-fetch-site") {
        return site == "same-origin";
    }
    match (text(header::ORIGIN), text(header::HOST)) {
        (Some(origin), Some(host)) => origin.split_once("://").is_some_and(|(_, from)| from == host),
        _ => false,
    }
}

impl Posted {
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// Filled in, that is.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.get(name).map(str::trim).filter(|text| !text.is_empty())
    }

    pub(crate) fn ids(&self, name: &str) -> Vec<Uuid> {
        let named = self.0.iter().filter(|(key, _)| key == name);
        named.filter_map(|(_, value)| Uuid::try_parse(value).ok()).collect()
    }

    pub(crate) fn into_map(self) -> HashMap<String, String> {
        self.0.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderMap, HeaderName, HeaderValue};

    use super::{is_same_origin, pairs_of};

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
            .collect()
    }

    #[test]
    fn only_our_own_pages_may_send_forms() {
        assert!(is_same_origin(&headers(&[("sec-fetch-site", "same-origin")])));
        assert!(is_same_origin(&headers(&[("origin", "http://a.test:80"), ("host", "a.test:80")])));
        let foreign: [&[(&str, &str)]; 6] = [
            &[("sec-fetch-site", "cross-site")],
            &[("sec-fetch-site", "same-site")],
            &[("sec-fetch-site", "none")],
            &[("origin", "http://evil.test"), ("host", "a.test")],
            &[("origin", "null"), ("host", "a.test")],
            &[("host", "a.test")],
        ];
        assert!(foreign.iter().all(|pairs| !is_same_origin(&headers(pairs))));
    }

    #[test]
    fn fields_are_read_as_they_were_sent() {
        let pairs = pairs_of(b"a=1+2%20%C3%BC&id=x&id=y&empty=&bad=%zz&%FF");
        let seen: Vec<(&str, &str)> =
            pairs.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        assert_eq!(
            seen,
            [("a", "1 2 ü"), ("id", "x"), ("id", "y"), ("empty", ""), ("bad", "%zz"), ("\u{fffd}", "")]
        );
    }
}
