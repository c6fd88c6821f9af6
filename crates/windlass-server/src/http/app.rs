//! What every handler shares.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::OnceCell;
use tokio_util::sync::CancellationToken;
use windlass::{Pull, Queue};

use super::everyone::Everyone;
use super::limits::Rates;
use super::refusals::{Refusal, Refusals};
use crate::auth::{Authenticator, JwtSettings};
use crate::hooks::Hooks;
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
    rates: Rates,
    refusals: Refusals,
    pull: OnceCell<Pull>,
    pulses: Pulses,
    counted: Everyone,
    stopping: CancellationToken,
}

/// How the server treats requests.
#[derive(Debug, Clone)]
pub struct Options {
    /// The largest body that is read.
    pub max_body_bytes: usize,
    /// How long a client may take to send a request's head, and its body.
    pub header_timeout: Duration,
    pub body_timeout: Duration,
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
    /// Open connections at once.
    pub max_connections: usize,
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
            header_timeout: Duration::from_secs(10),
            body_timeout: Duration::from_secs(30),
            request_timeout: Duration::from_secs(30),
            requests_per_minute: 60_000,
            jwt: None,
            hooks: Arc::default(),
            secure_cookies: false,
            max_connections: 10_000,
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
        Self {
            inner: Arc::new(Inner {
                queue,
                options,
                authenticator,
                rates: Rates::default(),
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

    pub(crate) fn rates(&self) -> &Rates {
        &self.inner.rates
    }
}
