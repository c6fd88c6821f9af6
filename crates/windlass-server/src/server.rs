//! Binds and serves: HTTP/1.1 and HTTP/2, with or without TLS.
//!
//! How it stops: [`Running::stop`] takes no more connections, lets the requests under way finish, and waits for them as long
//! as it is told to; what is left then is cut. Streams end when the app is told to stop.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::ConnectInfo;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::GracefulShutdown;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

use crate::http::{App, router};

/// How to start.
#[derive(Debug)]
pub struct Server;

/// A server that runs until stopped.
#[derive(Debug)]
pub struct Running {
    address: SocketAddr,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

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
        let stop = CancellationToken::new();
        let task = tokio::spawn(accept(app, listener, tls.map(TlsAcceptor::from), stop.clone()));
        Ok(Running { address, stop, task })
    }
}

impl Running {
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Stops, giving the requests under way this long.
    pub async fn stop(self, grace: Duration) {
        self.stop.cancel();
        let mut task = self.task;
        if tokio::time::timeout(grace, &mut task).await.is_err() {
            tracing::warn!("requests were still under way after {grace:?} and were cut");
            task.abort();
        }
    }
}

async fn accept(app: App, listener: TcpListener, tls: Option<TlsAcceptor>, stop: CancellationToken) {
    let router = router(&app);
    let graceful = GracefulShutdown::new();
    let mut server = auto::Builder::new(TokioExecutor::new());
    server
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(app.options().header_timeout)
        .max_buf_size(64 * 1024)
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(Duration::from_secs(20))
        .max_header_list_size(64 * 1024)
        .max_concurrent_streams(250);
    let places = Arc::new(Semaphore::new(app.options().max_connections));
    let mut connections = tokio::task::JoinSet::new();
    loop {
        let place = tokio::select! {
            place = places.clone().acquire_owned() => place,
            () = stop.cancelled() => break,
        };
        let Ok(place) = place else { break };
        let (stream, from) = tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    // Out of descriptors, most likely: the next try must wait for one to come free.
                    tracing::warn!(%error, "a connection could not be accepted");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                }
            },
            () = stop.cancelled() => break,
        };
        while connections.try_join_next().is_some() {}
        let (server, router, watcher, tls) =
            (server.clone(), router.clone(), graceful.watcher(), tls.clone());
        let patience = app.options().header_timeout;
        connections.spawn(async move {
            let _place = place;
            let _ = stream.set_nodelay(true);
            let Some(stream) = shake_hands(stream, tls, patience).await else { return };
            let service =
                hyper::service::service_fn(move |request: hyper::Request<hyper::body::Incoming>| {
                    let router = router.clone();
                    async move {
                        let mut request = request.map(axum::body::Body::new);
                        request.extensions_mut().insert(ConnectInfo(from));
                        router.oneshot(request).await
                    }
                });
            let serving = server.serve_connection_with_upgrades(stream, service).into_owned();
            if let Err(error) = watcher.watch(serving).await {
                tracing::debug!(%error, %from, "a connection ended early");
            }
        });
    }
    drop(listener);
    app.begin_stopping();
    graceful.shutdown().await;
    app.end().await;
}

type Stream = TokioIo<Box<dyn Both>>;

/// A socket, with or without TLS.
trait Both: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send {}
impl<T: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send> Both for T {}

async fn shake_hands(stream: TcpStream, tls: Option<TlsAcceptor>, within: Duration) -> Option<Stream> {
    let Some(tls) = tls else { return Some(TokioIo::new(Box::new(stream))) };
    match tokio::time::timeout(within, tls.accept(stream)).await {
        Ok(Ok(stream)) => Some(TokioIo::new(Box::new(stream))),
        Ok(Err(error)) => {
            tracing::debug!(%error, "a TLS handshake failed");
            None
        }
        Err(_) => None,
    }
}
