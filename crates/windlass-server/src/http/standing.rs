//! Whether whoever opened a stream may still read it. A request is checked once, when it comes; a stream goes on for hours, so it
//! is checked again every few seconds and ends when the token was revoked or has expired, the session ended, or the member was
//! removed.
//!
//! Every stream has a standing, so this is also where the streams of a tenant are counted.

use std::time::{Duration, Instant};

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::response::sse::Event;
use serde_json::json;
use uuid::Uuid;
use windlass::Place;

use super::app::App;
use super::guard::{InProcess, tenant_of};
use super::problem::{Problem, ProblemKind};
use crate::auth::{Caller, Permission};

/// Together with what the authenticator believes for a moment, a stream ends within some six seconds.
const EVERY: Duration = Duration::from_secs(3);

/// Streams end when their readers do, which nobody can foretell.
const RETRY_AFTER: u64 = 5;

/// All streams of a tenant together look at the database no more often than once in this time.
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
    place: Place<Uuid>,
}

impl FromRequestParts<App> for Standing {
    type Rejection = Problem;

    async fn from_request_parts(request: &mut Parts, app: &App) -> Result<Self, Problem> {
        let caller = request.extensions.get::<Caller>().cloned().ok_or_else(Problem::unauthorized)?;
        let permission = request.extensions.get::<Permission>().copied().ok_or_else(Problem::unauthorized)?;
        let tenant = caller.tenant.unwrap_or(windlass::INSTALLATION);
        let place = app.streams().take(tenant, 1).ok_or_else(|| {
            let most = app.options().streams_per_tenant;
            let detail = format!("a tenant has at most {most} streams open at a time; close another one");
            Problem::of(ProblemKind::TooManyRequests, detail).retry_after(RETRY_AFTER)
        })?;
        let (app, request) = (app.clone(), request.clone());
        Ok(Self { app, request, caller, permission, checked: Instant::now(), place })
    }
}

impl Standing {
    /// For a stream that needs more than its route does.
    pub(crate) fn needs(mut self, permission: Permission) -> Self {
        self.permission = permission;
        self
    }

    /// How long to wait between two looks at the database: this long, and longer if the tenant has many streams open. So the
    /// number of streams does not decide how much of the database a tenant has.
    pub(crate) fn pace(&self, usual: Duration) -> Duration {
        usual.max(APART * u32::try_from(self.place.siblings()).unwrap_or(u32::MAX))
    }

    /// Checks again, if the last time was a while ago. Call it between two looks, while no connection is held.
    pub(crate) async fn renew(&mut self) -> Result<(), Problem> {
        if self.checked.elapsed() < EVERY || self.request.extensions.get::<InProcess>().is_some() {
            return Ok(());
        }
        match self.check().await {
            // Anything else says nothing about the caller, and a database that does not answer shows them nothing either.
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
            return Err(Problem::of(ProblemKind::Forbidden, "the credential may no longer read this stream"));
        }
        Ok(())
    }
}

/// The last event of a stream whose caller may no longer read it.
pub(crate) fn revoked(problem: &Problem) -> Event {
    let about = json!({"type": problem.kind.urn(), "detail": problem.detail});
    Event::default().event("revoked").data(about.to_string())
}
