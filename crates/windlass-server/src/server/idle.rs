//! Idle timeouts of connections.
//!
//! A connection uses a file descriptor and a slot, so it is closed if it is not used: if the client sends no request, sends one byte
//! at a time, or never reads a response. Requests have their own timeouts; this is only about connections.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use axum::body::Bytes;
use axum::http::Version;
use hyper::body::{Body, Frame, SizeHint};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::watch;

/// The timeouts of a connection.
#[derive(Debug, Clone, Copy)]
pub(super) struct Timeouts {
    /// Until the head of the first request is complete; for a later one, from its first byte.
    pub(super) head: Duration,
    /// Between two requests.
    pub(super) between: Duration,
    /// While requests are in progress: until one has a response, or more of a response can be sent.
    pub(super) in_progress: Duration,
}

/// The activity of one connection.
#[derive(Debug, Clone, Default)]
pub(super) struct Activity(Arc<watch::Sender<Requests>>);

#[derive(Debug, Clone, Copy)]
struct Requests {
    in_progress: usize,
    /// Incremented with every activity.
    activity: u64,
    /// When that was.
    at: Instant,
    /// On a connection of HTTP/1, what arrives between two requests is the head of the next one. With HTTP/2 it can be a ping.
    is_http1: bool,
    /// A part of the head of the next request has arrived.
    has_head_begun: bool,
}

impl Default for Requests {
    fn default() -> Self {
        Self { in_progress: 0, activity: 0, at: Instant::now(), is_http1: false, has_head_begun: false }
    }
}

impl Activity {
    /// Resolves when the connection has been idle for too long.
    pub(super) async fn timed_out(&self, timeouts: Timeouts) {
        let mut requests = self.0.subscribe();
        loop {
            let now = *requests.borrow_and_update();
            let timeout = match now {
                Requests { activity: 0, .. } | Requests { in_progress: 0, has_head_begun: true, .. } => {
                    timeouts.head
                }
                Requests { in_progress: 0, .. } => timeouts.between,
                _ => timeouts.in_progress,
            };
            if tokio::time::timeout(timeout, requests.changed()).await.is_err() {
                return;
            }
        }
    }

    /// Records the start of a request. It is in progress until its response is sent or dropped.
    pub(super) fn begin(&self, version: Version) -> InProgress {
        self.change(|requests| {
            requests.in_progress += 1;
            requests.is_http1 = version < Version::HTTP_2;
            requests.has_head_begun = false;
        });
        InProgress(self.clone())
    }

    /// Since when no request has been in progress.
    pub(super) fn idle_since(&self) -> Option<Instant> {
        let requests = *self.0.borrow();
        (requests.in_progress == 0).then_some(requests.at)
    }

    /// Records that something has arrived.
    fn received(&self) {
        self.0.send_if_modified(|requests| {
            let is_head = requests.is_http1 && requests.in_progress == 0 && !requests.has_head_begun;
            requests.has_head_begun |= is_head;
            is_head
        });
    }

    fn change(&self, change: impl FnOnce(&mut Requests)) {
        self.0.send_modify(|requests| {
            requests.activity += 1;
            requests.at = Instant::now();
            change(requests);
        });
    }
}

#[derive(Debug)]
pub(super) struct InProgress(Activity);

impl Drop for InProgress {
    fn drop(&mut self) {
        self.0.change(|requests| requests.in_progress -= 1);
    }
}

/// The body of a response, which records activity whenever more of it is sent.
#[derive(Debug)]
pub(super) struct TimedResponse {
    pub(super) body: axum::body::Body,
    pub(super) in_progress: InProgress,
}

impl Body for TimedResponse {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        self.in_progress.0.change(|_| {});
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A connection, which records when something arrives.
#[derive(Debug)]
pub(super) struct Receiving<S> {
    pub(super) stream: S,
    pub(super) activity: Activity,
}

impl<S: AsyncRead + Unpin> AsyncRead for Receiving<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = into.filled().len();
        let read = ready!(Pin::new(&mut self.stream).poll_read(context, into));
        if into.filled().len() > before {
            self.activity.received();
        }
        Poll::Ready(read)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Receiving<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
