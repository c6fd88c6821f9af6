//! Binds and serves: HTTP/1.1 and HTTP/2, with or without TLS.
//!
//! How it stops: [`Running::stop`] accepts no more connections and waits for the requests in progress, up to a given time; the
//! rest is aborted. Streams end immediately. Then it writes what the requests have recorded: see [`App::end`].

mod admission;
mod idle;
mod origin;
mod unread;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::ConnectInfo;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

use admission::Admission;
pub(crate) use admission::network_of;
use idle::{Activity, Receiving, TimedResponse, Timeouts};
pub(crate) use origin::OverTls;
pub use origin::Proxies;
pub(crate) use origin::client_of;
use unread::Noted;

use crate::http::{App, MAX_WAIT, router};

/// The concurrent requests of one HTTP/2 connection: a browser or a client library needs fewer.
const MAX_STREAMS: u32 = 50;

/// Starts servers.
#[derive(Debug)]
pub struct Server;

/// A server that runs until stopped.
#[derive(Debug)]
pub struct Running {
    address: SocketAddr,
    stop: Stop,
    task: JoinHandle<()>,
}

/// Accept no more connections; and abort the requests in progress.
#[derive(Debug, Clone, Default)]
struct Stop {
    accepting: CancellationToken,
    requests: CancellationToken,
}

/// How long the end may take after the requests were aborted.
const END_WITHIN: Duration = Duration::from_secs(5);

impl Server {
    /// Serves the app on a bound listener.
    pub fn start(app: App, listener: TcpListener) -> io::Result<Running> {
        Self::start_with(app, listener, None)
    }

    /// The same with TLS, if a configuration is given. It should offer `h2` and `http/1.1`.
    pub fn start_with(
        app: App,
        listener: TcpListener,
        tls: Option<Arc<rustls::ServerConfig>>,
    ) -> io::Result<Running> {
        let address = listener.local_addr()?;
        let stop = Stop::default();
        let task = tokio::spawn(accept(app, listener, tls.map(TlsAcceptor::from), stop.clone()));
        Ok(Running { address, stop, task })
    }
}

impl Running {
    /// Returns the address that it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Stops; waits at most this long for the requests in progress.
    pub async fn stop(self, grace: Duration) {
        self.stop.accepting.cancel();
        let mut task = self.task;
        if tokio::time::timeout(grace, &mut task).await.is_ok() {
            return;
        }
        tracing::warn!("requests in progress were aborted after {grace:?}");
        self.stop.requests.cancel();
        if tokio::time::timeout(END_WITHIN, &mut task).await.is_err() {
            tracing::warn!(
                "the database did not respond: denied calls and released jobs may not be recorded"
            );
            task.abort();
        }
    }
}

async fn accept(app: App, listener: TcpListener, tls: Option<TlsAcceptor>, stop: Stop) {
    let graceful = GracefulShutdown::new();
    let proxies = app.options().proxies.clone();
    let serving =
        Serving { server: protocols(&app), router: router(&app), tls, proxies, timeouts: timeouts(&app) };
    let admission = Admission::new(app.options().max_connections, app.options().max_connections_per_address);
    let mut connections = tokio::task::JoinSet::new();
    loop {
        let (stream, from) = tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    // Most likely out of file descriptors: wait until one is free.
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                }
            },
            () = stop.accepting.cancelled() => break,
        };
        while connections.try_join_next().is_some() {}
        let activity = Activity::default();
        // A proxy has the connections of all clients, and local processes are trusted.
        let is_counted = !serving.proxies.contains(from.ip()) && !from.ip().to_canonical().is_loopback();
        let admitted = tokio::select! {
            admitted = admission.admit(is_counted.then_some(from.ip()), &activity) => admitted,
            () = stop.accepting.cancelled() => break,
        };
        let Some(admitted) = admitted else {
            tracing::debug!(%from, "connection limit of the address reached");
            continue;
        };
        let connection = serving.clone().serve(stream, from, activity, graceful.watcher());
        connections.spawn(async move {
            let admitted = admitted;
            tokio::select! {
                () = connection => {}
                () = admitted.replaced.cancelled() => {
                    tracing::debug!(%from, "closed an idle connection for a new one");
                }
            }
        });
    }
    drop(listener);
    app.begin_stopping();
    tokio::select! {
        () = graceful.shutdown() => {}
        () = stop.requests.cancelled() => connections.shutdown().await,
    }
    app.end().await;
}

/// The limits of HTTP/1 and HTTP/2.
fn protocols(app: &App) -> auto::Builder<TokioExecutor> {
    let mut server = auto::Builder::new(TokioExecutor::new());
    server
        .http1()
        .timer(TokioTimer::new())
        // It counts from the end of the previous response, so it cannot be shorter than the idle timeout. The shorter one is in
        // `timeouts`.
        .header_read_timeout(app.options().header_timeout.max(app.options().idle_timeout))
        .max_buf_size(64 * 1024)
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(Duration::from_secs(20))
        .max_header_list_size(64 * 1024)
        .max_concurrent_streams(MAX_STREAMS);
    server
}

/// What every connection is served with.
#[derive(Clone)]
struct Serving {
    server: auto::Builder<TokioExecutor>,
    router: Router,
    tls: Option<TlsAcceptor>,
    proxies: Arc<Proxies>,
    timeouts: Timeouts,
}

impl Serving {
    /// Serves the requests of one connection until it ends, or until it was idle for too long.
    async fn serve(self, stream: TcpStream, from: SocketAddr, activity: Activity, watcher: Watcher) {
        let Self { server, router, tls, proxies, timeouts } = self;
        let _ = stream.set_nodelay(true);
        let is_tls = tls.is_some();
        let Some(stream) = handshake(stream, tls, timeouts.head).await else { return };
        let stream = TokioIo::new(Receiving { stream, activity: activity.clone() });
        let requests = activity.clone();
        let service = hyper::service::service_fn(move |request: hyper::Request<hyper::body::Incoming>| {
            let router = router.clone();
            let in_progress = requests.begin(request.version());
            let (client, over_tls) = proxies.origin(from.ip(), is_tls, request.headers());
            async move {
                let (head, body) = request.into_parts();
                let (body, reading) = Noted::new(body, head.version);
                let mut request = hyper::Request::from_parts(head, axum::body::Body::new(body));
                request.extensions_mut().insert(ConnectInfo(SocketAddr::new(client, from.port())));
                request.extensions_mut().insert(over_tls);
                let mut response = router.oneshot(request).await?;
                reading.finish(response.headers_mut());
                Ok::<_, std::convert::Infallible>(response.map(|body| TimedResponse { body, in_progress }))
            }
        });
        let serving = server.serve_connection_with_upgrades(stream, service).into_owned();
        let ended = tokio::select! {
            ended = watcher.watch(serving) => ended,
            () = activity.timed_out(timeouts) => {
                tracing::debug!(%from, "closed an idle connection");
                return;
            }
        };
        if let Err(error) = ended {
            tracing::debug!(%error, %from, "a connection ended early");
        }
    }
}

/// A long poll may wait and then take the time of a request; requests in progress are checked only after that.
fn timeouts(app: &App) -> Timeouts {
    let options = app.options();
    Timeouts {
        head: options.header_timeout,
        between: options.idle_timeout,
        in_progress: options.request_timeout + options.body_timeout + MAX_WAIT,
    }
}

type Stream = Box<dyn ReadWrite>;

/// A socket, with or without TLS.
trait ReadWrite: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send {}
impl<T: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send> ReadWrite for T {}

async fn handshake(stream: TcpStream, tls: Option<TlsAcceptor>, within: Duration) -> Option<Stream> {
    let Some(tls) = tls else { return Some(Box::new(stream)) };
    match tokio::time::timeout(within, tls.accept(stream)).await {
        Ok(Ok(stream)) => Some(Box::new(stream)),
        Ok(Err(error)) => {
            tracing::debug!(%error, "a TLS handshake failed");
            None
        }
        Err(_) => None,
    }
}
