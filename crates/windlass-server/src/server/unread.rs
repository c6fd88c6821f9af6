//! Whether the body of a request was read to its end. On an HTTP/1 connection the rest of it would precede the next request, so the
//! connection is closed after the response; the response has `Connection: close`.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use axum::body::Bytes;
use axum::http::{HeaderMap, HeaderValue, Version, header};
use hyper::body::{Body, Frame, Incoming, SizeHint};

/// The body of a request, which records when it was read to its end.
#[derive(Debug)]
pub(super) struct Noted {
    body: Incoming,
    is_read: Arc<AtomicBool>,
}

/// Whether the body was read.
#[derive(Debug)]
pub(super) struct ReadingBody {
    is_read: Arc<AtomicBool>,
    version: Version,
}

impl Noted {
    pub(super) fn new(body: Incoming, version: Version) -> (Self, ReadingBody) {
        let is_read = Arc::new(AtomicBool::new(body.is_end_stream()));
        (Self { body, is_read: is_read.clone() }, ReadingBody { is_read, version })
    }
}

impl ReadingBody {
    /// Sets `Connection: close` if the connection will be closed.
    pub(super) fn finish(&self, response: &mut HeaderMap) {
        if self.version < Version::HTTP_2 && !self.is_read.load(Ordering::Relaxed) {
            response.insert(header::CONNECTION, HeaderValue::from_static("close"));
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
