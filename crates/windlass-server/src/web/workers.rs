//! Workers and their heartbeats. Those without recent heartbeats come first, with what happens to their jobs.

use askama::Template;
use axum::extract::State as FromState;
use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use windlass::admin::{Reach, WorkerRecord};

use super::count::count_words;
use super::form_body::FormBody;
use super::frame::{Frame, Section};
use super::page::{Page, back, page};
use super::relative_time::{RelativeTime, seconds_between, span};
use super::status_mark::StatusMark;
use super::url_parameters::UiQuery;
use super::viewer::Viewer;
use super::worker_name::brief;
use crate::http::{App, Problem};

#[derive(Template)]
#[template(path = "workers.html")]
struct WorkersPage {
    frame: Frame,
    summary: String,
    stale: Vec<WorkerRow>,
    rows: Vec<WorkerRow>,
    is_first: bool,
    next: Option<String>,
}

#[derive(Clone)]
struct WorkerRow {
    number: usize,
    name: String,
    /// The short name.
    brief: String,
    hostname: String,
    state: StatusMark,
    seen: RelativeTime,
    seen_age: RelativeTime,
    stale_words: String,
    running: i32,
    queues: String,
    keys: String,
    version: String,
    up: RelativeTime,
    /// How long a stopped worker ran.
    ran: Option<String>,
    is_draining: bool,
    may_drain: bool,
    needs_attention: bool,
}

/// Stopped workers are shown for an hour: long enough to see a deployment.
const STOPPED_SHOWN: SignedDuration = SignedDuration::from_hours(1);

/// A warning about a lost worker is shown for a day; it stays in the list as long as it is stored.
const LOST_WARNED: SignedDuration = SignedDuration::from_hours(24);

/// The number of workers on one page.
const SHOWN: usize = 100;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct WorkersPart {
    from: usize,
}

/// `GET /ui/workers`
pub(crate) async fn list(
    FromState(app): FromState<App>,
    viewer: Viewer,
    UiQuery(part): UiQuery<WorkersPart>,
) -> Page {
    let frame = viewer.frame(&app, Section::Workers).await?;
    let reading = app.queue().read(Reach::Everything).await?;
    let workers = reading.workers().await?;
    reading.end().await?;
    let now = frame.now;
    let mut shown: Vec<&WorkerRecord> = workers
        .iter()
        .filter(|worker| {
            is_lost(worker) || worker.stopped_at.is_none_or(|at| now.duration_since(at) < STOPPED_SHOWN)
        })
        .collect();
    shown.sort_by(|a, b| rank(a).cmp(&rank(b)).then(a.worker_id.cmp(&b.worker_id)));
    let live = shown.iter().filter(|worker| worker.stopped_at.is_none() && !is_stale(worker));
    let (count, running) =
        live.fold((0, 0), |(count, running), worker| (count + 1, running + worker.running_count));
    let rows = shown.iter().enumerate().map(|(number, worker)| row(number, worker, now));
    let stale = rows.clone().filter(|row| row.needs_attention).take(5).collect();
    let rows: Vec<WorkerRow> = rows.skip(part.from).take(SHOWN).collect();
    page(&WorkersPage {
        summary: format!("All tenants: {count} active, {} running", count_words(running, "job")),
        stale,
        is_first: part.from == 0,
        next: Some(part.from.saturating_add(SHOWN))
            .filter(|next| *next < shown.len())
            .map(|next| format!("/ui/workers?from={next}")),
        rows,
        frame,
    })
}

/// Whether its lease has expired or is about to: a worker renews it long before half of it has passed. A pull worker without
/// jobs has no lease to renew: if it makes no more calls, it has only stopped.
pub(crate) fn is_stale(worker: &WorkerRecord) -> bool {
    let is_late = worker.seen_seconds_ago > f64::from(worker.lease_seconds) * 0.6;
    let is_idle_pull_worker = is_pull_worker(worker) && worker.running_count == 0;
    worker.stopped_at.is_none() && !is_idle_pull_worker && (worker.is_stale || is_late)
}

/// Only the name of a pull worker contains `@`.
fn is_pull_worker(worker: &WorkerRecord) -> bool {
    worker.worker_id.contains('@')
}

/// Whether it missed its heartbeats and did not return, so that its jobs were given to other workers.
fn is_lost(worker: &WorkerRecord) -> bool {
    worker.is_stale && worker.stopped_at.is_some()
}

/// Whether a worker needs attention: it has missed heartbeats, or was lost recently.
pub(crate) fn needs_attention(worker: &WorkerRecord, now: Timestamp) -> bool {
    let is_fresh = worker.stopped_at.is_some_and(|at| now.duration_since(at) < LOST_WARNED);
    is_stale(worker) || (is_lost(worker) && is_fresh)
}

fn rank(worker: &WorkerRecord) -> u8 {
    match (is_stale(worker), is_lost(worker), worker.stopped_at.is_some()) {
        (true, ..) => 0,
        (false, true, _) => 1,
        (false, false, false) => 2,
        (false, false, true) => 3,
    }
}

fn row(number: usize, worker: &WorkerRecord, now: Timestamp) -> WorkerRow {
    let state = if is_stale(worker) {
        StatusMark::new("failed", "warning", "Stale")
    } else if is_lost(worker) {
        StatusMark::new("failed", "cross", "Lost")
    } else if worker.stopped_at.is_some() {
        StatusMark::new("canceled", "dash", "Stopped")
    } else if worker.is_draining {
        StatusMark::new("retrying", "clock", "Draining")
    } else {
        StatusMark::new("succeeded", "tick", "Active")
    };
    let left = worker.lease_expires_at.duration_since(now).as_secs_f64();
    let jobs = count_words(worker.running_count, "job");
    let stale_words = match (worker.running_count, left > 0.0) {
        _ if is_lost(worker) => {
            format!(
                "Its lease expired. If it was running jobs, they were retried on other workers. Check its host: {}.",
                worker.hostname
            )
        }
        (0, _) => {
            "It had no running jobs. If its host was removed, no action is needed; it disappears from this page."
                .to_owned()
        }
        (_, true) => {
            format!("Its {jobs} will be retried on other workers when its lease expires in {}.", span(left))
        }
        (_, false) => format!(
            "Its lease expired; its {jobs} will be retried on other workers. Check its host: {}.",
            worker.hostname
        ),
    };
    // A part of the server that runs no jobs, such as the dispatcher of pull workers.
    let role = worker.metadata["kind"].as_str().filter(|_| worker.definition_keys.is_empty());
    let all =
        |names: &[String], none: &str| if names.is_empty() { none.to_owned() } else { names.join(", ") };
    WorkerRow {
        number,
        name: worker.worker_id.clone(),
        brief: brief(&worker.worker_id),
        needs_attention: needs_attention(worker, now),
        hostname: worker.hostname.clone(),
        state,
        seen: RelativeTime::new(worker.last_seen_at, now),
        seen_age: RelativeTime::age(worker.last_seen_at, now),
        stale_words,
        running: worker.running_count,
        queues: all(&worker.queues, "all"),
        keys: all(&worker.definition_keys, role.unwrap_or("none")),
        version: worker.version.clone(),
        up: RelativeTime::age(worker.started_at, now),
        ran: worker.stopped_at.map(|at| span(seconds_between(worker.started_at, at).max(0.0))),
        is_draining: worker.is_draining,
        may_drain: worker.stopped_at.is_none() && role.is_none(),
    }
}

/// `POST /ui/workers`: drains or resumes a worker.
pub(crate) async fn set_draining(FromState(app): FromState<App>, viewer: Viewer, posted: FormBody) -> Page {
    let worker = posted.get("worker").ok_or_else(|| Problem::invalid("/worker", "must name a worker"))?;
    let is_draining = posted.get("draining") == Some("yes");
    let acting = app.queue().act(Reach::Everything, &viewer.caller.actor()).await?;
    acting.set_draining(worker, is_draining).await?;
    acting.commit().await?;
    let words = if is_draining {
        format!("Draining {worker}. It finishes its running jobs.")
    } else {
        format!("Resumed {worker}.")
    };
    Ok(back("/ui/workers", "succeeded", words))
}
