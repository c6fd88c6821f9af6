//! Whether a request was read to its end. What is left of one on an HTTP/1 connection stands before the next request, so the
//! connection ends after the answer; and the answer says so, for clients that would send another one.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use axum::body::Bytes;
use axum::http::{HeaderMap, HeaderValue, Version, header};
use hyper::body::{Body, Frame, Incoming, SizeHint};

/// The body of a request, which notes when it was read.
#[derive(Debug)]
pub(super) struct Noted {
    body: Incoming,
    is_read: Arc<AtomicBool>,
}

/// What was noted of it.
#[derive(Debug)]
pub(super) struct Reading {
    is_read: Arc<AtomicBool>,
    version: Version,
}

impl Noted {
    pub(super) fn new(body: Incoming, version: Version) -> (Self, Reading) {
        let is_read = Arc::new(AtomicBool::new(body.is_end_stream()));
        (Self { body, is_read: is_read.clone() }, Reading { is_read, version })
    }
}

impl Reading {
    /// Says in the answer's head that the connection ends after it, if it does.
    pub(super) fn finish(&self, answer: &mut HeaderMap) {
        if self.version < Version::HTTP_2 && !self.is_read.load(Ordering::Relaxed) {
            answer.insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
    }
}

impl Body for Noted {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        if matches!(polled, Poll::Ready(None)) || self.body.is_end_stream() {
            self.is_read.store(true, Ordering::Relaxed);
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
