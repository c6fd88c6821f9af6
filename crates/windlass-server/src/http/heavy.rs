//! Requests that may need much CPU time: those with a large body, and reads. They run outside the threads of the runtime, with a
//! limit per tenant.
//!
//! The runtime has one thread per processor, and a thread runs a task until its next await. To validate a body of megabytes, or to
//! redact the secrets of a page of jobs, takes tens of milliseconds in which that thread serves no other request. So such requests
//! run on separate threads; the operating system divides the processors among them, and the threads of the runtime keep their
//! share. While other tenants send such requests too, a tenant has half of its limit. A tenant that reaches its limit waits in its
//! own queue. The queue is bounded: a request beyond it, or one that has waited for too long, is rejected.

use std::future::Future;
use std::time::Duration;

use axum::body::{Body, HttpBody as _};
use axum::response::{IntoResponse as _, Response};
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;
use windlass::internals::{Permit, Permits};

use super::problem::{Problem, ProblemKind};

/// A body up to this size is validated in well under a millisecond.
const SMALL_BODY: u64 = 32 * 1024;
/// The limit of all tenants together, as a multiple of the limit of one.
const TENANTS_AT_ONCE: usize = 8;
/// Half of the runtime's threads for blocking work, however many processors there are: a handler on one of them may need a second one, to
/// compare a password or to check a large text.
const MAX_AT_ONCE: usize = 256;
/// How many requests may wait for each one that runs, and for how long.
const WAITING: usize = 16;
const WAIT_TIMEOUT: Duration = Duration::from_secs(10);

/// The default limit of one tenant: as many as can use a processor at the same time, whether here or in Postgres.
pub(crate) fn usual_heavy() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// The permits for such requests.
#[derive(Debug)]
pub(crate) struct Heavy(Permits);

impl Heavy {
    pub(crate) fn new(of_tenant: usize) -> Self {
        let of_all = of_tenant.saturating_mul(TENANTS_AT_ONCE).min(MAX_AT_ONCE);
        let permits = Permits::new(of_tenant, of_all, Some(WAITING), WAIT_TIMEOUT);
        Self(permits.beside_others(of_tenant / 2))
    }

    /// Waits for a permit.
    pub(crate) async fn permit(&self, tenant: Uuid) -> Result<Permit, Problem> {
        self.0.take(tenant).await.ok_or_else(|| {
            let most = self.0.of_tenant();
            let detail = format!(
                "a tenant can have at most {most} large requests and reads at the same time, and too many others are waiting"
            );
            Problem::of(ProblemKind::TooManyRequests, detail).retry_after(1)
        })
    }
}

/// Whether a body may take long to validate. A body without a length can have any size until it was read.
pub(crate) fn may_be_large(body: &Body) -> bool {
    !body.is_end_stream() && body.size_hint().upper().is_none_or(|bytes| bytes > SMALL_BODY)
}

/// Runs a request on a separate thread while it holds the permit. If the client disconnects, the request is dropped at
/// its next await.
pub(crate) async fn run_apart(
    permit: Permit,
    response: impl Future<Output = Response> + Send + 'static,
) -> Response {
    let runtime = Handle::current();
    let disconnected = CancellationToken::new();
    let _waits = disconnected.clone().drop_guard();
    let running = tokio::task::spawn_blocking(move || {
        let _permit = permit;
        // Its tasks, timers and sockets belong to the runtime, as if it ran there.
        runtime.block_on(disconnected.run_until_cancelled(response))
    });
    match running.await {
        Ok(Some(response)) => response,
        Ok(None) => Problem::of(ProblemKind::Unavailable, "the request was canceled").into_response(),
        Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
        Err(_) => Problem::of(ProblemKind::Unavailable, "the server is stopping").into_response(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_tenant_has_a_limit_and_a_bounded_queue() {
        let heavy = Heavy::new(1);
        let (loud, quiet) = (Uuid::from_u128(1), Uuid::from_u128(2));
        let held = heavy.permit(loud).await.unwrap();
        let mut waiting: Vec<_> = (0..WAITING).map(|_| Box::pin(heavy.permit(loud))).collect();
        for one in &mut waiting {
            assert!(futures_util::poll!(one).is_pending());
        }
        let rejected = heavy.permit(loud).await.unwrap_err();
        assert_eq!((rejected.kind, rejected.retry_after), (ProblemKind::TooManyRequests, Some(1)));
        heavy.permit(quiet).await.unwrap();
        drop(held);
        assert!(waiting.remove(0).await.is_ok(), "the waiting one is next");
    }

    /// A handler that needs another thread of the runtime always finds one.
    #[tokio::test]
    async fn half_of_the_threads_stay_free_on_any_number_of_processors() {
        let heavy = Heavy::new(1000);
        let mut permits = Vec::new();
        for tenant in 1..=256 {
            permits.push(heavy.permit(Uuid::from_u128(tenant)).await.unwrap());
        }
        // Tokio makes a task that has taken so many permits yield, which would look the same.
        let mut next = Box::pin(tokio::task::unconstrained(heavy.permit(Uuid::from_u128(257))));
        assert!(futures_util::poll!(&mut next).is_pending());
        drop(permits);
        assert!(next.await.is_ok());
    }

    #[test]
    fn a_body_may_be_large_by_its_length_or_without_one() {
        let of = |bytes: usize| Body::from(vec![b' '; bytes]);
        assert!(!may_be_large(&Body::empty()));
        assert!(!may_be_large(&of(32 * 1024)));
        assert!(may_be_large(&of(32 * 1024 + 1)));
        let unsaid = futures_util::stream::iter([Ok::<_, std::io::Error>("x")]);
        assert!(may_be_large(&Body::from_stream(unsaid)));
    }

    #[tokio::test]
    async fn a_request_of_a_closed_connection_is_dropped() {
        let heavy = Heavy::new(1);
        let (disconnected, dropped) = tokio::sync::oneshot::channel::<()>();
        let permit = heavy.permit(Uuid::nil()).await.unwrap();
        let mut response = Box::pin(run_apart(permit, async move {
            let _disconnected = disconnected;
            std::future::pending().await
        }));
        assert!(futures_util::poll!(&mut response).is_pending());
        drop(response);
        assert!(dropped.await.is_err());
        heavy.permit(Uuid::nil()).await.unwrap();
    }
}
