//! The parts that `up`, `serve` and `keeper` are built from.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use windlass::keeper::{Keeper, KeeperSettings};
use windlass::{Queue, Settings};

use super::exit::{Exit, Failure};
use crate::auth::{Caller, JwtKeys, JwtSettings, Role, Secret, Who};
use crate::config::Configuration;
use crate::hooks::Hooks;
use crate::http::{self, App};
use crate::server::{Proxies, Running, Server};

/// Ctrl-C and SIGTERM; both are treated the same.
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())? })
    }

    pub(crate) async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

/// The routes of this program on a database, for commands that were given its URL.
pub(crate) async fn routes(
    configuration: &Configuration,
    settings: Settings,
) -> Result<axum::Router, Failure> {
    let queue = Queue::connect_as_operator(settings).await?;
    let caller = local_caller(queue.login().await?);
    Ok(http::in_process(&App::new(queue, options(configuration)?), caller))
}

pub(crate) async fn app(configuration: &Configuration, settings: Settings) -> Result<App, Failure> {
    let queue = Queue::connect_as(settings, &["windlass_server"]).await?;
    Ok(App::new(queue, options(configuration)?))
}

/// All permissions: the database password grants them anyway. The user name comes from the environment, the login from
/// the database.
fn local_caller(login: String) -> Caller {
    let user =
        std::env::var("USER").or_else(|_| std::env::var("LOGNAME")).unwrap_or_else(|_| "unknown".to_owned());
    Caller::new(Who::Local { user, login }, Role::SuperAdmin)
}

/// The issuer whose JWTs are accepted. The check of the configuration guarantees that related settings are set together.
fn jwt(configuration: &Configuration) -> Option<JwtSettings> {
    let auth = &configuration.auth;
    let keys = match (&auth.jwt_secret, &auth.jwks_url) {
        (Some(secret), _) => JwtKeys::Secret(Secret::new(secret.expose())),
        (None, Some(address)) => JwtKeys::Jwks(address.clone()),
        (None, None) => return None,
    };
    Some(JwtSettings {
        keys,
        issuer: auth.jwt_issuer.clone()?,
        audience: auth.jwt_audience.clone()?,
        tenant_claim: auth.jwt_tenant_claim.clone(),
        role_claim: auth.jwt_role_claim.clone(),
    })
}

fn options(configuration: &Configuration) -> Result<http::Options, Failure> {
    let limits = &configuration.limits;
    let hooks = configuration.events.hooks.as_deref().map(Hooks::load).transpose();
    let hooks = hooks.map_err(Failure::usage)?.unwrap_or_default();
    Ok(http::Options {
        max_body_bytes: limits.body_bytes,
        body_bytes_at_once: limits.body_bytes_at_once,
        header_timeout: Duration::from_secs(limits.header_seconds),
        body_timeout: Duration::from_secs(limits.body_seconds),
        idle_timeout: Duration::from_secs(limits.idle_seconds),
        request_timeout: Duration::from_secs(limits.request_seconds),
        requests_per_minute: limits.requests_per_minute,
        max_connections: limits.connections,
        max_connections_per_address: limits.address_connections,
        heavy_per_tenant: limits.tenant_requests.unwrap_or_else(http::usual_heavy),
        streams_per_tenant: limits.tenant_streams,
        proxies: Arc::new(proxies(configuration)?),
        metrics: configuration.metrics.enabled,
        metrics_tenants: configuration.metrics.tenants,
        component_page: configuration.http.component_page,
        jwt: jwt(configuration),
        secure_cookies: is_reached_by_tls(configuration),
        public_url: configuration.http.public_url.clone(),
        hooks: Arc::new(hooks),
        ..http::Options::default()
    })
}

fn proxies(configuration: &Configuration) -> Result<Proxies, Failure> {
    let given = configuration.http.trusted_proxies.as_deref().unwrap_or_default();
    given.parse().map_err(|error: String| Failure::usage(format!("http.trusted_proxies: {error}")))
}

/// By its own certificate, or by that of a proxy in front of it.
fn is_reached_by_tls(configuration: &Configuration) -> bool {
    let http = &configuration.http;
    http.tls_certificate.is_some() || http.public_url.as_ref().is_some_and(|url| url.starts_with("https://"))
}

/// Binds the configured address. Before a keeper or a worker is started, so that there is nothing to stop if it fails.
pub(crate) async fn bind(configuration: &Configuration) -> Result<TcpListener, Failure> {
    let listen = configuration.http.listen;
    TcpListener::bind(listen).await.map_err(|error| {
        let failure = Failure::new(Exit::Unreachable, format!("cannot listen on {listen}: {error}"));
        match error.kind() {
            io::ErrorKind::AddrInUse => failure
                .advise("the address is in use: choose another, or a free port with --listen 127.0.0.1:0"),
            _ => failure.advise("choose an address of this machine with --listen"),
        }
    })
}

/// Serves the app on a bound address.
pub(crate) fn serve(
    app: App,
    configuration: &Configuration,
    listener: TcpListener,
) -> Result<Running, Failure> {
    Ok(Server::start_with(app, listener, tls(configuration)?)?)
}

fn tls(configuration: &Configuration) -> Result<Option<Arc<rustls::ServerConfig>>, Failure> {
    use rustls::pki_types::pem::PemObject;
    use rustls::pki_types::{CertificateDer, PrivateKeyDer};

    let http = &configuration.http;
    let (Some(certificate), Some(key)) = (&http.tls_certificate, &http.tls_key) else { return Ok(None) };
    let bad =
        |path: &Path, error: &dyn std::fmt::Display| Failure::usage(format!("{}: {error}", path.display()));
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_file_iter(certificate)
        .and_then(Iterator::collect)
        .map_err(|error| bad(certificate, &error))?;
    let secret = PrivateKeyDer::from_pem_file(key).map_err(|error| bad(key, &error))?;
    let mut tls = rustls::ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(chain, secret)
        .map_err(|error| bad(certificate, &error))?;
    tls.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Some(Arc::new(tls)))
}

/// Background tasks, all stopped by one token.
pub(crate) struct Background {
    stop: CancellationToken,
    tasks: Vec<JoinHandle<()>>,
}

impl Background {
    /// Starts the background task of the metrics, and their own listener if one is configured.
    pub(crate) async fn start(configuration: &Configuration, queue: &Queue) -> Result<Self, Failure> {
        crate::metrics::recorder();
        let stop = CancellationToken::new();
        let mut tasks = vec![tokio::spawn(crate::metrics::upkeep(stop.clone()))];
        if let Some(listen) = configuration.metrics.listen {
            let listener = TcpListener::bind(listen).await.map_err(|error| {
                Failure::new(Exit::Unreachable, format!("cannot listen on {listen} for metrics: {error}"))
            })?;
            let routes = crate::metrics::routes(queue.clone(), configuration.metrics.tenants);
            let until = stop.clone();
            tasks.push(tokio::spawn(async move {
                let served =
                    axum::serve(listener, routes).with_graceful_shutdown(until.cancelled_owned()).await;
                if let Err(error) = served {
                    tracing::error!(%error, "the metrics endpoint stopped");
                }
            }));
        }
        Ok(Self { stop, tasks })
    }

    pub(crate) fn run_keeper(&mut self, queue: &Queue) {
        let keeper = Keeper::new(queue.clone(), KeeperSettings::default());
        self.tasks.push(tokio::spawn(keeper.run(self.stop.clone())));
    }

    /// Sends the spans of this worker's jobs to the collector, if one is configured.
    #[cfg(feature = "otel")]
    pub(crate) fn trace(&mut self, configuration: &Configuration, worker: &windlass::Worker) {
        if let Some(endpoint) = &configuration.traces.endpoint {
            let export = crate::traces::export(endpoint.clone(), worker.subscribe(), self.stop.clone());
            self.tasks.push(tokio::spawn(export));
        }
    }

    /// This build has no traces; the check of the configuration rejects an endpoint.
    #[cfg(not(feature = "otel"))]
    #[expect(clippy::unused_self, reason = "the same call in every build")]
    pub(crate) fn trace(&mut self, _: &Configuration, _: &windlass::Worker) {}

    pub(crate) fn spawn(&mut self, task: impl Future<Output = ()> + Send + 'static) {
        self.tasks.push(tokio::spawn(task));
    }

    pub(crate) fn token(&self) -> CancellationToken {
        self.stop.clone()
    }

    pub(crate) async fn stop(self) {
        self.stop.cancel();
        for task in self.tasks {
            // A panicked task has already been reported.
            let _ = task.await;
        }
    }
}

/// The address as a URL.
pub(crate) fn address(configuration: &Configuration, bound: std::net::SocketAddr) -> String {
    let scheme = if configuration.http.tls_certificate.is_some() { "https" } else { "http" };
    format!("{scheme}://{bound}")
}
