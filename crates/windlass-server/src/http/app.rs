//! The state that all handlers share.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::OnceCell;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;
use windlass::Queue;
use windlass::internals::Slots;
use windlass::pull::Pull;

use super::anonymous::Anonymous;
use super::bodies::Bodies;
use super::denials::{Denial, Denials};
use super::health::Readiness;
use super::heavy::{Heavy, usual_heavy};
use super::limits::Rates;
use super::overview_cache::OverviewCache;
use super::searches::Searches;
use super::unsent_responses::UnsentResponses;
use crate::auth::{Authenticator, JwtSettings, SignInAttempts};
use crate::hooks::Hooks;
use crate::server::Proxies;
use crate::web::Pulses;

/// The server's state; cheap to clone.
#[derive(Debug, Clone)]
pub struct App {
    inner: Arc<AppState>,
}

#[derive(Debug)]
struct AppState {
    queue: Queue,
    options: Options,
    authenticator: Authenticator,
    bodies: Bodies,
    unsent: UnsentResponses,
    readiness: Readiness,
    rates: Rates,
    searches: Searches,
    heavy: Heavy,
    attempts: SignInAttempts,
    denials: Denials,
    pull: OnceCell<Pull>,
    pulses: Pulses,
    streams: Slots<Uuid>,
    waiting_claims: Slots<Uuid>,
    anonymous: Anonymous,
    counted: OverviewCache,
    stopping: CancellationToken,
}

/// The options of the server.
#[derive(Debug, Clone)]
pub struct Options {
    /// The maximum size of a request body.
    pub max_body_bytes: usize,
    /// The maximum total size of the request bodies in memory. At least eight times the maximum of one body.
    pub body_bytes_at_once: usize,
    /// The maximum total size of the responses to known callers that are not sent yet.
    pub response_bytes_at_once: usize,
    /// How long a client may take to send the head of a request.
    pub header_timeout: Duration,
    /// How long a client may take to send the body, and to receive the next part of a response if the memory is needed.
    pub body_timeout: Duration,
    /// How long a connection may stay open without a request.
    pub idle_timeout: Duration,
    /// The timeout of a response: of the first bytes of a stream, and of a long poll in addition to its wait.
    pub request_timeout: Duration,
    /// Requests per minute of one credential. The limit of a tenant is a setting of the tenant.
    pub requests_per_minute: u32,
    /// The issuer whose JWTs are accepted; if not given, none are.
    pub jwt: Option<JwtSettings>,
    /// The webhooks through which other services can emit events.
    pub hooks: Arc<Hooks>,
    /// Cookies are sent over TLS only; for servers that are reached over TLS.
    pub secure_cookies: bool,
    /// The public URL of this server, for links; if not given, the URL of the request.
    pub public_url: Option<String>,
    /// The maximum number of open connections.
    pub max_connections: usize,
    /// The maximum number of open connections of one address, except localhost and proxies.
    pub max_connections_per_address: usize,
    /// The maximum number of concurrent reads, and of requests with a large body, of one tenant.
    pub heavy_per_tenant: usize,
    /// The maximum number of open streams of one tenant.
    pub streams_per_tenant: usize,
    /// The maximum number of concurrent responses to reads without a credential.
    pub anonymous_at_once: usize,
    /// The maximum number of them of one network, except localhost.
    pub anonymous_per_network: usize,
    /// The proxies that are trusted to report the client address.
    pub proxies: Arc<Proxies>,
    /// Whether `/metrics` is served.
    pub metrics: bool,
    /// The number of tenants with their own series in `/metrics`.
    pub metrics_tenants: usize,
    /// Whether `/ui/components` is served: the components of the UI, for development.
    pub component_page: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            max_body_bytes: 4 * 1024 * 1024,
            body_bytes_at_once: 128 * 1024 * 1024,
            response_bytes_at_once: 128 * 1024 * 1024,
            header_timeout: Duration::from_secs(10),
            body_timeout: Duration::from_secs(30),
            idle_timeout: Duration::from_secs(60),
            request_timeout: Duration::from_secs(30),
            requests_per_minute: 60_000,
            jwt: None,
            hooks: Arc::default(),
            secure_cookies: false,
            public_url: None,
            max_connections: 10_000,
            max_connections_per_address: 1000,
            heavy_per_tenant: usual_heavy(),
            streams_per_tenant: 100,
            anonymous_at_once: 1024,
            anonymous_per_network: 64,
            proxies: Arc::default(),
            metrics: true,
            metrics_tenants: 0,
            component_page: false,
        }
    }
}

impl App {
    /// Creates the state of a server on a queue.
    pub fn new(queue: Queue, options: Options) -> Self {
        let queue = queue.for_callers();
        let authenticator = Authenticator::new(queue.clone(), options.jwt.clone(), options.secure_cookies);
        let bodies = Bodies::new(options.body_bytes_at_once);
        Self {
            inner: Arc::new(AppState {
                queue,
                streams: Slots::new(options.streams_per_tenant),
                // Only counted: the library limits them.
                waiting_claims: Slots::new(usize::MAX),
                anonymous: Anonymous::new(options.anonymous_at_once, options.anonymous_per_network),
                heavy: Heavy::new(options.heavy_per_tenant),
                bodies,
                unsent: UnsentResponses::new(options.response_bytes_at_once, options.body_timeout),
                readiness: Readiness::default(),
                options,
                authenticator,
                rates: Rates::default(),
                searches: Searches::default(),
                attempts: SignInAttempts::default(),
                denials: Denials::default(),
                pull: OnceCell::new(),
                pulses: Pulses::default(),
                counted: OverviewCache::default(),
                stopping: CancellationToken::new(),
            }),
        }
    }

    /// Returns the queue.
    pub fn queue(&self) -> &Queue {
        &self.inner.queue
    }

    /// Returns the options.
    pub fn options(&self) -> &Options {
        &self.inner.options
    }

    pub(crate) fn authenticator(&self) -> &Authenticator {
        &self.inner.authenticator
    }

    /// The service behind the worker protocol, started by the first request of a worker.
    pub async fn pull(&self) -> windlass::Result<&Pull> {
        self.inner.pull.get_or_try_init(|| Pull::start(&self.inner.queue)).await
    }

    /// Canceled when the server stops: streams and long polls end then.
    pub fn stopping(&self) -> &CancellationToken {
        &self.inner.stopping
    }

    pub(crate) fn begin_stopping(&self) {
        self.inner.stopping.cancel();
    }

    pub(super) fn counted(&self) -> &OverviewCache {
        &self.inner.counted
    }

    /// The open streams of each tenant.
    pub(super) fn streams(&self) -> &Slots<Uuid> {
        &self.inner.streams
    }

    /// The waiting claims of each tenant.
    pub(super) fn waiting_claims(&self) -> &Slots<Uuid> {
        &self.inner.waiting_claims
    }

    /// The reads without a credential that are in progress.
    pub(super) fn anonymous(&self) -> &Anonymous {
        &self.inner.anonymous
    }

    pub(crate) fn pulses(&self) -> &Pulses {
        &self.inner.pulses
    }

    /// Records a denied call in the audit trail.
    pub(crate) async fn record_denial(&self, denial: Denial) {
        self.inner.denials.record(self, denial).await;
    }

    /// Writes what is left after the last request, and stops the service of pull workers: it releases the jobs that
    /// reached no worker.
    pub(crate) async fn end(&self) {
        let pull = async {
            if let Some(pull) = self.inner.pull.get() {
                pull.stop().await;
            }
        };
        tokio::join!(pull, self.inner.denials.end(self));
    }

    /// Failed attempts to sign in.
    pub(crate) fn attempts(&self) -> &SignInAttempts {
        &self.inner.attempts
    }

    /// The memory budget of the request bodies.
    pub(super) fn bodies(&self) -> &Bodies {
        &self.inner.bodies
    }

    /// The memory budget of the responses to known callers.
    pub(super) fn unsent(&self) -> &UnsentResponses {
        &self.inner.unsent
    }

    pub(super) fn readiness(&self) -> &Readiness {
        &self.inner.readiness
    }

    pub(crate) fn rates(&self) -> &Rates {
        &self.inner.rates
    }

    pub(super) fn heavy(&self) -> &Heavy {
        &self.inner.heavy
    }

    pub(crate) fn searches(&self) -> &Searches {
        &self.inner.searches
    }
}
