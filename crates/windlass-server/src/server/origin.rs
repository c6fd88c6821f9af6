//! The client address of a request: that of its connection, or the one reported by a trusted proxy.

use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use axum::extract::ConnectInfo;
use axum::http::{Extensions, HeaderMap, HeaderValue, header};

/// The trusted proxies.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Proxies(Vec<Network>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Network {
    address: IpAddr,
    bits: u8,
}

/// Whether the client reached us, or the proxy in front of us, over TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OverTls(pub(crate) bool);

impl OverTls {
    /// False for a request within this process.
    pub(crate) fn of(request: &Extensions) -> bool {
        request.get::<Self>().is_some_and(|over_tls| over_tls.0)
    }
}

/// The client address; `None` for a request within this process.
pub(crate) fn client_of(request: &Extensions) -> Option<IpAddr> {
    request.get::<ConnectInfo<SocketAddr>>().map(|from| from.0.ip())
}

impl Proxies {
    pub(super) fn contains(&self, address: IpAddr) -> bool {
        self.0.iter().any(|network| network.contains(address.to_canonical()))
    }

    /// The client address, and whether the client uses TLS, for a request on a connection from `peer`.
    pub(super) fn origin(&self, peer: IpAddr, is_tls: bool, headers: &HeaderMap) -> (IpAddr, OverTls) {
        if !self.contains(peer) {
            return (peer, OverTls(is_tls));
        }
        // Only one header is used: that of the proxies, not one that they pass through. Most set X-Forwarded-For.
        let (nodes, protos) = if headers.contains_key("x-forwarded-for") {
            (list(headers, "x-forwarded-for"), list(headers, "x-forwarded-proto"))
        } else if headers.contains_key(header::FORWARDED) {
            let elements = elements(headers);
            let of = |name: &'static str| {
                elements.iter().map(move |element| parameter(element, name).unwrap_or_default())
            };
            (of("for").collect(), of("proto").collect())
        } else {
            (Vec::new(), list(headers, "x-forwarded-proto"))
        };
        // From the last entry, written by the nearest proxy, to the first that is not a trusted proxy or cannot be parsed: earlier
        // entries can be forged.
        let (mut client, mut hops) = (peer, 0);
        for node in nodes.iter().rev() {
            let Some(address) = address(node) else { break };
            client = address;
            hops += 1;
            if !self.contains(address) {
                break;
            }
        }
        let proto = protos.iter().rev().nth(hops.max(1) - 1).or(protos.first());
        let is_https = proto.is_some_and(|proto| proto.eq_ignore_ascii_case("https"));
        (client, OverTls(is_tls || is_https))
    }
}

impl Network {
    fn contains(self, address: IpAddr) -> bool {
        match (self.address, address) {
            (IpAddr::V4(net), IpAddr::V4(one)) => {
                (net.to_bits() ^ one.to_bits()).checked_shr(32 - u32::from(self.bits)).unwrap_or(0) == 0
            }
            (IpAddr::V6(net), IpAddr::V6(one)) => {
                (net.to_bits() ^ one.to_bits()).checked_shr(128 - u32::from(self.bits)).unwrap_or(0) == 0
            }
            _ => false,
        }
    }
}

impl FromStr for Proxies {
    type Err = String;

    /// Addresses and networks, separated by commas.
    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
        parts.map(network).collect::<Result<_, _>>().map(Self)
    }
}

fn network(text: &str) -> Result<Network, String> {
    let wrong = || format!("{text:?} must be an address or a network, such as 10.0.0.7 or 10.0.0.0/8");
    let (address, bits) = match text.split_once('/') {
        Some((address, bits)) => (address, Some(bits.parse::<u8>().map_err(|_| wrong())?)),
        None => (text, None),
    };
    let address = address.parse::<IpAddr>().map_err(|_| wrong())?.to_canonical();
    let most = if address.is_ipv4() { 32 } else { 128 };
    let bits = bits.unwrap_or(most);
    if bits > most {
        return Err(wrong());
    }
    Ok(Network { address, bits })
}

/// The entries of `X-Forwarded-For` or `X-Forwarded-Proto`. They have no quotes: every comma is a separator, because a proxy appends
/// one and its own entry to whatever the client sent. An entry that is not text stays, as one that cannot be parsed.
fn list(headers: &HeaderMap, name: &str) -> Vec<String> {
    let lines = headers.get_all(name).iter().map(HeaderValue::as_bytes);
    let entries = lines.flat_map(|line| line.split(|byte| *byte == b','));
    let entries = entries.map(|entry| String::from_utf8_lossy(entry.trim_ascii()).into_owned());
    entries.filter(|entry| !entry.is_empty()).collect()
}

/// The elements of `Forwarded` (RFC 7239). A comma within quotes is not a separator, so a client can open a quote that contains the
/// element of the proxy. Such a line, or one that is not text, is one element without parameters, at which the search ends.
fn elements(headers: &HeaderMap) -> Vec<String> {
    let lines = headers.get_all(header::FORWARDED).iter();
    let split = |line: &HeaderValue| {
        let parts = line.to_str().ok().and_then(|line| split_unquoted(line, ','));
        parts.map_or_else(
            || vec![String::new()],
            |parts| parts.into_iter().filter(|part| !part.is_empty()).collect(),
        )
    };
    lines.flat_map(split).collect()
}

/// A parameter of an element of `Forwarded`, without its quotes.
fn parameter(element: &str, wanted: &str) -> Option<String> {
    split_unquoted(element, ';')?.into_iter().find_map(|pair| {
        let (name, value) = pair.split_once('=')?;
        name.trim().eq_ignore_ascii_case(wanted).then(|| unquoted(value.trim()))
    })
}

/// Splits at separators outside of quotes; none if a quote is not closed.
fn split_unquoted(text: &str, separator: char) -> Option<Vec<String>> {
    let (mut parts, mut is_quoted, mut is_escaped) = (vec![String::new()], false, false);
    for letter in text.chars() {
        if letter == separator && !is_quoted {
            parts.push(String::new());
            continue;
        }
        is_quoted ^= letter == '"' && !is_escaped;
        is_escaped = is_quoted && letter == '\\' && !is_escaped;
        if let Some(part) = parts.last_mut() {
            part.push(letter);
        }
    }
    (!is_quoted).then(|| parts.iter().map(|part| part.trim().to_owned()).collect())
}

fn unquoted(text: &str) -> String {
    let Some(inner) = text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) else {
        return text.to_owned();
    };
    let mut letters = inner.chars();
    let mut out = String::new();
    while let Some(letter) = letters.next() {
        out.extend(if letter == '\\' { letters.next() } else { Some(letter) });
    }
    out
}

/// An address as proxies write it: bare, in brackets, or with a port; and nothing else, because the rest may be written by a client.
fn address(text: &str) -> Option<IpAddr> {
    let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text);
    let found = bare.parse().ok().or_else(|| text.parse::<SocketAddr>().ok().map(|found| found.ip()));
    found.map(|found: IpAddr| found.to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin(proxies: &str, peer: &str, headers: &[(&'static str, &str)]) -> (String, bool) {
        let mut all = HeaderMap::new();
        for (name, value) in headers {
            all.append(*name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
        }
        let proxies: Proxies = proxies.parse().unwrap();
        let (address, tls) = proxies.origin(peer.parse().unwrap(), false, &all);
        (address.to_string(), tls.0)
    }

    #[test]
    fn only_a_trusted_proxy_can_report_the_client() {
        let headers = [("x-forwarded-for", "203.0.113.9"), ("x-forwarded-proto", "https")];
        assert_eq!(origin("", "127.0.0.1", &headers), ("127.0.0.1".to_owned(), false));
        assert_eq!(origin("10.0.0.0/8", "192.0.2.1", &headers), ("192.0.2.1".to_owned(), false));
        assert_eq!(origin("10.0.0.0/8, ::1", "10.9.8.7", &headers), ("203.0.113.9".to_owned(), true));
        assert_eq!(origin("::1", "::1", &headers), ("203.0.113.9".to_owned(), true));
    }

    #[test]
    fn entries_written_by_the_client_are_ignored() {
        let headers = [("x-forwarded-for", "1.1.1.1, 203.0.113.9, 10.0.0.2")];
        assert_eq!(origin("10.0.0.0/8", "10.0.0.1", &headers), ("203.0.113.9".to_owned(), false));
        let headers = [("forwarded", "for=1.1.1.1, For=\"[2001:db8::7]:4711\";proto=https;by=10.0.0.2")];
        assert_eq!(origin("10.0.0.0/8", "10.0.0.1", &headers), ("2001:db8::7".to_owned(), true));
        assert_eq!(origin("10.0.0.0/8", "10.0.0.1", &[]), ("10.0.0.1".to_owned(), false));
    }

    #[test]
    fn one_header_is_used_and_an_invalid_entry_ends_the_search() {
        let of = |headers: &[(&'static str, &str)]| origin("10.0.0.0/8", "10.0.0.1", headers);
        let both = [("x-forwarded-for", "203.0.113.9"), ("forwarded", "for=1.1.1.1;proto=https")];
        assert_eq!(of(&both), ("203.0.113.9".to_owned(), false), "the client wrote the other one");
        let unreadable = [("x-forwarded-for", "1.1.1.1, unknown, 10.0.0.2")];
        assert_eq!(of(&unreadable), ("10.0.0.2".to_owned(), false), "earlier entries are not trusted");
        let quoted =
            [("forwarded", "for=1.1.1.1, for=\"203.0.113.9\";ext=\"a, for=2.2.2.2; \\\"\";proto=https")];
        assert_eq!(of(&quoted), ("203.0.113.9".to_owned(), true));
        let hidden = [("forwarded", "for=1.1.1.1, for=_hidden")];
        assert_eq!(of(&hidden), ("10.0.0.1".to_owned(), false));
        let protos = [("x-forwarded-for", "203.0.113.9"), ("x-forwarded-proto", "https, http")];
        assert_eq!(of(&protos), ("203.0.113.9".to_owned(), false), "the last one is written by the proxy");
        let chain = [("x-forwarded-for", "203.0.113.9, 10.0.0.2"), ("x-forwarded-proto", "https, http")];
        assert_eq!(of(&chain), ("203.0.113.9".to_owned(), true), "as the client reached the first proxy");
        assert_eq!(of(&[("x-forwarded-proto", "https")]), ("10.0.0.1".to_owned(), true));
    }

    /// the client opens a quote or a bracket, and the proxy appends the address of the client.
    #[test]
    fn nothing_that_a_client_sends_hides_what_the_proxy_appends() {
        let of = |headers: &[(&'static str, &str)]| origin("10.0.0.0/8", "10.0.0.1", headers).0;
        for sent in ["[6.6.6.6]\"", "\"", "6.6.6.6\"", "\"\\", "[6.6.6.6", "é"] {
            let appended = format!("{sent}, 203.0.113.9");
            assert_eq!(of(&[("x-forwarded-for", &appended)]), "203.0.113.9", "{sent}");
            assert_eq!(of(&[("x-forwarded-for", "6.6.6.6"), ("x-forwarded-for", &appended)]), "203.0.113.9");
        }
        for sent in ["for=9.9.9.9;x=\"", "for=9.9.9.9;x=\"\\", "for=\"", "for=9.9.9.9;x=\"a\"\"", "é"] {
            for appended in ["for=203.0.113.9", "for=\"[2001:db8::7]:4711\";by=\"[2001:db8::1]\""] {
                let appended = format!("{sent}, {appended}");
                for before in [&[][..], &[("forwarded", "for=9.9.9.9")]] {
                    let headers = [before, &[("forwarded", appended.as_str())]].concat();
                    let found = of(&headers);
                    assert!(!found.starts_with('9'), "{headers:?}: {found}");
                }
            }
        }
        let separate = [("forwarded", "for=9.9.9.9;x=\""), ("forwarded", "for=203.0.113.9")];
        assert_eq!(of(&separate), "203.0.113.9", "the proxy added a line of its own");
    }

    #[test]
    fn an_address_is_followed_by_nothing_but_a_port() {
        for (text, is_address) in [
            ("203.0.113.9", true),
            ("203.0.113.9:4711", true),
            ("2001:db8::7", true),
            ("[2001:db8::7]", true),
            ("[2001:db8::7]:4711", true),
            ("[2001:db8::7]x", false),
            ("[2001:db8::7]:", false),
            ("[2001:db8::7]:99999", false),
            ("[2001:db8::7", false),
            ("[203.0.113.9]\"", false),
            ("\"203.0.113.9\"", false),
            ("203.0.113.9 6.6.6.6", false),
        ] {
            assert_eq!(address(text).is_some(), is_address, "{text}");
        }
    }

    #[test]
    fn an_invalid_network_is_rejected_with_its_text() {
        for text in ["10.0.0.0/33", "ten", "::/129", "10.0.0.0/x"] {
            assert!(text.parse::<Proxies>().unwrap_err().contains(text), "{text}");
        }
        let all: Proxies = "0.0.0.0/0".parse().unwrap();
        assert!(all.contains("192.0.2.1".parse().unwrap()) && !all.contains("::1".parse().unwrap()));
    }
}
