//! The host of a request, and whether it was sent by one of our own pages.

use std::net::IpAddr;

use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, header};

use super::app::App;
use super::problem::{Problem, ProblemKind};
use crate::auth::session::Secure;

/// The host with its port: from the URI (HTTP/2 and later), or from the header.
pub(crate) fn of(request: &Parts) -> Option<&str> {
    let in_header = || request.headers.get(header::HOST).and_then(|host| host.to_str().ok());
    let named = request.uri.authority().map(axum::http::uri::Authority::as_str).or_else(in_header)?;
    // Only a name and a port, because it becomes part of links.
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-_:[]".contains(&byte);
    named.bytes().all(is_plain).then_some(named)
}

/// Whether a host is `localhost` or an IP address, which no name server can change.
pub(super) fn is_bare(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    let name = name.trim_start_matches('[').trim_end_matches(']');
    name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok()
}

/// The scheme of a URL to this server: https if the client uses TLS.
pub(crate) fn scheme(request: &Parts, app: &App) -> &'static str {
    if Secure::of(app, &request.extensions).0 { "https" } else { "http" }
}

/// Rejects requests that a page of another site sends. For every request that changes something and has no token. Browsers report
/// the site in `Sec-Fetch-Site`; without it, `Origin` must be our own: scheme, host and port.
pub(crate) fn check_same_origin(request: &Parts, app: &App) -> Result<(), Problem> {
    let own = of(request).map(|host| format!("{}://{host}", scheme(request, app)));
    if is_same_origin(&request.headers, own.as_deref(), app.options().public_url.as_deref()) {
        return Ok(());
    }
    Err(Problem::of(ProblemKind::Forbidden, "the request was not sent by a page of this server"))
}

fn is_same_origin(headers: &HeaderMap, own: Option<&str>, public_url: Option<&str>) -> bool {
    if let Some(site) = headers.get("sec-fetch-site") {
        return site == "same-origin";
    }
    let Some(origin) = headers.get(header::ORIGIN).and_then(|origin| origin.to_str().ok()) else {
        return false;
    };
    let is = |ours: &str| without_usual_port(ours).eq_ignore_ascii_case(without_usual_port(origin));
    own.is_some_and(is) || public_url.and_then(origin_of).is_some_and(is)
}

/// Browsers omit the default port.
fn without_usual_port(origin: &str) -> &str {
    match origin.split_once("://") {
        Some(("http", rest)) => rest.strip_suffix(":80").map_or(origin, |host| &origin[..7 + host.len()]),
        Some(("https", rest)) => rest.strip_suffix(":443").map_or(origin, |host| &origin[..8 + host.len()]),
        _ => origin,
    }
}

/// Scheme, host and port of a URL.
fn origin_of(url: &str) -> Option<&str> {
    let start = url.find("://")? + 3;
    let end = url[start..].find('/').map_or(url.len(), |at| start + at);
    Some(&url[..end])
}

/// Whether a request with this method needs [`check_same_origin`].
pub(crate) fn changes_something(method: &Method) -> bool {
    !matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::{HeaderName, HeaderValue, Request};

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let pair = |(name, value): &(&'static str, &'static str)| {
            (HeaderName::from_static(name), HeaderValue::from_static(value))
        };
        pairs.iter().map(pair).collect()
    }

    #[test]
    fn only_our_own_pages_can_send_forms() {
        let is_ours = |pairs: &[(&'static str, &'static str)], own: &str| {
            is_same_origin(&headers(pairs), Some(own), Some("https://jobs.test/"))
        };
        assert!(is_ours(&[("sec-fetch-site", "same-origin")], "http://a.test"));
        assert!(is_ours(&[("origin", "http://a.test")], "http://a.test:80"));
        assert!(is_ours(&[("origin", "https://jobs.test")], "http://127.0.0.1:8080"));
        let foreign: [&[(&str, &str)]; 8] = [
            &[("sec-fetch-site", "cross-site")],
            &[("sec-fetch-site", "same-site")],
            &[("sec-fetch-site", "none")],
            &[("origin", "http://evil.test")],
            &[("origin", "null")],
            &[("origin", "http://a.test:8080")],
            &[("origin", "ftp://a.test")],
            &[],
        ];
        assert!(foreign.iter().all(|pairs| !is_ours(pairs, "http://a.test")));
        assert!(!is_ours(&[("origin", "http://a.test")], "https://a.test"), "another scheme, another origin");
    }

    #[test]
    fn the_host_is_read_from_the_address_or_the_header() {
        let host = |uri: &str, header: &str| {
            let (parts, ()) = Request::get(uri).header("host", header).body(()).unwrap().into_parts();
            of(&parts).map(str::to_owned)
        };
        assert_eq!(host("/x", "a.test:80").as_deref(), Some("a.test:80"));
        assert_eq!(host("http://b.test/x", "a.test").as_deref(), Some("b.test"));
        assert_eq!(host("/x", "a.test/path"), None);
        assert_eq!(host("http://u@b.test/x", "a.test"), None);
        assert!(is_bare("[::1]:80") && is_bare("10.0.0.7") && is_bare("LocalHost:1") && !is_bare("a.test"));
    }
}
