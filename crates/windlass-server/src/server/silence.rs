//! When a connection has been silent for too long.
//!
//! A connection costs a descriptor and one of the places there are, so nobody keeps one for nothing: not by sending no request, not
//! by sending one a byte at a time, and not by never reading an answer. What is inside a request has its own limits; here only
//! the connection is looked at.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use tokio::sync::watch;

/// How long each kind of silence may last.
#[derive(Debug, Clone, Copy)]
pub(super) struct Patience {
    /// Until the first request is there, head and all.
    pub(super) first: Duration,
    /// Between two requests.
    pub(super) between: Duration,
    /// While requests are under way: until one is answered, or more of an answer can be sent.
    pub(super) under_way: Duration,
}

/// What happens on one connection.
#[derive(Debug, Clone, Default)]
pub(super) struct Activity(Arc<watch::Sender<Requests>>);

#[derive(Debug, Clone, Copy, Default)]
struct Requests {
    under_way: usize,
    /// Counts whatever happens.
    moves: u64,
}

impl Activity {
    /// Resolves once the connection has been silent for too long.
    pub(super) async fn silence(&self, patience: Patience) {
        let mut requests = self.0.subscribe();
        loop {
            let now = *requests.borrow_and_update();
            let patience = match now {
                Requests { moves: 0, .. } => patience.first,
                Requests { under_way: 0, .. } => patience.between,
                _ => patience.under_way,
            };
            if tokio::time::timeout(patience, requests.changed()).await.is_err() {
                return;
            }
        }
    }

    /// A request is there. It is under way until its answer is sent or given up.
    pub(super) fn begin(&self) -> UnderWay {
        self.change(|requests| requests.under_way += 1);
        UnderWay(self.clone())
    }

    fn change(&self, change: impl FnOnce(&mut Requests)) {
        self.0.send_modify(|requests| {
            requests.moves += 1;
            change(requests);
        });
    }
}

#[derive(Debug)]
pub(super) struct UnderWay(Activity);

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.change(|requests| requests.under_way -= 1);
    }
}

/// The body of an answer, which tells whenever more of it could be sent.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) body: axum::body::Body,
    pub(super) under_way: UnderWay,
}

impl Body for Answer {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        self.under_way.0.change(|_| {});
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
