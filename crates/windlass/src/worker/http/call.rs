//! Sends a request: only to an allowed address, within its timeout, and with a bounded response.
//!
//! The connection uses exactly the address that was checked, because the check is in the resolver of the connection; a
//! name that resolves to another address a moment later has no effect. A redirect is a new call with the same checks,
//! and it is followed only within the endpoint's own origin: payload, signature and credentials are sent nowhere else.
//! Proxies of the environment are not used: they would make the connection themselves.

use std::error::Error as _;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use jiff::Timestamp;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::header::{HeaderMap, HeaderName, HeaderValue, LOCATION};
use reqwest::{Client, Response, StatusCode, Url};

use super::address;
use super::response::{CallFault, CallResponse, CallResult};
use super::settings::{Checked, literal, place};
use crate::error::{Error, Result};

const CONNECT_WITHIN: Duration = Duration::from_secs(10);

/// Calls one endpoint, with a pool of connections.
pub(super) struct Caller {
    settings: Checked,
    /// Connects only to public addresses.
    guarded: Client,
    /// Connects to any address; used for hosts and ports that the configuration allows.
    open: Client,
}

impl Caller {
    pub(super) fn new(settings: Checked) -> Result<Self> {
        let client = |is_open: bool| {
            Client::builder()
                .no_proxy()
                .redirect(reqwest::redirect::Policy::none())
                .referer(false)
                .user_agent(concat!("windlass/", env!("CARGO_PKG_VERSION")))
                .connect_timeout(settings.timeout.min(CONNECT_WITHIN))
                .pool_idle_timeout(Duration::from_secs(60))
                .dns_resolver(Arc::new(Resolver { lookup: settings.lookup.clone(), is_open }))
                .build()
                .map_err(|error| Error::Settings {
                    message: format!("cannot create an HTTP client: {error}"),
                })
        };
        Ok(Self { guarded: client(false)?, open: client(true)?, settings })
    }

    pub(super) fn secrets(&self) -> &[String] {
        &self.settings.secrets
    }

    /// The timeout of one call.
    pub(super) fn timeout(&self) -> Duration {
        self.settings.timeout
    }

    /// Sends a request, within the timeouts of the endpoint and the attempt.
    pub(super) async fn call(&self, body: &str, id: &str, trace: &str, remaining: Duration) -> CallResult {
        let within = self.settings.timeout.min(remaining);
        match tokio::time::timeout(within, self.follow(body, id, trace)).await {
            Ok(result) => result,
            Err(_) => CallResult::Fault(CallFault::Late(within)),
        }
    }

    async fn follow(&self, body: &str, id: &str, trace: &str) -> CallResult {
        let body = Bytes::copy_from_slice(body.as_bytes());
        let mut url = self.settings.url.clone();
        for _ in 0..=self.settings.redirects {
            let client = match self.client_for(&url) {
                Ok(client) => client,
                Err(fault) => return CallResult::Fault(fault),
            };
            let headers = self.headers(id, trace, &body);
            let request =
                client.request(self.settings.method.clone(), url.clone()).headers(headers).body(body.clone());
            let response = match request.send().await {
                Ok(response) => response,
                Err(error) => return CallResult::Fault(fault_of(&error)),
            };
            if !response.status().is_redirection() || response.status() == StatusCode::NOT_MODIFIED {
                return self.read(response).await;
            }
            match redirected(&url, &response) {
                Ok(next) => url = next,
                Err(fault) => return CallResult::Fault(fault),
            }
        }
        CallResult::Fault(CallFault::Redirect(format!("more than {} redirects", self.settings.redirects)))
    }

    /// A host that is an IP address is not resolved, so it is checked here.
    fn client_for(&self, url: &Url) -> Result<&Client, CallFault> {
        if self.settings.allow.contains(&place(url)) {
            return Ok(&self.open);
        }
        match literal(url) {
            Some(ip) if !address::is_public(ip) => {
                Err(CallFault::Refused(NotPublic(ip.to_string()).to_string()))
            }
            _ => Ok(&self.guarded),
        }
    }

    fn headers(&self, id: &str, trace: &str, body: &[u8]) -> HeaderMap {
        let mut headers = self.settings.headers.clone();
        let timestamp = Timestamp::now().as_second();
        let mut set = |name: &'static str, value: &str| {
            if let Ok(value) = HeaderValue::from_str(value) {
                headers.insert(HeaderName::from_static(name), value);
            }
        };
        set("content-type", "application/json");
        set("accept", "application/json");
        set("idempotency-key", id);
        set("traceparent", trace);
        set("webhook-id", id);
        set("webhook-timestamp", &timestamp.to_string());
        if let Some(key) = &self.settings.key {
            set("webhook-signature", &key.sign(id, timestamp, body));
        }
        headers
    }

    async fn read(&self, mut response: Response) -> CallResult {
        let most = self.settings.max_response_bytes;
        let status = response.status();
        let retry_after = retry_after(response.headers());
        let mut body = Vec::new();
        loop {
            match response.chunk().await {
                Ok(Some(chunk)) if body.len() + chunk.len() > most => {
                    // The start of an error page may still show the problem.
                    if status.is_success() {
                        return CallResult::Fault(CallFault::TooLarge(most));
                    }
                    body.extend_from_slice(&chunk[..most - body.len()]);
                    break;
                }
                Ok(Some(chunk)) => body.extend_from_slice(&chunk),
                Ok(None) => break,
                Err(error) => return CallResult::Fault(fault_of(&error)),
            }
        }
        let reason = status.canonical_reason().unwrap_or_default();
        CallResult::Response(CallResponse { status: status.as_u16(), reason, retry_after, body })
    }
}

/// Returns the target of a redirect, if the same request may be sent there: scheme, host and port must be the same.
fn redirected(from: &Url, response: &Response) -> Result<Url, CallFault> {
    let status = response.status();
    if !matches!(status, StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT) {
        return Err(CallFault::Redirect(format!("{status} would drop the request body")));
    }
    let location = response.headers().get(LOCATION).and_then(|value| value.to_str().ok());
    let next = location
        .and_then(|location| from.join(location).ok())
        .ok_or_else(|| CallFault::Redirect("no Location header".to_owned()))?;
    if next.origin() != from.origin() || next.username() != "" || next.password().is_some() {
        // Only the origin is reported: the rest of an address may contain a secret.
        let to = next.origin().ascii_serialization();
        return Err(CallFault::Redirect(format!(
            "{status} to another origin ({to}), which must not receive the payload and credentials; configure the new address"
        )));
    }
    Ok(next)
}

/// Seconds, or an instant, which is compared with the endpoint's own clock if it sends that. What is too large to count is as long
/// as possible; the caller limits it.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let given = text("retry-after")?.trim();
    if !given.is_empty() && given.bytes().all(|byte| byte.is_ascii_digit()) {
        return Some(given.parse().map_or(Duration::MAX, Duration::from_secs));
    }
    let now = text("date").and_then(instant).unwrap_or_else(Timestamp::now);
    Some(Duration::try_from(instant(given)?.duration_since(now)).unwrap_or_default())
}

/// The instant of a date in a header. The last day of the year 9999, which stands for "never", is past the maximum of a timestamp.
fn instant(text: &str) -> Option<Timestamp> {
    if let Ok(zoned) = jiff::fmt::rfc2822::parse(text) {
        return Some(zoned.timestamp());
    }
    let date = jiff::civil::DateTime::strptime("%a, %d %b %Y %H:%M:%S GMT", text).ok()?;
    (date.year() == jiff::civil::DateTime::MAX.year()).then_some(Timestamp::MAX)
}

fn fault_of(error: &reqwest::Error) -> CallFault {
    let mut message = String::new();
    let mut cause = error.source();
    while let Some(inner) = cause {
        if let Some(refused) = inner.downcast_ref::<NotPublic>() {
            return CallFault::Refused(refused.to_string());
        }
        let words = inner.to_string();
        if !message.ends_with(&words) {
            message.push_str(if message.is_empty() { "" } else { ": " });
            message.push_str(&words);
        }
        cause = inner.source();
    }
    let kind = if error.is_connect() {
        "cannot connect"
    } else if error.is_body() || error.is_decode() {
        "the response was interrupted"
    } else {
        "the request failed"
    };
    CallFault::Transport(if message.is_empty() { kind.to_owned() } else { format!("{kind}: {message}") })
}

/// The addresses of a name; the system's resolver unless a test provides another.
///
/// ```
/// use windlass::worker::Lookup;
///
/// // For tests: every name is the documentation address.
/// let lookup = Lookup::new(|_name| vec![[192, 0, 2, 1].into()]);
/// # let _ = lookup;
/// ```
#[derive(Clone, Default)]
pub struct Lookup(Option<Arc<Find>>);

type Find = dyn Fn(&str) -> Vec<IpAddr> + Send + Sync;

impl Lookup {
    /// Resolves host names with this function.
    pub fn new(lookup: impl Fn(&str) -> Vec<IpAddr> + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(lookup)))
    }
}

impl fmt::Debug for Lookup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Lookup")
    }
}

struct Resolver {
    lookup: Lookup,
    is_open: bool,
}

impl Resolve for Resolver {
    fn resolve(&self, name: Name) -> Resolving {
        let (lookup, is_open) = (self.lookup.clone(), self.is_open);
        Box::pin(async move {
            let found: Vec<IpAddr> = match &lookup.0 {
                Some(lookup) => lookup(name.as_str()),
                None => {
                    tokio::net::lookup_host((name.as_str(), 0)).await?.map(|address| address.ip()).collect()
                }
            };
            let usable: Vec<SocketAddr> = found
                .iter()
                .filter(|ip| is_open || address::is_public(**ip))
                .map(|ip| SocketAddr::new(*ip, 0))
                .collect();
            if usable.is_empty() && !found.is_empty() {
                return Err(NotPublic(name.as_str().to_owned()).into());
            }
            let addresses: Addrs = Box::new(usable.into_iter());
            Ok(addresses)
        })
    }
}

#[derive(Debug)]
struct NotPublic(String);

impl fmt::Display for NotPublic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is not a public address; add it to `allow` as host:port to permit it", self.0)
    }
}

impl std::error::Error for NotPublic {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_that_is_too_long_to_count_is_still_a_pause() {
        let of = |given: &str| {
            let headers = [("retry-after", given), ("date", "Fri, 01 Jan 2027 00:00:00 GMT")];
            let headers = headers.map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()));
            retry_after(&headers.into_iter().collect())
        };
        assert_eq!(of("120"), Some(Duration::from_secs(120)));
        assert_eq!(of("Fri, 01 Jan 2027 00:02:00 GMT"), Some(Duration::from_secs(120)));
        assert_eq!(of("Fri, 01 Jan 2021 00:02:00 GMT"), Some(Duration::ZERO));
        let a_year = Duration::from_secs(365 * 24 * 3600);
        for given in ["18446744073709551616", &"9".repeat(500), "Fri, 31 Dec 9999 23:59:59 GMT"] {
            assert!(of(given).is_some_and(|pause| pause > a_year), "{given}");
        }
        for given in ["", "-1", "1e9", "soon", "Fri, 32 Dec 9999 23:59:59 GMT", "+99999999999999999999"] {
            assert_eq!(of(given), None, "{given}");
        }
    }
}
