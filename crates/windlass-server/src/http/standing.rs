//! Whether the caller of a stream still has access. A request is checked once; a stream stays open for hours, so it is checked
//! again every few seconds and ends when the token was revoked or has expired, the session has ended, or the member was removed.
//!
//! Every stream has a standing, so the streams of a tenant are counted here, too.

use std::time::{Duration, Instant};

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::response::sse::Event;
use serde_json::json;
use uuid::Uuid;
use windlass::internals::SlotGuard;

use super::app::App;
use super::guard::{InProcess, tenant_of};
use super::problem::{Problem, ProblemKind};
use crate::auth::{Caller, Permission};

/// Together with the cache of the authenticator, a stream ends within about six seconds.
const EVERY: Duration = Duration::from_secs(3);

/// A guess: a stream ends whenever its reader closes it.
const RETRY_AFTER: u64 = 5;

/// The minimum time between two reads of the database by all streams of a tenant together.
const APART: Duration = Duration::from_millis(20);

/// The standing of one stream's caller.
#[derive(Debug)]
pub(crate) struct Standing {
    app: App,
    /// The head of the request, with its credential.
    request: Parts,
    caller: Caller,
    permission: Permission,
    checked: Instant,
    slot: SlotGuard<Uuid>,
}

impl FromRequestParts<App> for Standing {
    type Rejection = Problem;

    async fn from_request_parts(request: &mut Parts, app: &App) -> Result<Self, Problem> {
        let caller = request.extensions.get::<Caller>().cloned().ok_or_else(Problem::unauthorized)?;
        let permission = request.extensions.get::<Permission>().copied().ok_or_else(Problem::unauthorized)?;
        let tenant = caller.tenant.unwrap_or(windlass::admin::INSTALLATION);
        let slot = app.streams().take(tenant, 1).ok_or_else(|| {
            let most = app.options().streams_per_tenant;
            let detail = format!("a tenant can have at most {most} open streams; close another one");
            Problem::of(ProblemKind::TooManyRequests, detail).retry_after(RETRY_AFTER)
        })?;
        let (app, request) = (app.clone(), request.clone());
        Ok(Self { app, request, caller, permission, checked: Instant::now(), slot })
    }
}

impl Standing {
    /// For a stream that requires another permission than its route.
    pub(crate) fn needs(mut self, permission: Permission) -> Self {
        self.permission = permission;
        self
    }

    /// How long to wait between two reads of the database: `usual`, or longer if the tenant has many open streams. So the load on
    /// the database does not grow with the number of streams.
    pub(crate) fn pace(&self, usual: Duration) -> Duration {
        usual.max(APART * u32::try_from(self.slot.siblings()).unwrap_or(u32::MAX))
    }

    /// Checks again if the last check is old. Call it between two reads, while no connection is held.
    pub(crate) async fn renew(&mut self) -> Result<(), Problem> {
        if self.checked.elapsed() < EVERY || self.request.extensions.get::<InProcess>().is_some() {
            return Ok(());
        }
        match self.check().await {
            // Other errors say nothing about the caller, and the stream shows nothing while the database is unavailable.
            Err(problem) if matches!(problem.kind, ProblemKind::Unauthorized | ProblemKind::Forbidden) => {
                Err(problem)
            }
            _ => {
                self.checked = Instant::now();
                Ok(())
            }
        }
    }

    async fn check(&self) -> Result<(), Problem> {
        let mut caller = self.app.authenticator().authenticate(&self.request).await?.caller;
        tenant_of(&self.app, &self.request, &mut caller).await?;
        if caller.tenant != self.caller.tenant || !caller.may(self.permission) {
            return Err(Problem::of(
                ProblemKind::Forbidden,
                "the credential no longer has access to this stream",
            ));
        }
        Ok(())
    }
}

/// The last event of a stream whose caller has lost access.
pub(crate) fn revoked(problem: &Problem) -> Event {
    let about = json!({"type": problem.kind.urn(), "detail": problem.detail});
    Event::default().event("revoked").data(about.to_string())
}
