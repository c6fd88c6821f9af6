//! Limits the total size of the responses to known callers that are not sent yet. A client need not read its responses, and with
//! HTTP/2 it can keep them waiting for as long as it responds to pings.
//!
//! The budget is divided as that of request bodies. It is checked before a request runs, because afterwards something may have
//! changed: so a tenant exceeds its share at most by the requests that it has in progress. A response whose client has taken nothing
//! of it for some time is discarded. Nothing runs while a connection cannot send, so that is done with the next response of any client.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes, HttpBody};
use axum::response::Response;
use hyper::body::{Frame, SizeHint};
use parking_lot::{Mutex, MutexGuard};

use super::anonymous::CountedBody;
use super::bodies::{Bodies, Held};
use super::problem::{Problem, ProblemKind};
use crate::auth::Caller;

/// How often responses are searched for those that nobody receives.
const EVERY: Duration = Duration::from_secs(1);
/// A guess: a response ends whenever its client has read it.
const RETRY_AFTER: u64 = 1;

/// The responses to known callers.
#[derive(Debug)]
pub(crate) struct UnsentResponses {
    budget: Bodies,
    patience: Duration,
    responses: Mutex<Responses>,
}

#[derive(Debug)]
struct Responses {
    searched: Instant,
    all: Vec<Weak<Mutex<Content>>>,
}

/// What is left of a response.
#[derive(Debug)]
struct Content {
    /// `None` if it was discarded.
    body: Option<CountedBody<Held>>,
    /// When the connection has last asked for more.
    asked: Instant,
}

impl UnsentResponses {
    pub(super) fn new(most: usize, patience: Duration) -> Self {
        let responses = Mutex::new(Responses { searched: Instant::now(), all: Vec::new() });
        Self { budget: Bodies::new(most), patience, responses }
    }

    /// Whether a request of this caller may run.
    pub(super) fn admit(&self, caller: &Caller) -> Result<(), Problem> {
        self.discard_old();
        if self.budget.hold_for(caller).has_room() {
            return Ok(());
        }
        let detail = "too many responses have not been read; read them, or close their connections";
        Err(Problem::of(ProblemKind::TooManyRequests, detail).retry_after(RETRY_AFTER))
    }

    /// The same response, which is counted until it was sent. A stream has no length, and a limit of its own.
    pub(super) fn until_sent(&self, response: Response, caller: &Caller) -> Response {
        let length = response.body().size_hint().exact().and_then(|bytes| usize::try_from(bytes).ok());
        let Some(bytes) = length.filter(|bytes| *bytes > 0) else { return response };
        let mut held = self.budget.hold_for(caller);
        held.add(bytes);
        let (head, body) = response.into_parts();
        let body = Some(CountedBody::new(body, held));
        let content = Arc::new(Mutex::new(Content { body, asked: Instant::now() }));
        self.responses().all.push(Arc::downgrade(&content));
        Response::from_parts(head, Body::new(Sending(content)))
    }

    /// Discards the responses that nobody receives.
    fn discard_old(&self) {
        let mut responses = self.responses();
        if responses.searched.elapsed() < EVERY.min(self.patience) {
            return;
        }
        responses.searched = Instant::now();
        responses.all.retain(|content| {
            let Some(content) = content.upgrade() else { return false };
            let mut content = lock(&content);
            if content.asked.elapsed() < self.patience {
                return true;
            }
            content.body = None;
            false
        });
    }

    fn responses(&self) -> MutexGuard<'_, Responses> {
        lock(&self.responses)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock()
}

/// The body of such a response.
struct Sending(Arc<Mutex<Content>>);

impl HttpBody for Sending {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let mut content = lock(&self.0);
        content.asked = Instant::now();
        match &mut content.body {
            Some(body) => Pin::new(body).poll_frame(context),
            None => Poll::Ready(Some(Err(axum::Error::new(io::Error::from(io::ErrorKind::TimedOut))))),
        }
    }

    fn is_end_stream(&self) -> bool {
        lock(&self.0).body.as_ref().is_some_and(CountedBody::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        lock(&self.0).body.as_ref().map(CountedBody::size_hint).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::{Role, Who};
    use uuid::Uuid;

    const MIB: usize = 1024 * 1024;

    fn caller(tenant: u128) -> Caller {
        let tenant = Some(Uuid::from_u128(tenant));
        Caller { tenant, ..Caller::new(Who::Hook { name: "h".to_owned() }, Role::Viewer) }
    }

    fn response(bytes: usize) -> Response {
        Response::new(Body::from(vec![b' '; bytes]))
    }

    #[tokio::test]
    async fn a_tenant_with_too_many_unsent_bytes_is_rejected_and_others_are_served() {
        let unsent = UnsentResponses::new(12 * MIB, Duration::from_secs(60));
        let (loud, quiet) = (caller(1), caller(2));
        let held: Vec<_> = (0..2).map(|_| unsent.until_sent(response(4 * MIB), &loud)).collect();
        let refused = unsent.admit(&loud).unwrap_err();
        assert_eq!((refused.kind, refused.retry_after), (ProblemKind::TooManyRequests, Some(1)));
        unsent.admit(&quiet).unwrap();
        for response in held {
            assert_eq!(axum::body::to_bytes(response.into_body(), usize::MAX).await.unwrap().len(), 4 * MIB);
        }
        unsent.admit(&loud).unwrap();
    }

    #[tokio::test]
    async fn a_response_that_nobody_receives_is_discarded() {
        let unsent = UnsentResponses::new(12 * MIB, Duration::ZERO);
        let held = unsent.until_sent(response(10 * MIB), &caller(1));
        assert_eq!(held.body().size_hint().exact(), Some(10 * MIB as u64));
        unsent.admit(&caller(1)).unwrap();
        assert!(axum::body::to_bytes(held.into_body(), usize::MAX).await.is_err(), "it is not sent in part");
    }
}
