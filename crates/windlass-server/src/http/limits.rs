//! The layers around every route: request ids, panics, timeouts, rates, compression, and the common response headers.

use std::any::Any;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::HttpBody;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Version, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use governor::{DefaultKeyedRateLimiter, Quota, RateLimiter};
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::compression::CompressionLayer;
use tower_http::compression::predicate::{DefaultPredicate, Predicate};
use uuid::Uuid;

use super::app::App;
use super::bodies::{self, BodyProgress};
use super::gzip::{self, NoCompression};
use super::problem::{Problem, ProblemKind};
use super::repeated_headers;
use crate::auth::Caller;
use crate::auth::session::Secure;
use crate::server::client_of;
use crate::web::PageProblem;

/// The id of a request, in its log lines, its audit entry and its response.
#[derive(Debug, Clone)]
pub(crate) struct RequestId(pub(crate) String);

/// Adds the layers of the server to any routes.
pub fn around(router: Router<App>, app: &App) -> Router<App> {
    // The outermost layer is last. Compression skips event streams by itself, and what is compressed already.
    router
        .layer(CatchPanicLayer::custom(panicked))
        .layer(CompressionLayer::new().compress_when(DefaultPredicate::new().and(IsSmall)))
        .layer(from_fn_with_state(app.clone(), watch))
}

/// The layer compresses on the threads of the runtime, so only small responses: see `gzip.rs` for the others.
#[derive(Debug, Clone, Copy)]
struct IsSmall;

impl Predicate for IsSmall {
    fn should_compress<B: HttpBody>(&self, response: &axum::http::Response<B>) -> bool {
        response.extensions().get::<NoCompression>().is_none()
            && response.body().size_hint().upper().is_some_and(|bytes| bytes <= gzip::SMALL)
    }
}

/// Sets the id and the timeout of the request, and the headers of the response.
async fn watch(State(app): State<App>, mut request: Request, next: Next) -> Response {
    let began = Instant::now();
    let id = Uuid::now_v7().simple().to_string();
    request.extensions_mut().insert(RequestId(id.clone()));
    let body = BodyProgress::default();
    request.extensions_mut().insert(body.clone());
    let is_over_tls = Secure::of(&app, request.extensions()).0;
    let wants_timing = request.headers().contains_key("x-server-timing");
    let target = format!("{} {}", request.method(), shown_path(request.uri().path()));
    let is_page = request.uri().path().starts_with("/ui");
    // Only a long poll may take longer than the timeout.
    let patience = app.options().request_timeout + longest_wait(&request);
    let mut response = match check_host(&request).and_then(|()| repeated_headers::check(request.headers())) {
        Ok(()) => match tokio::time::timeout(patience, next.run(request)).await {
            Ok(response) => response,
            Err(_) => timed_out(is_page, &body),
        },
        Err(problem) => problem.into_response(),
    };
    let took = began.elapsed();
    tracing::debug!(
        request_id = id,
        request = target,
        status = response.status().as_u16(),
        ms = took.as_millis(),
        "responded"
    );
    let headers = response.headers_mut();
    if is_over_tls {
        keep_cookies_to_tls(headers);
        headers.insert(header::STRICT_TRANSPORT_SECURITY, HeaderValue::from_static(STAY_WITH_TLS));
    }
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

fn timed_out(is_page: bool, body: &BodyProgress) -> Response {
    let problem = match body.is_reading() {
        true => bodies::too_slow(),
        false => Problem::of(ProblemKind::Timeout, "the request took too long"),
    };
    if is_page { PageProblem(problem).into_response() } else { problem.into_response() }
}

/// One year, without subdomains, which may belong to others.
const STAY_WITH_TLS: &str = "max-age=31536000";

/// HTTP/1.1 requires exactly one Host (RFC 9112, 3.2). A host in the address, as always with HTTP/2, must be the same: a proxy
/// may have decided by the other one. A request within this process has none.
fn check_host(request: &Request) -> Result<(), Problem> {
    if client_of(request.extensions()).is_none() {
        return Ok(());
    }
    let mut hosts = request.headers().get_all(header::HOST).iter();
    let (host, has_more) = (hosts.next(), hosts.next().is_some());
    if has_more || host.is_none() && request.version() == Version::HTTP_11 {
        return Err(Problem::of(ProblemKind::BadRequest, "the request must have exactly one Host"));
    }
    match (host, request.uri().authority()) {
        (Some(host), Some(address)) if !host.as_bytes().eq_ignore_ascii_case(address.as_str().as_bytes()) => {
            let detail = "the request has two different hosts: one in its address (:authority) and one in the header Host";
            Err(Problem::of(ProblemKind::BadRequest, detail))
        }
        _ => Ok(()),
    }
}

/// Marks every cookie of a response over TLS as `Secure`.
fn keep_cookies_to_tls(headers: &mut HeaderMap) {
    if let header::Entry::Occupied(mut cookies) = headers.entry(header::SET_COOKIE) {
        for cookie in cookies.iter_mut() {
            if let Ok(mut secure) = HeaderValue::from_bytes(&[cookie.as_bytes(), b"; Secure"].concat()) {
                secure.set_sensitive(cookie.is_sensitive());
                *cookie = secure;
            }
        }
    }
}

/// The path for logs: the last part of these links is a secret.
pub(crate) fn shown_path(path: &str) -> &str {
    let secret = ["/ui/invitations/", "/ui/password-resets/"];
    secret.into_iter().find(|start| path.starts_with(start)).unwrap_or(path)
}

/// On every response unless the handler sets them.
const ALWAYS: [(&str, &str); 4] = [
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
    ("referrer-policy", "same-origin"),
    ("content-security-policy", "default-src 'none'; frame-ancestors 'none'"),
];

/// The maximum wait of a long poll.
pub(crate) const MAX_WAIT: Duration = Duration::from_secs(60);

/// How long this route may wait for jobs.
fn longest_wait(request: &Request) -> Duration {
    match request.uri().path() {
        "/api/v1/worker/jobs/claim" => MAX_WAIT,
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
    Problem::of(ProblemKind::Internal, "the error was logged").into_response()
}

/// The maximum number of keys of one limiter.
const MAX_KEYS: usize = 20_000;

/// The request rates of credentials and tenants. Counted after authentication, so that nobody can use up the rate of another
/// caller. Every server process counts separately.
#[derive(Debug, Default)]
pub(crate) struct Rates {
    limiters: parking_lot::Mutex<std::collections::HashMap<u32, Arc<DefaultKeyedRateLimiter<String>>>>,
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

    /// Whether one more of this kind is allowed now; counts it.
    pub(crate) fn has_room(&self, per_minute: u32, key: &str) -> bool {
        self.take(per_minute, key).is_ok()
    }

    /// Counts one more of this kind, or rejects it.
    pub(crate) fn take(&self, per_minute: u32, key: &str) -> Result<(), Problem> {
        let limiter = self.limiter(per_minute);
        // Idle keys are removed. If all are active, somebody is generating keys: then all are removed.
        if limiter.len() > MAX_KEYS {
            limiter.retain_recent();
            if limiter.len() > MAX_KEYS / 2 {
                self.limiters.lock().remove(&per_minute);
            }
        }
        limiter.check_key(&key.to_owned()).map_err(|not_until| {
            use governor::clock::{Clock, DefaultClock};
            let wait = not_until.wait_time_from(DefaultClock::default().now()).as_secs_f64().ceil();
            let detail = format!("at most {per_minute} requests per minute");
            Problem::of(ProblemKind::TooManyRequests, detail).retry_after((wait as u64).max(1))
        })
    }

    /// One limiter per rate; there are as many as distinct settings.
    fn limiter(&self, per_minute: u32) -> Arc<DefaultKeyedRateLimiter<String>> {
        let mut limiters = self.limiters.lock();
        limiters
            .entry(per_minute)
            .or_insert_with(|| {
                let most = NonZeroU32::new(per_minute).unwrap_or(NonZeroU32::MIN);
                Arc::new(RateLimiter::keyed(Quota::per_minute(most)))
            })
            .clone()
    }
}
