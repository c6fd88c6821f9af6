//! The settings of a windlass process: one structure, filled from flags, environment, file and defaults, in that order of
//! precedence. Its doc comments are the example file and the reference, so they are written for operators.

mod check;
mod layers;

use std::net::SocketAddr;
use std::path::PathBuf;

use confique::Config;

use crate::auth::Secret;

pub use layers::{Mistake, Place, Sourced, Sources, load};

/// Settings of a windlass process. Each can also be given as a variable of the environment; a flag of the command wins over
/// the variable, the variable over this file, and this file over the default. Times are in seconds.
#[derive(Debug, Config)]
pub struct Configuration {
    #[config(nested)]
    pub database: Database,
    #[config(nested)]
    pub http: Http,
    #[config(nested)]
    pub auth: Auth,
    #[config(nested)]
    pub events: Events,
    #[config(nested)]
    pub limits: Limits,
    #[config(nested)]
    pub worker: Worker,
    #[config(nested)]
    pub metrics: Metrics,
    #[config(nested)]
    pub logs: Logs,
    #[config(nested)]
    pub traces: Traces,
}

#[derive(Debug, Config)]
pub struct Database {
    /// The Postgres to use, as a postgresql:// URL. Several hosts may be named; the writable one is used. May be a pooler.
    #[config(env = "DATABASE_URL")]
    pub url: Option<Secret>,

    /// The server itself, where `url` is a pooler's: for migrations and wake-ups, which need a session of their own.
    #[config(env = "DIRECT_URL")]
    pub direct_url: Option<Secret>,

    /// Connections that this process may hold for its own calls.
    #[config(env = "WINDLASS_DATABASE_CONNECTIONS", default = 8)]
    pub connections: usize,
}

#[derive(Debug, Config)]
pub struct Http {
    /// Where the API and the pages are served.
    #[config(env = "WINDLASS_LISTEN", default = "127.0.0.1:8080")]
    pub listen: SocketAddr,

    /// The address under which people reach it, for links. Without it, links are made only for requests to an IP address or localhost.
    #[config(env = "WINDLASS_PUBLIC_URL")]
    pub public_url: Option<String>,

    /// A PEM file with the certificate chain; with `tls_key` the server speaks TLS.
    #[config(env = "WINDLASS_TLS_CERTIFICATE")]
    pub tls_certificate: Option<PathBuf>,

    /// A PEM file with the certificate's private key.
    #[config(env = "WINDLASS_TLS_KEY")]
    pub tls_key: Option<PathBuf>,

    /// The proxies in front of it, as addresses or networks separated by commas (10.0.0.0/8, ::1). Only from these it believes
    /// X-Forwarded-For, X-Forwarded-Proto and Forwarded: which client a request came from, and whether over TLS. With X-Forwarded-For,
    /// Forwarded is passed over; so a proxy that writes Forwarded has to remove the other.
    #[config(env = "WINDLASS_TRUSTED_PROXIES")]
    pub trusted_proxies: Option<String>,

    /// How long requests under way may take to finish when the server stops.
    #[config(env = "WINDLASS_STOP_SECONDS", default = 20)]
    pub stop_seconds: u64,

    /// Serves /ui/components, every part of the pages on one: for those who work on them.
    #[config(env = "WINDLASS_COMPONENT_PAGE", default = false)]
    pub component_page: bool,
}

#[derive(Debug, Config)]
pub struct Auth {
    /// The shared secret of HS256 tokens. Without this and `jwks_url` no JWT is accepted.
    #[config(env = "WINDLASS_JWT_SECRET")]
    pub jwt_secret: Option<Secret>,

    /// Where the public keys of RS256, ES256 or EdDSA tokens are fetched.
    #[config(env = "WINDLASS_JWKS_URL")]
    pub jwks_url: Option<String>,

    /// The issuer that a JWT must name.
    #[config(env = "WINDLASS_JWT_ISSUER")]
    pub jwt_issuer: Option<String>,

    /// The audience that a JWT must name.
    #[config(env = "WINDLASS_JWT_AUDIENCE")]
    pub jwt_audience: Option<String>,

    /// The claim that holds the tenant, with dots into nested claims.
    #[config(env = "WINDLASS_JWT_TENANT_CLAIM", default = "app_metadata.tenant_id")]
    pub jwt_tenant_claim: String,

    /// The claim that holds the role, with dots into nested claims.
    #[config(env = "WINDLASS_JWT_ROLE_CLAIM", default = "app_metadata.role")]
    pub jwt_role_claim: String,
}

#[derive(Debug, Config)]
pub struct Events {
    /// The file with the signed hooks through which other services may emit events.
    #[config(env = "WINDLASS_HOOKS_FILE")]
    pub hooks: Option<PathBuf>,
}

#[derive(Debug, Config)]
pub struct Limits {
    /// The largest request body, in bytes.
    #[config(env = "WINDLASS_BODY_BYTES", default = 4194304)]
    pub body_bytes: usize,

    /// Bytes of request bodies that the server holds at once, four times `body_bytes` or more. Nobody gets more than what is
    /// still free, and senders without a credential a quarter between them; beyond it the answer is 503 with Retry-After.
    #[config(env = "WINDLASS_BODY_BYTES_AT_ONCE", default = 134217728)]
    pub body_bytes_at_once: usize,

    /// Requests per minute of one credential. A tenant can have a limit of its own.
    #[config(env = "WINDLASS_REQUESTS_PER_MINUTE", default = 60000)]
    pub requests_per_minute: u32,

    /// How long one request may take, streams excepted.
    #[config(env = "WINDLASS_REQUEST_SECONDS", default = 30)]
    pub request_seconds: u64,

    /// How long a client may take to send a request's head.
    #[config(env = "WINDLASS_HEADER_SECONDS", default = 10)]
    pub header_seconds: u64,

    /// How long a client may take to send a request's body.
    #[config(env = "WINDLASS_BODY_SECONDS", default = 30)]
    pub body_seconds: u64,

    /// How long a connection may stay open without a request.
    #[config(env = "WINDLASS_IDLE_SECONDS", default = 60)]
    pub idle_seconds: u64,

    /// How long one statement of a request may take in the database.
    #[config(env = "WINDLASS_STATEMENT_SECONDS", default = 15)]
    pub statement_seconds: u64,

    /// Open connections at once.
    #[config(env = "WINDLASS_HTTP_CONNECTIONS", default = 10000)]
    pub connections: usize,

    /// Open connections of one address at once; of one network of 64 bits with IPv6. Trusted proxies and this machine have no such limit.
    #[config(env = "WINDLASS_ADDRESS_CONNECTIONS", default = 1000)]
    pub address_connections: usize,

    /// Requests of one tenant that are worked on at once if they read or have more than 32 KiB of body; others wait a while, and are then
    /// answered 429. If not given: two for each processor.
    #[config(env = "WINDLASS_TENANT_REQUESTS")]
    pub tenant_requests: Option<usize>,

    /// Streams (the counts, a job's log, a page that refreshes itself) of one tenant that may be open at once. One more is answered 429.
    #[config(env = "WINDLASS_TENANT_STREAMS", default = 100)]
    pub tenant_streams: usize,
}

#[derive(Debug, Config)]
pub struct Worker {
    /// The file with this worker's commands and HTTP jobs.
    #[config(env = "WINDLASS_WORKER_FILE")]
    pub file: Option<PathBuf>,

    /// How many jobs a worker runs at once.
    #[config(env = "WINDLASS_CONCURRENCY", default = 10)]
    pub concurrency: usize,

    /// How long running jobs may take to finish when the worker stops.
    #[config(env = "WINDLASS_GRACE_SECONDS", default = 30)]
    pub grace_seconds: u64,
}

#[derive(Debug, Config)]
pub struct Metrics {
    /// Serves /metrics to credentials with the permission `metrics:read`.
    #[config(env = "WINDLASS_METRICS", default = true)]
    pub enabled: bool,

    /// A second address for /metrics alone, answered without a token: for workers and keepers, or a private network.
    #[config(env = "WINDLASS_METRICS_LISTEN")]
    pub listen: Option<SocketAddr>,

    /// How many tenants have depth series of their own, largest first; the others are summed as `other`. 0 leaves tenants out.
    #[config(env = "WINDLASS_METRICS_TENANTS", default = 0)]
    pub tenants: usize,
}

#[derive(Debug, Config)]
pub struct Logs {
    /// `pretty` for people, `json` for machines, `auto` for pretty on a terminal and json elsewhere.
    #[config(env = "WINDLASS_LOG_FORMAT", default = "auto")]
    pub format: LogFormat,

    /// What is logged: a level, or directives such as `windlass=debug,hyper=warn`.
    #[config(env = "WINDLASS_LOG", default = "info")]
    pub filter: String,

    /// One line for every move of a job. If not given: yes in json, no in pretty.
    #[config(env = "WINDLASS_LOG_JOBS")]
    pub jobs: Option<bool>,
}

#[derive(Debug, Config)]
pub struct Traces {
    /// Where spans are sent (OTLP over HTTP, JSON), such as http://localhost:4318. Needs a build with the feature `otel`.
    #[config(env = "OTEL_EXPORTER_OTLP_ENDPOINT")]
    pub endpoint: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    Auto,
    Pretty,
    Json,
}

/// The commented file that `windlass config example` prints.
#[must_use]
pub fn example() -> String {
    confique::toml::template::<Configuration>(confique::toml::FormatOptions::default())
}

/// One setting, for the reference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    pub key: String,
    pub variable: &'static str,
    pub default: String,
    pub meaning: String,
}

/// Every setting, in the order of the example file.
#[must_use]
pub fn settings() -> Vec<Setting> {
    layers::leaves()
        .map(|leaf| Setting {
            key: leaf.key(),
            variable: leaf.variable,
            default: leaf.default.unwrap_or_else(|| "–".to_owned()),
            meaning: leaf.doc.join(" ").trim().to_owned(),
        })
        .collect()
}
