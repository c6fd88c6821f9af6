//! What every handler shares.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::OnceCell;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;
use windlass::{Places, Pull, Queue};

use super::bodies::Bodies;
use super::everyone::Everyone;
use super::heavy::{Heavy, usual_heavy};
use super::limits::Rates;
use super::refusals::{Refusal, Refusals};
use super::searches::Searches;
use crate::auth::{Attempts, Authenticator, JwtSettings};
use crate::hooks::Hooks;
use crate::server::Proxies;
use crate::web::Pulses;

/// The server's state; cheap to clone.
#[derive(Debug, Clone)]
pub struct App {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    queue: Queue,
    options: Options,
    authenticator: Authenticator,
    bodies: Bodies,
    rates: Rates,
    searches: Searches,
    heavy: Heavy,
    attempts: Attempts,
    refusals: Refusals,
    pull: OnceCell<Pull>,
    pulses: Pulses,
    streams: Places<Uuid>,
    counted: Everyone,
    stopping: CancellationToken,
}

/// How the server treats requests.
#[derive(Debug, Clone)]
pub struct Options {
    /// The largest body that is read.
    pub max_body_bytes: usize,
    /// How many bytes of bodies are held at once. At least four times as many as one body may have.
    pub body_bytes_at_once: usize,
    /// How long a client may take to send a request's head, and its body.
    pub header_timeout: Duration,
    pub body_timeout: Duration,
    /// How long a connection may stay open without a request.
    pub idle_timeout: Duration,
    /// How long an answer may take; a stream's first bytes, a long poll beyond its own wait.
    pub request_timeout: Duration,
    /// Requests per minute of one credential; of a tenant, see its own setting.
    pub requests_per_minute: u32,
    /// Whose JWTs are taken; nobody's, if not given.
    pub jwt: Option<JwtSettings>,
    /// Through which other services may emit events; none, if not given.
    pub hooks: Arc<Hooks>,
    /// Cookies go over TLS only; for servers that are reached by it.
    pub secure_cookies: bool,
    /// Where people reach this server, for links; what their browser says, if not given.
    pub public_url: Option<String>,
    /// Open connections at once: of all, and of one address. Those of this machine and of proxies count for all only.
    pub max_connections: usize,
    pub max_connections_per_address: usize,
    /// Requests of one tenant with a large body, or that read, that are worked on at once.
    pub heavy_per_tenant: usize,
    /// Streams of one tenant that may be open at once.
    pub streams_per_tenant: usize,
    /// The proxies whose word about a client is taken.
    pub proxies: Arc<Proxies>,
    /// Whether `/metrics` is served, and how many tenants have series of their own in it.
    pub metrics: bool,
    pub metrics_tenants: usize,
    /// Whether `/ui/components` is served: the parts of the UI, for those who work on them.
    pub component_page: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            max_body_bytes: 4 * 1024 * 1024,
            body_bytes_at_once: 128 * 1024 * 1024,
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
            proxies: Arc::default(),
            metrics: true,
            metrics_tenants: 0,
            component_page: false,
        }
    }
}

impl App {
    pub fn new(queue: Queue, options: Options) -> Self {
        let queue = queue.for_callers();
        let authenticator = Authenticator::new(queue.clone(), options.jwt.clone(), options.secure_cookies);
        let bodies = Bodies::new(options.body_bytes_at_once);
        Self {
            inner: Arc::new(Inner {
                queue,
                streams: Places::new(options.streams_per_tenant),
                heavy: Heavy::new(options.heavy_per_tenant),
                bodies,
                options,
                authenticator,
                rates: Rates::default(),
                searches: Searches::default(),
                attempts: Attempts::default(),
                refusals: Refusals::default(),
                pull: OnceCell::new(),
                pulses: Pulses::default(),
                counted: Everyone::default(),
                stopping: CancellationToken::new(),
            }),
        }
    }

    pub fn queue(&self) -> &Queue {
        &self.inner.queue
    }

    pub fn options(&self) -> &Options {
        &self.inner.options
    }

    pub fn authenticator(&self) -> &Authenticator {
        &self.inner.authenticator
    }

    /// The service behind the worker protocol, started when the first worker asks for it.
    pub async fn pull(&self) -> windlass::Result<&Pull> {
        self.inner.pull.get_or_try_init(|| Pull::start(&self.inner.queue)).await
    }

    /// Told when the server stops: streams and long polls end then.
    pub fn stopping(&self) -> &CancellationToken {
        &self.inner.stopping
    }

    pub(crate) fn begin_stopping(&self) {
        self.inner.stopping.cancel();
    }

    pub(super) fn counted(&self) -> &Everyone {
        &self.inner.counted
    }

    /// The open streams of each tenant.
    pub(super) fn streams(&self) -> &Places<Uuid> {
        &self.inner.streams
    }

    pub(crate) fn pulses(&self) -> &Pulses {
        &self.inner.pulses
    }

    /// Writes a refused call into the audit trail.
    pub(crate) async fn refused(&self, refusal: Refusal) {
        self.inner.refusals.record(self, refusal).await;
    }

    /// What is left to be written when nobody asks any more.
    pub(crate) async fn end(&self) {
        self.inner.refusals.end(self).await;
    }

    /// Failed attempts to sign in.
    pub(crate) fn attempts(&self) -> &Attempts {
        &self.inner.attempts
    }

    /// The bytes of the bodies of requests under way.
    pub(super) fn bodies(&self) -> &Bodies {
        &self.inner.bodies
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
