//! Notifies pages of changes. For any number of changed jobs, a page is notified at most once a second and then fetches
//! itself. The stream carries no data, so nothing is rendered unless a browser requests it.
//!
//! All streams of a tenant share one read of its counters, which is cached for a moment. How it stops: with the server,
//! or when the browser disconnects.

use std::collections::HashMap;
use std::convert::Infallible;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::State as FromState;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream::{self, StreamExt as _};
use parking_lot::Mutex as StdMutex;
use serde::Deserialize;
use tokio::sync::Mutex;
use uuid::Uuid;
use windlass::Queue;
use windlass::admin::Reach;

use super::problem::PageProblem;
use super::url_parameters::UiQuery;
use crate::auth::{Caller, Permission};
use crate::http::{App, StreamAccess, revoked};

/// How often a stream reads the counters, and how long a read is shared.
const PACE: Duration = Duration::from_millis(1000);
const SHARED: Duration = Duration::from_millis(700);

/// Ages and heartbeats change even if no job does.
const AT_LEAST_EVERY: Duration = Duration::from_secs(5);

#[derive(Debug, Deserialize)]
pub(crate) struct Scope {
    all: Option<u8>,
}

/// `GET /ui/live`
pub(crate) async fn stream(
    FromState(app): FromState<App>,
    caller: Caller,
    access: StreamAccess,
    UiQuery(scope): UiQuery<Scope>,
) -> Result<Response, PageProblem> {
    let (reach, access) = match scope.all {
        Some(_) if caller.may(Permission::Administer) => {
            (Reach::Everything, access.needs(Permission::Administer))
        }
        _ => (caller.reach(), access),
    };
    let first = app.pulses().pulse(app.queue(), reach).await?;
    let watch = Watch { app: app.clone(), reach, access, seen: first, notified: Instant::now() };
    let events = stream::unfold(Some(watch), next).map(Ok::<_, Infallible>);
    Ok(Sse::new(events).keep_alive(KeepAlive::default()).into_response())
}

struct Watch {
    app: App,
    reach: Reach,
    access: StreamAccess,
    seen: u64,
    notified: Instant,
}

async fn next(watch: Option<Watch>) -> Option<(Event, Option<Watch>)> {
    let mut watch = watch?;
    let bye = |why: &str| Some((Event::default().event("bye").data(why), None));
    loop {
        tokio::select! {
            () = tokio::time::sleep(watch.access.pace(PACE)) => {}
            () = watch.app.stopping().cancelled() => return bye("the server is stopping"),
        }
        if let Err(problem) = watch.access.renew().await {
            return Some((revoked(&problem), None));
        }
        let Ok(now) = watch.app.pulses().pulse(watch.app.queue(), watch.reach).await else {
            return bye("the database is not responding");
        };
        if now != watch.seen || watch.notified.elapsed() > AT_LEAST_EVERY {
            watch.seen = now;
            watch.notified = Instant::now();
            return Some((Event::default().event("change").data("1"), Some(watch)));
        }
    }
}

/// The last read of the counters of each tenant, shared by all streams of this server.
#[derive(Debug, Default)]
pub(crate) struct Pulses(StdMutex<HashMap<Uuid, Arc<Mutex<Option<PageState>>>>>);

#[derive(Debug, Clone, Copy)]
struct PageState {
    at: Instant,
    pulse: u64,
    dead_letters: i64,
}

impl Pulses {
    /// Returns a number that changes whenever a job of the tenant changes.
    async fn pulse(&self, queue: &Queue, reach: Reach) -> Result<u64, windlass::Error> {
        Ok(self.look(queue, reach).await?.pulse)
    }

    /// The number of dead letters of the tenant, for the navigation of every page.
    pub(crate) async fn dead_letters(&self, queue: &Queue, reach: Reach) -> Result<i64, windlass::Error> {
        Ok(self.look(queue, reach).await?.dead_letters)
    }

    async fn look(&self, queue: &Queue, reach: Reach) -> Result<PageState, windlass::Error> {
        let key = reach.tenant().unwrap_or(windlass::admin::INSTALLATION);
        let place = {
            let mut places = self.0.lock();
            if places.len() > MAX_TENANTS {
                places.retain(|_, place| Arc::strong_count(place) > 1);
            }
            places.entry(key).or_default().clone()
        };
        // Concurrent callers wait for the same read.
        let mut look = place.lock().await;
        if let Some(known) = look.filter(|look| look.at.elapsed() < SHARED) {
            return Ok(known);
        }
        let reading = queue.read(reach).await?;
        let counts = reading.counts().await?;
        reading.end().await?;
        let mut hasher = DefaultHasher::new();
        for each in &counts {
            (each.tenant_id, &each.queue, each.definition_id).hash(&mut hasher);
            (each.queued, each.running, each.scheduled, each.blocked).hash(&mut hasher);
            (each.succeeded, each.failed, each.dead_letter, each.canceled).hash(&mut hasher);
        }
        let fresh = PageState {
            at: Instant::now(),
            pulse: hasher.finish(),
            dead_letters: counts.iter().map(|each| each.dead_letter).sum(),
        };
        *look = Some(fresh);
        Ok(fresh)
    }
}

const MAX_TENANTS: usize = 10_000;
