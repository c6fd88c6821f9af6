//! The configuration of a windlass process: one structure, filled from flags, environment, file and defaults, in that order of
//! precedence. Its doc comments become the example file and the reference, so they are written for operators.

mod check;
mod layers;
mod spelling;

use std::net::SocketAddr;
use std::path::PathBuf;

use confique::Config;

use crate::auth::Secret;

pub(crate) use layers::{ConfigError, Location, Sourced, Sources, load};

/// Settings of a windlass process. Each can also be set as an environment variable. A command-line flag takes precedence over
/// the variable, the variable over this file, and this file over the default. Times are in seconds.
#[derive(Debug, Config)]
pub(crate) struct Configuration {
    #[config(nested)]
    pub(crate) database: Database,
    #[config(nested)]
    pub(crate) http: Http,
    #[config(nested)]
    pub(crate) auth: Auth,
    #[config(nested)]
    pub(crate) events: EventSettings,
    #[config(nested)]
    pub(crate) limits: LimitSettings,
    #[config(nested)]
    pub(crate) worker: WorkerSettings,
    #[config(nested)]
    pub(crate) metrics: Metrics,
    #[config(nested)]
    pub(crate) logs: Logs,
    #[config(nested)]
    pub(crate) traces: Traces,
}

#[derive(Debug, Config)]
pub(crate) struct Database {
    /// The Postgres database, as a postgresql:// URL. If it has several hosts, the writable one is used. Can be a pooler.
    #[config(env = "DATABASE_URL")]
    pub(crate) url: Option<Secret>,

    /// A direct connection, if `url` is a pooler: for migrations and notifications, which need their own session.
    #[config(env = "DIRECT_URL")]
    pub(crate) direct_url: Option<Secret>,

    /// The maximum number of database connections of this process.
    #[config(env = "WINDLASS_DATABASE_CONNECTIONS", default = 8)]
    pub(crate) connections: usize,
}

#[derive(Debug, Config)]
pub(crate) struct Http {
    /// The address on which the API and the web UI are served.
    #[config(env = "WINDLASS_LISTEN", default = "127.0.0.1:8080")]
    pub(crate) listen: SocketAddr,

    /// The public URL of the server, for links. Without it, links are created only for requests to an IP address or localhost.
    #[config(env = "WINDLASS_PUBLIC_URL")]
    pub(crate) public_url: Option<String>,

    /// A PEM file with the certificate chain. Together with `tls_key` it enables TLS.
    #[config(env = "WINDLASS_TLS_CERTIFICATE")]
    pub(crate) tls_certificate: Option<PathBuf>,

    /// A PEM file with the private key of the certificate.
    #[config(env = "WINDLASS_TLS_KEY")]
    pub(crate) tls_key: Option<PathBuf>,

    /// The proxies in front of the server, as addresses or networks separated by commas (10.0.0.0/8, ::1). Only they are trusted
    /// to report the client address and TLS with X-Forwarded-For, X-Forwarded-Proto and Forwarded. If X-Forwarded-For is present,
    /// Forwarded is ignored; so a proxy that sets Forwarded must remove the other.
    #[config(env = "WINDLASS_TRUSTED_PROXIES")]
    pub(crate) trusted_proxies: Option<String>,

    /// How long requests in progress may take to finish when the server stops.
    #[config(env = "WINDLASS_STOP_SECONDS", default = 20)]
    pub(crate) stop_seconds: u64,

    /// Serves /ui/components, a page with every component of the web UI: for development.
    #[config(env = "WINDLASS_COMPONENT_PAGE", default = false)]
    pub(crate) component_page: bool,
}

#[derive(Debug, Config)]
pub(crate) struct Auth {
    /// The shared secret of HS256 tokens. Without this and `jwks_url` no JWT is accepted.
    #[config(env = "WINDLASS_JWT_SECRET")]
    pub(crate) jwt_secret: Option<Secret>,

    /// The URL of the public keys (JWKS) of RS256, ES256 or EdDSA tokens.
    #[config(env = "WINDLASS_JWKS_URL")]
    pub(crate) jwks_url: Option<String>,

    /// The issuer (`iss`) that a JWT must have.
    #[config(env = "WINDLASS_JWT_ISSUER")]
    pub(crate) jwt_issuer: Option<String>,

    /// The audience (`aud`) that a JWT must have.
    #[config(env = "WINDLASS_JWT_AUDIENCE")]
    pub(crate) jwt_audience: Option<String>,

    /// The claim with the tenant; dots select nested claims.
    #[config(env = "WINDLASS_JWT_TENANT_CLAIM", default = "app_metadata.tenant_id")]
    pub(crate) jwt_tenant_claim: String,

    /// The claim with the role; dots select nested claims.
    #[config(env = "WINDLASS_JWT_ROLE_CLAIM", default = "app_metadata.role")]
    pub(crate) jwt_role_claim: String,
}

#[derive(Debug, Config)]
pub(crate) struct EventSettings {
    /// The file with the signed webhooks through which other services can emit events.
    #[config(env = "WINDLASS_HOOKS_FILE")]
    pub(crate) hooks: Option<PathBuf>,
}

#[derive(Debug, Config)]
pub(crate) struct LimitSettings {
    /// The maximum size of a request body, in bytes.
    #[config(env = "WINDLASS_BODY_BYTES", default = 4194304)]
    pub(crate) body_bytes: usize,

    /// The maximum total size of the request bodies in memory, in bytes; at least eight times `body_bytes`. No tenant can use more
    /// than is still free, and requests without a credential share a quarter; beyond that the response is 503 with Retry-After.
    #[config(env = "WINDLASS_BODY_BYTES_AT_ONCE", default = 134217728)]
    pub(crate) body_bytes_at_once: usize,

    /// The maximum number of requests per minute of one credential. A tenant can have its own limit.
    #[config(env = "WINDLASS_REQUESTS_PER_MINUTE", default = 60000)]
    pub(crate) requests_per_minute: u32,

    /// The timeout of a request, except for streams.
    #[config(env = "WINDLASS_REQUEST_SECONDS", default = 30)]
    pub(crate) request_seconds: u64,

    /// How long a client may take to send the headers of a request.
    #[config(env = "WINDLASS_HEADER_SECONDS", default = 10)]
    pub(crate) header_seconds: u64,

    /// How long a client may take to send the body of a request, or to receive the next part of a response.
    #[config(env = "WINDLASS_BODY_SECONDS", default = 30)]
    pub(crate) body_seconds: u64,

    /// How long a connection may stay open without a request.
    #[config(env = "WINDLASS_IDLE_SECONDS", default = 60)]
    pub(crate) idle_seconds: u64,

    /// The timeout of one database statement of a request.
    #[config(env = "WINDLASS_STATEMENT_SECONDS", default = 15)]
    pub(crate) statement_seconds: u64,

    /// The maximum number of open connections. A further one replaces the one that has been idle for the longest time.
    #[config(env = "WINDLASS_HTTP_CONNECTIONS", default = 10000)]
    pub(crate) connections: usize,

    /// The maximum number of open connections of one address (with IPv6, of one /64 network; twice as many of a /56, four times as many of a /48). Trusted proxies and localhost are not limited.
    #[config(env = "WINDLASS_ADDRESS_CONNECTIONS", default = 1000)]
    pub(crate) address_connections: usize,

    /// The maximum number of concurrent reads, and of requests with a body over 32 KiB, of one tenant. Further ones wait for a
    /// while and are then rejected with 429. While another tenant sends such requests, half of it. Default: one per processor.
    #[config(env = "WINDLASS_TENANT_REQUESTS")]
    pub(crate) tenant_requests: Option<usize>,

    /// The maximum number of open streams (counts, job logs, live pages) of one tenant. Further ones are rejected with 429.
    #[config(env = "WINDLASS_TENANT_STREAMS", default = 100)]
    pub(crate) tenant_streams: usize,
}

#[derive(Debug, Config)]
pub(crate) struct WorkerSettings {
    /// The worker file: the commands and HTTP calls of this worker.
    #[config(env = "WINDLASS_WORKER_FILE")]
    pub(crate) file: Option<PathBuf>,

    /// The maximum number of jobs that a worker runs at the same time.
    #[config(env = "WINDLASS_CONCURRENCY", default = 10)]
    pub(crate) concurrency: usize,

    /// How long running jobs may take to finish when the worker stops.
    #[config(env = "WINDLASS_GRACE_SECONDS", default = 30)]
    pub(crate) grace_seconds: u64,
}

#[derive(Debug, Config)]
pub(crate) struct Metrics {
    /// Serves /metrics to credentials with the permission `metrics:read`.
    #[config(env = "WINDLASS_METRICS", default = true)]
    pub(crate) enabled: bool,

    /// A separate address that serves only /metrics, without a token: for workers and keepers, or a private network.
    #[config(env = "WINDLASS_METRICS_LISTEN")]
    pub(crate) listen: Option<SocketAddr>,

    /// The number of tenants with their own series of job counts, largest first; the rest are summed as `other`. 0 disables them.
    #[config(env = "WINDLASS_METRICS_TENANTS", default = 0)]
    pub(crate) tenants: usize,
}

#[derive(Debug, Config)]
pub(crate) struct Logs {
    /// `pretty` for people, `json` for machines, `auto` for pretty on a terminal and json elsewhere.
    #[config(env = "WINDLASS_LOG_FORMAT", default = "auto")]
    pub(crate) format: LogFormat,

    /// The log filter: a level, or directives such as `windlass=debug,hyper=warn`.
    #[config(env = "WINDLASS_LOG", default = "info")]
    pub(crate) filter: String,

    /// Log every state change of a job. Default: true for json, false for pretty.
    #[config(env = "WINDLASS_LOG_JOBS")]
    pub(crate) jobs: Option<bool>,
}

#[derive(Debug, Config)]
pub(crate) struct Traces {
    /// The collector of traces (OTLP over HTTP, JSON), such as http://localhost:4318. Requires a build with the feature `otel`.
    #[config(env = "OTEL_EXPORTER_OTLP_ENDPOINT")]
    pub(crate) endpoint: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LogFormat {
    Auto,
    Pretty,
    Json,
}

/// The commented file that `windlass config example` prints.
#[must_use]
pub(crate) fn example() -> String {
    confique::toml::template::<Configuration>(confique::toml::FormatOptions::default())
}

/// One setting, for the reference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// Its name in the file, with dots.
    pub key: String,
    /// Its environment variable.
    pub variable: &'static str,
    /// Its default, or a dash.
    pub default: String,
    /// Its description.
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
