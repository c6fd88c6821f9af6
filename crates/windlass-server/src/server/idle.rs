//! Idle timeouts of connections.
//!
//! A connection uses a file descriptor and a slot, so it is closed if it is not used: if the client sends no request, sends one byte
//! at a time, or never reads a response. Requests have their own timeouts; this is only about connections.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use tokio::sync::watch;

/// The timeouts of a connection.
#[derive(Debug, Clone, Copy)]
pub(super) struct Timeouts {
    /// Until the head of the first request is complete.
    pub(super) first: Duration,
    /// Between two requests.
    pub(super) between: Duration,
    /// While requests are in progress: until one has a response, or more of a response can be sent.
    pub(super) in_progress: Duration,
}

/// The activity of one connection.
#[derive(Debug, Clone, Default)]
pub(super) struct Activity(Arc<watch::Sender<Requests>>);

#[derive(Debug, Clone, Copy, Default)]
struct Requests {
    in_progress: usize,
    /// Incremented with every activity.
    activity: u64,
}

impl Activity {
    /// Resolves when the connection has been idle for too long.
    pub(super) async fn timed_out(&self, timeouts: Timeouts) {
        let mut requests = self.0.subscribe();
        loop {
            let now = *requests.borrow_and_update();
            let timeout = match now {
                Requests { activity: 0, .. } => timeouts.first,
                Requests { in_progress: 0, .. } => timeouts.between,
                _ => timeouts.in_progress,
            };
            if tokio::time::timeout(timeout, requests.changed()).await.is_err() {
                return;
            }
        }
    }

    /// Records the start of a request. It is in progress until its response is sent or dropped.
    pub(super) fn begin(&self) -> InProgress {
        self.change(|requests| requests.in_progress += 1);
        InProgress(self.clone())
    }

    fn change(&self, change: impl FnOnce(&mut Requests)) {
        self.0.send_modify(|requests| {
            requests.activity += 1;
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
pub(super) struct Response {
    pub(super) body: axum::body::Body,
    pub(super) in_progress: InProgress,
}

impl Body for Response {
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
