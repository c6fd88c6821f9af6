//! `[http.KEY]` of a worker's configuration, validated before the worker starts.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, Url};
use serde::Deserialize;

use super::address;
use super::call::Lookup;
use crate::error::{Error, Result};
use crate::webhook::Key;

/// The endpoint for jobs of one definition. Times are in seconds.
///
/// ```
/// use std::collections::BTreeMap;
/// use windlass::worker::HttpEndpoint;
///
/// let endpoint = HttpEndpoint::new("https://images.example/jobs")
///     .method("PUT")
///     .headers(BTreeMap::from([("authorization".to_owned(), "Bearer 7".into())]))
///     .secret("a secret of at least 16 bytes".into())
///     .timeout(10.0)
///     .lease(600.0)
///     .allow(vec!["images.internal:8080".to_owned()])
///     .batch(20)
///     .redirects(0)
///     .max_response_bytes(64 * 1024);
/// assert_eq!(endpoint.batch, 20);
/// ```
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct HttpEndpoint {
    /// The URL that is called.
    pub url: String,
    /// The HTTP method.
    #[serde(default = "post")]
    pub method: String,
    /// Headers of every request.
    #[serde(default)]
    pub headers: BTreeMap<String, SecretText>,
    /// Signs every request; `whsec_…` is base64 as in Standard Webhooks, any other text is used unchanged.
    #[serde(default)]
    pub secret: Option<SecretText>,
    /// The timeout of one call, from the first byte sent to the last received.
    #[serde(default = "thirty")]
    pub timeout: f64,
    /// How long an endpoint that returned 202 may send no heartbeat before the job counts as lost.
    #[serde(default = "five_minutes")]
    pub lease: f64,
    /// `host:port` of private addresses that may be called anyway.
    #[serde(default)]
    pub allow: Vec<String>,
    /// The maximum number of jobs per call.
    #[serde(default = "one")]
    pub batch: usize,
    /// The maximum number of redirects.
    #[serde(default = "three")]
    pub redirects: usize,
    /// The maximum size of a response.
    #[serde(default = "mebibyte")]
    pub max_response_bytes: usize,
    /// How host names are resolved.
    #[serde(skip)]
    #[doc(hidden)]
    pub lookup: Lookup,
}

impl HttpEndpoint {
    /// Sets the HTTP method (default `POST`).
    #[must_use]
    pub fn method(mut self, method: impl Into<String>) -> Self {
        self.method = method.into();
        self
    }

    /// Sets headers of every request.
    #[must_use]
    pub fn headers(mut self, headers: BTreeMap<String, SecretText>) -> Self {
        self.headers = headers;
        self
    }

    /// Sets the secret that signs every request.
    #[must_use]
    pub fn secret(mut self, secret: SecretText) -> Self {
        self.secret = Some(secret);
        self
    }

    /// Sets the timeout of one call.
    #[must_use]
    pub fn timeout(mut self, seconds: f64) -> Self {
        self.timeout = seconds;
        self
    }

    /// Sets the lease of an endpoint that returned 202.
    #[must_use]
    pub fn lease(mut self, seconds: f64) -> Self {
        self.lease = seconds;
        self
    }

    /// Allows private addresses, as `host:port`.
    #[must_use]
    pub fn allow(mut self, places: Vec<String>) -> Self {
        self.allow = places;
        self
    }

    /// Sets the maximum number of jobs per call.
    #[must_use]
    pub fn batch(mut self, most: usize) -> Self {
        self.batch = most;
        self
    }

    /// Sets the maximum number of redirects.
    #[must_use]
    pub fn redirects(mut self, most: usize) -> Self {
        self.redirects = most;
        self
    }

    /// Sets the maximum size of a response.
    #[must_use]
    pub fn max_response_bytes(mut self, most: usize) -> Self {
        self.max_response_bytes = most;
        self
    }

    #[doc(hidden)]
    #[must_use]
    pub fn lookup(mut self, lookup: Lookup) -> Self {
        self.lookup = lookup;
        self
    }
}

fn post() -> String {
    "POST".to_owned()
}
fn thirty() -> f64 {
    30.0
}
fn five_minutes() -> f64 {
    300.0
}
fn one() -> usize {
    1
}
fn three() -> usize {
    3
}
fn mebibyte() -> usize {
    1024 * 1024
}

/// A text that is never printed: the text itself, or where to find it.
///
/// ```
/// use windlass::worker::SecretText;
///
/// let from_file = SecretText::File { file: "/run/secrets/token".to_owned() };
/// let from_environment = SecretText::Env { env: "TOKEN".to_owned() };
/// # let _ = (from_file, from_environment);
/// // Never printed:
/// assert!(!format!("{:?}", SecretText::from("hunter2")).contains("hunter2"));
/// ```
#[derive(Clone, Deserialize)]
#[serde(untagged)]
#[non_exhaustive]
pub enum SecretText {
    /// The text itself.
    Text(String),
    /// An environment variable.
    Env {
        /// The name of an environment variable of the worker.
        env: String,
    },
    /// A file.
    File {
        /// The path of a file; white space at its end is ignored.
        file: String,
    },
}

impl SecretText {
    fn is_given(&self) -> bool {
        matches!(self, Self::Text(_))
    }

    fn read(&self, setting: &str) -> Result<String> {
        match self {
            Self::Text(text) => Ok(text.clone()),
            Self::Env { env } => std::env::var(env)
                .map_err(|_| Error::refused(setting, format!("the environment variable {env} is not set"))),
            Self::File { file } => std::fs::read_to_string(file)
                .map(|text| text.trim_end().to_owned())
                .map_err(|error| Error::refused(setting, format!("cannot read {file}: {error}"))),
        }
    }
}

impl From<&str> for SecretText {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl fmt::Debug for SecretText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretText")
    }
}

/// Validated settings.
pub(super) struct Checked {
    pub(super) url: Url,
    pub(super) method: Method,
    pub(super) headers: HeaderMap,
    pub(super) key: Option<Key>,
    pub(super) secrets: Vec<String>,
    pub(super) timeout: Duration,
    pub(super) lease: Duration,
    pub(super) allow: Vec<(String, u16)>,
    pub(super) batch: usize,
    pub(super) redirects: usize,
    pub(super) max_response_bytes: usize,
    pub(super) lookup: Lookup,
}

const MAX_BATCH: usize = 500;
/// Headers that windlass sets.
const RESERVED: [&str; 8] = [
    "host",
    "content-length",
    "content-type",
    "transfer-encoding",
    "idempotency-key",
    "webhook-id",
    "webhook-timestamp",
    "webhook-signature",
];

impl HttpEndpoint {
    /// Returns the defaults with this address.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            method: post(),
            headers: BTreeMap::new(),
            secret: None,
            timeout: thirty(),
            lease: five_minutes(),
            allow: Vec::new(),
            batch: one(),
            redirects: three(),
            max_response_bytes: mebibyte(),
            lookup: Lookup::default(),
        }
    }

    pub(super) fn check(&self, key: &str) -> Result<Checked> {
        let named = |setting: &str| format!("http.{key}.{setting}");
        let refused = |setting: &str, message: &str| Error::refused(named(setting), message);
        let url = Url::parse(&self.url).map_err(|error| refused("url", &error.to_string()))?;
        if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
            return Err(refused("url", "must be an http or https URL"));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(refused("url", "must not contain a user or password; use a header"));
        }
        let method = match self.method.to_ascii_uppercase().as_str() {
            "POST" => Method::POST,
            "PUT" => Method::PUT,
            "PATCH" => Method::PATCH,
            _ => return Err(refused("method", "must be POST, PUT or PATCH")),
        };
        let allow = self
            .allow
            .iter()
            .enumerate()
            .map(|(n, entry)| {
                read_allowed(entry).ok_or_else(|| refused(&format!("allow.{n}"), "must be host:port"))
            })
            .collect::<Result<Vec<_>>>()?;
        if let Some(ip) = literal(&url)
            && !address::is_public(ip)
            && !allow.contains(&place(&url))
        {
            let message =
                format!("{ip} is not a public address; add it to `allow` as host:port to permit it");
            return Err(refused("url", &message));
        }
        let seconds = |setting: &str, value: f64, most: f64| {
            let fits = (0.001..=most).contains(&value);
            fits.then(|| Duration::from_secs_f64(value))
                .ok_or_else(|| refused(setting, &format!("must be seconds between 0.001 and {most}")))
        };
        if self.batch == 0 || self.batch > MAX_BATCH {
            return Err(refused("batch", &format!("must be between 1 and {MAX_BATCH}")));
        }
        if self.redirects > 10 {
            return Err(refused("redirects", "must be between 0 and 10"));
        }
        let mut secrets = Vec::new();
        let mut headers = HeaderMap::new();
        for (name, value) in &self.headers {
            let setting = format!("headers.{name}");
            let parsed =
                HeaderName::try_from(name.as_str()).map_err(|_| refused(&setting, "is not a header name"))?;
            if RESERVED.contains(&parsed.as_str()) {
                return Err(refused(&setting, "is set by windlass"));
            }
            let text = value.read(&named(&setting))?;
            let mut header = HeaderValue::from_str(&text)
                .map_err(|_| refused(&setting, "contains a character that is not allowed in a header"))?;
            if !value.is_given() || crate::text::redact::is_secret_key(name) {
                header.set_sensitive(true);
                // The scheme before a credential is not secret, and the credential may appear without it.
                secrets.extend(text.split_whitespace().last().map(str::to_owned));
                secrets.push(text);
            }
            headers.insert(parsed, header);
        }
        let key = match &self.secret {
            None => None,
            Some(secret) => {
                let text = secret.read(&named("secret"))?;
                let key = Key::new(&text).map_err(|error| refused("secret", &error.to_string()))?;
                secrets.push(text);
                Some(key)
            }
        };
        Ok(Checked {
            url,
            method,
            headers,
            key,
            secrets,
            timeout: seconds("timeout", self.timeout, 86_400.0)?,
            lease: seconds("lease", self.lease.max(1.0), 86_400.0)?,
            allow,
            batch: self.batch,
            redirects: self.redirects,
            max_response_bytes: self.max_response_bytes,
            lookup: self.lookup.clone(),
        })
    }
}

/// Returns the IP address, if the host of the URL is one, in any notation.
pub(super) fn literal(url: &Url) -> Option<IpAddr> {
    url.host_str()?.trim_start_matches('[').trim_end_matches(']').parse().ok()
}

/// Returns the host and port of the connection for this URL.
pub(super) fn place(url: &Url) -> (String, u16) {
    let host = url.host_str().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
    (host.to_ascii_lowercase(), url.port_or_known_default().unwrap_or_default())
}

fn read_allowed(entry: &str) -> Option<(String, u16)> {
    let (host, port) = entry.rsplit_once(':')?;
    let port = port.parse().ok().filter(|port| *port > 0)?;
    // Parsed like a URL, so that the two compare equal.
    let url = Url::parse(&format!("http://{host}:{port}/")).ok()?;
    (url.path() == "/" && url.username().is_empty()).then(|| (place(&url).0, port))
}
