//! Limits how many responses to reads without a credential are in progress: in total, and of one network. A response counts until
//! it was sent or its client is gone, so that clients that do not read hold a bounded number of them.
//!
//! Requests that change something have their own limits: see `auth/attempts.rs`, `auth/lookups.rs` and `bodies.rs`.

use std::net::IpAddr;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::Request;
use axum::response::Response;
use hyper::body::{Frame, SizeHint};
use windlass::internals::{SlotGuard, Slots};

use super::guard::InProcess;
use super::problem::{Problem, ProblemKind};
use crate::server::{client_of, network_of};

/// A guess: a response ends whenever its client has read it.
const RETRY_AFTER: u64 = 1;

/// The reads in progress.
#[derive(Debug)]
pub(crate) struct Anonymous {
    of_all: Slots<()>,
    of_network: Slots<IpAddr>,
    of_readiness: Slots<IpAddr>,
}

/// The readiness checks of one network at once. Each is a short query, so a load balancer needs one or two.
const READINESS_CHECKS: usize = 16;

/// The slots of one read.
#[derive(Debug)]
pub(super) struct AnonymousSlot {
    _of_all: Option<SlotGuard<()>>,
    _of_network: Option<SlotGuard<IpAddr>>,
    is_readiness: bool,
}

impl Anonymous {
    pub(super) fn new(of_all: usize, of_network: usize) -> Self {
        Self {
            of_all: Slots::new(of_all),
            of_network: Slots::new(of_network),
            of_readiness: Slots::new(READINESS_CHECKS),
        }
    }

    /// Slots for this request, or none if it needs none.
    pub(super) fn take(&self, request: &Request) -> Result<Option<AnonymousSlot>, Problem> {
        if !request.method().is_safe() || request.extensions().get::<InProcess>().is_some() {
            return Ok(None);
        }
        // Unknown callers must not make a load balancer consider this server down. They have its address if it is not a trusted
        // proxy, so health checks do not count with their requests.
        let path = request.uri().path();
        if path == "/health/live" {
            return Ok(None);
        }
        let is_readiness = path == "/health/ready";
        let too_many = || {
            let detail = "too many requests without a credential are in progress; try again later";
            Problem::of(ProblemKind::TooManyRequests, detail).retry_after(RETRY_AFTER)
        };
        // Local processes are trusted, and an unknown proxy has the requests of all clients.
        let outside = client_of(request.extensions()).filter(|address| !address.to_canonical().is_loopback());
        let slots = if is_readiness { &self.of_readiness } else { &self.of_network };
        let of_network = match outside.map(network_of) {
            Some(network) => Some(slots.take(network, 1).ok_or_else(too_many)?),
            None => None,
        };
        let of_all = if is_readiness { None } else { Some(self.of_all.take((), 1).ok_or_else(too_many)?) };
        Ok(Some(AnonymousSlot { _of_all: of_all, _of_network: of_network, is_readiness }))
    }
}

impl AnonymousSlot {
    /// The same response, which holds the slots until its body is dropped. That of a readiness check is tiny and holds none, so
    /// that clients that do not read cannot use up the slots.
    pub(super) fn until_sent(self, response: Response) -> Response {
        if self.is_readiness {
            return response;
        }
        response.map(|body| Body::new(CountedBody::new(body, self)))
    }
}

/// The size of a chunk for a connection, which polls for the next one when it has sent most of it.
const PIECE: usize = 16 * 1024;

/// The body of a counted response. A connection would take a body in one piece at once, however slowly its client reads, and the
/// slots would be free before it is sent.
#[derive(Debug)]
pub(super) struct CountedBody<S> {
    body: Body,
    rest: Bytes,
    _slot: S,
}

impl<S> CountedBody<S> {
    pub(super) fn new(body: Body, slot: S) -> Self {
        Self { body, rest: Bytes::new(), _slot: slot }
    }
}

impl<S: Unpin> HttpBody for CountedBody<S> {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if self.rest.is_empty() {
            match ready!(Pin::new(&mut self.body).poll_frame(context)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => self.rest = data,
                    Err(frame) => return Poll::Ready(Some(Ok(frame))),
                },
                end => return Poll::Ready(end),
            }
        }
        let piece = self.rest.len().min(PIECE);
        Poll::Ready(Some(Ok(Frame::data(self.rest.split_to(piece)))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let mut hint = self.body.size_hint();
        let rest = self.rest.len() as u64;
        if let Some(upper) = hint.upper() {
            hint.set_upper(upper + rest);
        }
        hint.set_lower(hint.lower() + rest);
        hint
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::extract::ConnectInfo;
    use std::net::SocketAddr;

    fn from(address: &str, path: &str) -> Request {
        let mut request = Request::new(Body::empty());
        *request.uri_mut() = path.parse().unwrap();
        let address = SocketAddr::new(address.parse().unwrap(), 1);
        request.extensions_mut().insert(ConnectInfo(address));
        request
    }

    #[test]
    fn a_network_reaches_its_limit_and_others_and_health_checks_are_served() {
        let anonymous = Anonymous::new(3, 2);
        let take = |address: &str, path: &str| anonymous.take(&from(address, path));
        let held = [take("192.0.2.1", "/docs").unwrap(), take("192.0.2.1", "/docs").unwrap()];
        let refused = take("192.0.2.1", "/docs").unwrap_err();
        assert_eq!((refused.kind, refused.retry_after), (ProblemKind::TooManyRequests, Some(1)));
        assert!(take("192.0.2.1", "/health/live").unwrap().is_none(), "not counted");
        let ready = || take("192.0.2.1", "/health/ready");
        let checks: Vec<_> = (0..READINESS_CHECKS).map(|_| ready().unwrap().unwrap()).collect();
        assert!(ready().is_err(), "they have their own limit");
        assert!(take("192.0.2.1", "/health/live").is_ok());
        let unread: Vec<_> = checks.into_iter().map(|slot| slot.until_sent(Response::default())).collect();
        assert!(ready().is_ok(), "unread responses do not count");
        drop(unread);
        let other = take("192.0.2.2", "/docs").unwrap();
        assert!(take("192.0.2.3", "/docs").is_err(), "three in total");
        assert!(take("127.0.0.1", "/docs").is_err(), "local processes count in total");
        assert!(take("192.0.2.3", "/health/ready").is_ok(), "and health checks do not");
        drop((held, other));
        assert!(take("192.0.2.1", "/docs").is_ok());
        let mut post = from("192.0.2.1", "/ui/sign-in");
        *post.method_mut() = axum::http::Method::POST;
        assert!(anonymous.take(&post).unwrap().is_none(), "it has other limits");
    }
}
