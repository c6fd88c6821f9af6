//! Whether the caller of a stream or of a waiting claim still has access. A stream stays open for hours and a claim waits for a
//! minute, so they are checked again every few seconds and end when the token was revoked or has expired, the session has ended, or
//! the member was removed. Other requests are checked when their head arrives, and again before they run if that was more than a
//! second ago: a body may take half a minute.
//!
//! Every stream has a [`StreamAccess`], so the streams of a tenant are counted here, too.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use axum::extract::{ConnectInfo, FromRequestParts};
use axum::http::request::Parts;
use axum::http::{HeaderName, HeaderValue, Request, header};
use axum::response::sse::Event;
use serde_json::json;
use uuid::Uuid;
use windlass::internals::SlotGuard;

use super::app::App;
use super::guard::{InProcess, tenant_of};
use super::problem::{Problem, ProblemKind};
use crate::auth::{Caller, Permission};
use crate::server::OverTls;

/// Together with the cache of the authenticator, a stream ends within about six seconds.
const EVERY: Duration = Duration::from_secs(3);

/// How long a caller keeps its access while no check has a result, because the database or the issuer does not respond.
const UNVERIFIED: Duration = Duration::from_secs(30);

/// How long the check of a request is valid until its handler runs.
const MOMENT: Duration = Duration::from_secs(1);

/// A guess: a stream ends whenever its reader closes it.
const RETRY_AFTER: u64 = 5;

/// The minimum time between two reads of the database by all streams, or by all waiting claims, of a tenant together. The checks
/// of their callers are counted separately, and have the same minimum.
const APART: Duration = Duration::from_millis(20);

/// The caller of a request that lasts longer than a moment, and how to check it again.
#[derive(Debug)]
pub(crate) struct Access {
    app: App,
    /// What is needed of the head of the request, with its credential.
    request: Parts,
    caller: Caller,
    permission: Permission,
    checked: Instant,
    /// When a check last succeeded.
    verified: Instant,
}

impl FromRequestParts<App> for Access {
    type Rejection = Problem;

    async fn from_request_parts(request: &mut Parts, app: &App) -> Result<Self, Problem> {
        let caller = request.extensions.get::<Caller>().cloned().ok_or_else(Problem::unauthorized)?;
        let permission = request.extensions.get::<Permission>().copied().ok_or_else(Problem::unauthorized)?;
        let (app, request) = (app.clone(), credential_of(request));
        let now = Instant::now();
        Ok(Self { app, request, caller, permission, checked: now, verified: now })
    }
}

/// When the caller of a request was checked. Set by the guard.
#[derive(Debug, Clone, Copy)]
pub(super) struct Checked(Instant);

impl Checked {
    pub(super) fn now() -> Self {
        Self(Instant::now())
    }
}

/// Checks the caller of a request again if the last check is older than a second: its body was slow, or it waited for a permit.
pub(super) async fn check_again(request: &mut Parts, app: &App) -> Result<(), Problem> {
    let Some(Checked(verified)) = request.extensions.get::<Checked>().copied() else { return Ok(()) };
    if verified.elapsed() < MOMENT {
        return Ok(());
    }
    let access = Access::from_request_parts(request, app).await?;
    Access { verified, ..access }.check().await?;
    request.extensions.insert(Checked::now());
    Ok(())
}

/// The part of a head that decides who the caller is, copied: a clone would keep all headers, and a slice the buffer they are in.
fn credential_of(request: &Parts) -> Parts {
    let mut small = Request::new(()).into_parts().0;
    for name in [header::AUTHORIZATION, header::COOKIE, HeaderName::from_static("x-tenant-id")] {
        for value in request.headers.get_all(&name) {
            // It was valid before.
            let Ok(mut copy) = HeaderValue::from_bytes(value.as_bytes()) else { continue };
            copy.set_sensitive(value.is_sensitive());
            small.headers.append(&name, copy);
        }
    }
    let extensions = &request.extensions;
    extensions.get::<InProcess>().cloned().map(|ours| small.extensions.insert(ours));
    extensions.get::<OverTls>().copied().map(|over_tls| small.extensions.insert(over_tls));
    extensions.get::<ConnectInfo<SocketAddr>>().copied().map(|from| small.extensions.insert(from));
    small
}

impl Access {
    /// Checks again if the last check is old. Call it between two reads, while no connection is held.
    pub(crate) async fn renew(&mut self) -> Result<(), Problem> {
        self.renew_every(EVERY).await
    }

    async fn renew_every(&mut self, every: Duration) -> Result<(), Problem> {
        if self.checked.elapsed() < every {
            return Ok(());
        }
        self.check().await?;
        self.checked = Instant::now();
        Ok(())
    }

    /// Checks again.
    pub(crate) async fn check(&mut self) -> Result<(), Problem> {
        if self.request.extensions.get::<InProcess>().is_some() {
            return Ok(());
        }
        match self.authenticate().await {
            Ok(()) => self.verified = Instant::now(),
            Err(problem) if ends_access(problem.kind, self.verified.elapsed()) => return Err(problem),
            Err(_) => {}
        }
        Ok(())
    }

    async fn authenticate(&self) -> Result<(), Problem> {
        let mut caller = self.app.authenticator().authenticate(&self.request).await?.caller;
        tenant_of(&self.app, &self.request, &mut caller).await?;
        // A handler may check more than the permission of its route, with the caller as it was when the request began.
        let has_lost = |permission: &Permission| self.caller.may(*permission) && !caller.may(*permission);
        if caller.tenant != self.caller.tenant
            || !caller.may(self.permission)
            || Permission::ALL.iter().any(has_lost)
        {
            let detail =
                "the credential has lost permissions since the request began; send the request again";
            return Err(Problem::of(ProblemKind::Forbidden, detail));
        }
        Ok(())
    }

    /// Counts a waiting claim. All claims of a tenant together check their callers at a limited rate; with very many, only the
    /// check before the response is left.
    pub(crate) fn waits(&self) -> Option<Waits> {
        let tenant = self.caller.tenant.unwrap_or(windlass::admin::INSTALLATION);
        self.app.waiting_claims().take(tenant, 1).map(Waits)
    }
}

/// Whether a check with this error ends the access of a caller that was last verified so long ago. A recently valid credential is
/// looked up without a limit, so one that reaches the limit is no longer known as valid.
fn ends_access(kind: ProblemKind, unverified: Duration) -> bool {
    use ProblemKind::{Forbidden, NotFound, TooManyRequests, Unauthorized};
    matches!(kind, Unauthorized | Forbidden | NotFound | TooManyRequests) || unverified > UNVERIFIED
}

/// A waiting claim, counted until this is dropped.
#[derive(Debug)]
pub(crate) struct Waits(SlotGuard<Uuid>);

impl Waits {
    /// How long to wait until the next check of the caller.
    pub(crate) fn pace(&self) -> Duration {
        pace(EVERY, &self.0)
    }
}

fn pace(usual: Duration, slot: &SlotGuard<Uuid>) -> Duration {
    usual.max(APART * u32::try_from(slot.siblings()).unwrap_or(u32::MAX))
}

/// The access of one stream's caller.
#[derive(Debug)]
pub(crate) struct StreamAccess {
    access: Access,
    slot: SlotGuard<Uuid>,
}

impl FromRequestParts<App> for StreamAccess {
    type Rejection = Problem;

    async fn from_request_parts(request: &mut Parts, app: &App) -> Result<Self, Problem> {
        let access = Access::from_request_parts(request, app).await?;
        let tenant = access.caller.tenant.unwrap_or(windlass::admin::INSTALLATION);
        let slot = app.streams().take(tenant, 1).ok_or_else(|| {
            let most = app.options().streams_per_tenant;
            let detail = format!("a tenant can have at most {most} open streams; close another one");
            Problem::of(ProblemKind::TooManyRequests, detail).retry_after(RETRY_AFTER)
        })?;
        Ok(Self { access, slot })
    }
}

impl StreamAccess {
    /// For a stream that requires another permission than its route.
    pub(crate) fn needs(mut self, permission: Permission) -> Self {
        self.access.permission = permission;
        self
    }

    /// How long to wait between two reads of the database: `usual`, or longer if the tenant has many open streams. So the load on
    /// the database does not grow with the number of streams.
    pub(crate) fn pace(&self, usual: Duration) -> Duration {
        pace(usual, &self.slot)
    }

    /// Checks again if the last check is old.
    pub(crate) async fn renew(&mut self) -> Result<(), Problem> {
        self.access.renew_every(pace(EVERY, &self.slot)).await
    }
}

/// The last event of a stream whose caller has lost access.
pub(crate) fn revoked(problem: &Problem) -> Event {
    let about = json!({"type": problem.kind.urn(), "detail": problem.detail});
    Event::default().event("revoked").data(about.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_credential_of_a_request_is_kept() {
        let request = Request::get("/api/v1/jobs/stream").header("x-large", "x".repeat(60_000));
        let request = request.header("authorization", "Bearer a").header("x-tenant-id", "b");
        let mut request =
            request.header("cookie", "c=1").header("cookie", "d=2").body(()).unwrap().into_parts().0;
        request.headers.get_mut("authorization").unwrap().set_sensitive(true);
        let from = SocketAddr::from(([192, 0, 2, 1], 1));
        request.extensions.insert(ConnectInfo(from));
        request.extensions.insert(OverTls(true));
        let kept = credential_of(&request);
        assert_eq!(kept.headers.len(), 4);
        assert_eq!(kept.headers["authorization"], "Bearer a");
        assert!(kept.headers["authorization"].is_sensitive());
        assert_eq!(kept.headers["x-tenant-id"], "b");
        assert_eq!(kept.headers.get_all("cookie").iter().collect::<Vec<_>>(), ["c=1", "d=2"]);
        assert_eq!(kept.extensions.get::<ConnectInfo<SocketAddr>>().unwrap().0, from);
        assert!(OverTls::of(&kept.extensions));
    }

    #[test]
    fn an_error_about_the_caller_ends_its_access_at_once_and_any_other_after_thirty_seconds() {
        use ProblemKind::{Forbidden, NotFound, TooManyRequests, Unauthorized, Unavailable};
        for kind in [Unauthorized, Forbidden, NotFound, TooManyRequests] {
            assert!(ends_access(kind, Duration::ZERO), "{kind:?}");
        }
        assert!(!ends_access(Unavailable, Duration::from_secs(30)));
        assert!(ends_access(Unavailable, Duration::from_secs(31)));
    }
}
