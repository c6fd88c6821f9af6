//! Requests that may need much of a processor: those with a large body, and those that read. They run beside the runtime's threads, so
//! many of a tenant's at a time.
//!
//! The runtime has a thread for each processor, and a thread does one piece of work up to its next wait. To check a body of megabytes,
//! or to hide the secrets in a page of jobs, takes tens of milliseconds in which that thread answers nobody. So such requests run on
//! threads of their own, among which the operating system divides the processors, and the runtime's threads always get theirs.
//! A tenant that wants more than its number waits in a line of its own. The line has an end: whoever would stand behind it, or has
//! stood in it for too long, is refused.

use std::future::Future;
use std::time::Duration;

use axum::body::{Body, HttpBody as _};
use axum::response::{IntoResponse as _, Response};
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;
use windlass::{Turn, Turns};

use super::problem::{Problem, ProblemKind};

/// A body up to this size is checked in well under a millisecond.
const SMALL_BODY: u64 = 32 * 1024;
/// Of all tenants at once, for each one of a tenant.
const TENANTS_AT_ONCE: usize = 8;
/// However many processors there are: half of the threads that the runtime has for work that blocks, because what runs on one of them may
/// need a second one, to compare a password or to check a large text.
const MOST_AT_ONCE: usize = 256;
/// How many may wait for each one that runs, and for how long.
const WAITING: usize = 16;
const PATIENCE: Duration = Duration::from_secs(10);

/// How many of a tenant run at once, if nothing else is set. While some of them wait for the database, the others use the processors.
pub(crate) fn usual_heavy() -> usize {
    2 * std::thread::available_parallelism().map_or(1, usize::from)
}

/// Who has such requests under way.
#[derive(Debug)]
pub(crate) struct Heavy(Turns);

impl Heavy {
    pub(crate) fn new(of_tenant: usize) -> Self {
        let of_all = of_tenant.saturating_mul(TENANTS_AT_ONCE).min(MOST_AT_ONCE);
        Self(Turns::new(of_tenant, of_all, Some(WAITING), PATIENCE))
    }

    /// Waits for a turn.
    pub(crate) async fn turn(&self, tenant: Uuid) -> Result<Turn, Problem> {
        self.0.take(tenant).await.ok_or_else(|| {
            let most = self.0.of_tenant();
            let detail = format!(
                "a tenant has at most {most} large requests and reads at a time; too many others wait"
            );
            Problem::of(ProblemKind::TooManyRequests, detail).retry_after(1)
        })
    }
}

/// Whether a body may take long to be checked. One that does not say its length may be as large as any.
pub(crate) fn is_large(body: &Body) -> bool {
    !body.is_end_stream() && body.size_hint().upper().is_none_or(|bytes| bytes > SMALL_BODY)
}

/// Runs a request on a thread of its own, while the turn lasts. If nobody waits for the answer any more, it is dropped at its next wait.
pub(crate) async fn apart(turn: Turn, answer: impl Future<Output = Response> + Send + 'static) -> Response {
    let runtime = Handle::current();
    let gone = CancellationToken::new();
    let _waits = gone.clone().drop_guard();
    let running = tokio::task::spawn_blocking(move || {
        let _turn = turn;
        // Tasks, timers and sockets that it makes belong to the runtime, as if it ran there.
        runtime.block_on(gone.run_until_cancelled(answer))
    });
    match running.await {
        Ok(Some(response)) => response,
        Ok(None) => Problem::of(ProblemKind::Unavailable, "the request was given up").into_response(),
        Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
        Err(_) => Problem::of(ProblemKind::Unavailable, "the server stops").into_response(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_tenant_has_so_many_turns_and_its_line_has_an_end() {
        let heavy = Heavy::new(1);
        let (loud, quiet) = (Uuid::from_u128(1), Uuid::from_u128(2));
        let held = heavy.turn(loud).await.unwrap();
        let mut waiting: Vec<_> = (0..WAITING).map(|_| Box::pin(heavy.turn(loud))).collect();
        for one in &mut waiting {
            assert!(futures_util::poll!(one).is_pending());
        }
        let refused = heavy.turn(loud).await.unwrap_err();
        assert_eq!((refused.kind, refused.retry_after), (ProblemKind::TooManyRequests, Some(1)));
        heavy.turn(quiet).await.unwrap();
        drop(held);
        assert!(waiting.remove(0).await.is_ok(), "who waits is next");
    }

    /// A handler that needs one of the runtime's other threads always finds one.
    #[tokio::test]
    async fn however_many_processors_there_are_half_of_the_threads_stay_free() {
        let heavy = Heavy::new(1000);
        let mut turns = Vec::new();
        for tenant in 1..=256 {
            turns.push(heavy.turn(Uuid::from_u128(tenant)).await.unwrap());
        }
        // A task that has taken so much is made to wait for its own good, which would look the same.
        let mut next = Box::pin(tokio::task::unconstrained(heavy.turn(Uuid::from_u128(257))));
        assert!(futures_util::poll!(&mut next).is_pending());
        drop(turns);
        assert!(next.await.is_ok());
    }

    #[test]
    fn a_body_is_large_by_its_length_or_without_one() {
        let of = |bytes: usize| Body::from(vec![b' '; bytes]);
        assert!(!is_large(&Body::empty()));
        assert!(!is_large(&of(32 * 1024)));
        assert!(is_large(&of(32 * 1024 + 1)));
        let unsaid = futures_util::stream::iter([Ok::<_, std::io::Error>("x")]);
        assert!(is_large(&Body::from_stream(unsaid)));
    }

    #[tokio::test]
    async fn what_nobody_waits_for_is_dropped() {
        let heavy = Heavy::new(1);
        let (gone, dropped) = tokio::sync::oneshot::channel::<()>();
        let turn = heavy.turn(Uuid::nil()).await.unwrap();
        let mut answer = Box::pin(apart(turn, async move {
            let _gone = gone;
            std::future::pending().await
        }));
        assert!(futures_util::poll!(&mut answer).is_pending());
        drop(answer);
        assert!(dropped.await.is_err());
        heavy.turn(Uuid::nil()).await.unwrap();
    }
}
