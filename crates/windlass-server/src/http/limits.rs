//! What stands around every route: request ids, panics, time, rates, compression, and the headers that go with every answer.

use std::any::Any;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderName, HeaderValue, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use governor::{DefaultKeyedRateLimiter, Quota, RateLimiter};
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::compression::CompressionLayer;
use uuid::Uuid;

use super::app::App;
use super::problem::{Problem, ProblemKind};
use crate::auth::Caller;

/// The id of a request, in its log lines, its audit row and its answer.
#[derive(Debug, Clone)]
pub(crate) struct RequestId(pub(crate) String);

/// Puts around any routes what stands around ours.
pub fn around(router: Router<App>, app: &App) -> Router<App> {
    // The outermost is last. Compression leaves event streams alone by itself.
    router
        .layer(CatchPanicLayer::custom(panicked))
        .layer(CompressionLayer::new())
        .layer(from_fn_with_state(app.clone(), watch))
}

/// Gives the request its id and its time, and the answer its headers.
async fn watch(State(app): State<App>, mut request: Request, next: Next) -> Response {
    let began = Instant::now();
    let id = Uuid::now_v7().simple().to_string();
    request.extensions_mut().insert(RequestId(id.clone()));
    let wants_timing = request.headers().contains_key("x-server-timing");
    let target = format!("{} {}", request.method(), request.uri().path());
    // A long poll says how long it may take; nothing else takes so long.
    let patience = app.options().request_timeout + longest_wait(&request);
    let mut response = match tokio::time::timeout(patience, next.run(request)).await {
        Ok(response) => response,
        Err(_) => Problem::of(ProblemKind::Timeout, "no answer was found in time").into_response(),
    };
    let took = began.elapsed();
    tracing::debug!(
        request_id = id,
        target,
        status = response.status().as_u16(),
        ms = took.as_millis(),
        "answered"
    );
    let headers = response.headers_mut();
    if let Ok(id) = HeaderValue::from_str(&id) {
        headers.insert(HeaderName::from_static("x-request-id"), id);
    }
    if wants_timing
        && let Ok(timing) = HeaderValue::from_str(&format!("total;dur={:.3}", took.as_secs_f64() * 1000.0))
    {
        headers.insert(HeaderName::from_static("server-timing"), timing);
    }
    for (name, value) in ALWAYS {
        headers.entry(HeaderName::from_static(name)).or_insert(HeaderValue::from_static(value));
    }
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}

/// On every answer unless the handler said otherwise.
const ALWAYS: [(&str, &str); 4] = [
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
    ("referrer-policy", "same-origin"),
    ("content-security-policy", "default-src 'none'; frame-ancestors 'none'"),
];

/// How long this request may wait for work by what its address is.
fn longest_wait(request: &Request) -> Duration {
    match request.uri().path() {
        "/api/v1/worker/jobs/claim" => Duration::from_secs(60),
        _ => Duration::ZERO,
    }
}

#[expect(clippy::needless_pass_by_value, reason = "the layer gives it away")]
fn panicked(panic: Box<dyn Any + Send + 'static>) -> Response {
    let message = panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("no message");
    tracing::error!(message, "a handler panicked");
    Problem::of(ProblemKind::Internal, "the failure was logged").into_response()
}

const SIGN_INS_PER_MINUTE: u32 = 10;

/// How often each credential, and each tenant, has asked lately. Counted after authentication: before it, anybody could
/// speak in another's name. Every server process counts for itself.
#[derive(Debug, Default)]
pub(crate) struct Rates {
    limiters: std::sync::Mutex<std::collections::HashMap<u32, Arc<DefaultKeyedRateLimiter<String>>>>,
}

impl Rates {
    pub(crate) fn check(
        &self,
        caller: &Caller,
        of_credential: u32,
        of_tenant: Option<u32>,
    ) -> Result<(), Problem> {
        self.take(of_credential, &caller.name())?;
        if let (Some(most), Some(tenant)) = (of_tenant, caller.tenant) {
            self.take(most, &format!("tenant:{tenant}"))?;
        }
        Ok(())
    }

    /// Few tries for one address or token: guessing a password must take years.
    pub(crate) fn sign_in(&self, who: &str) -> Result<(), Problem> {
        self.take(SIGN_INS_PER_MINUTE, &format!("sign-in:{who}"))
    }

    /// Whether one more of this kind is allowed now.
    pub(crate) fn has_room(&self, per_minute: u32, key: &str) -> bool {
        self.take(per_minute, key).is_ok()
    }

    fn take(&self, per_minute: u32, key: &str) -> Result<(), Problem> {
        let limiter = self.limiter(per_minute);
        // Keys that have not asked for a while are forgotten, so that the table does not grow for ever.
        if limiter.len() > 10_000 {
            limiter.retain_recent();
        }
        limiter.check_key(&key.to_owned()).map_err(|not_until| {
            use governor::clock::{Clock, DefaultClock};
            let wait = not_until.wait_time_from(DefaultClock::default().now()).as_secs_f64().ceil();
            let detail = format!("at most {per_minute} requests per minute");
            Problem::of(ProblemKind::TooManyRequests, detail).retry_after((wait as u64).max(1))
        })
    }

    /// One limiter per rate; there are as many as different settings.
    fn limiter(&self, per_minute: u32) -> Arc<DefaultKeyedRateLimiter<String>> {
        let mut limiters = self.limiters.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        limiters
            .entry(per_minute)
            .or_insert_with(|| {
                let most = NonZeroU32::new(per_minute).unwrap_or(NonZeroU32::MIN);
                Arc::new(RateLimiter::keyed(Quota::per_minute(most)))
            })
            .clone()
    }
}
