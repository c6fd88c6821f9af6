//! Queues: their depth, the age of the oldest job, and the wait time. A tenant sees its own jobs; a super-admin sees
//! all jobs, and can pause queues.

use std::collections::BTreeMap;
use std::sync::Arc;

use askama::Template;
use axum::extract::State as FromState;
use jiff::SignedDuration;
use uuid::Uuid;
use windlass::admin::Reach;

use super::chart::{percentile, spark};
use super::count::grouped;
use super::form_body::FormBody;
use super::frame::{Frame, Section};
use super::html::Html;
use super::page::{Page, back, page};
use super::relative_time::{RelativeTime, span};
use super::run_charts::{RunCharts, queue_times};
use super::viewer::Viewer;
use crate::auth::Permission;
use crate::http::{App, Problem};

#[derive(Template)]
#[template(path = "queues.html")]
struct QueuesPage {
    frame: Frame,
    rows: Vec<QueueRow>,
    charts: RunCharts,
    may_pause: bool,
}

struct QueueRow {
    name: String,
    is_paused: bool,
    queued: String,
    running: String,
    scheduled: String,
    dead: String,
    spark: Html,
    oldest: Option<RelativeTime>,
    p50: String,
    p95: String,
}

const RUNS: u16 = 500;

/// The number of tenants whose runs are in the charts.
pub(crate) const TENANTS: usize = 25;

/// The number of runs of each tenant in the charts, for a given number of tenants.
pub(crate) fn runs_of_each(tenants: usize) -> u16 {
    RUNS / u16::try_from(tenants).unwrap_or(u16::MAX).max(1)
}

/// `GET /ui/queues`
pub(crate) async fn list(FromState(app): FromState<App>, viewer: Viewer) -> Page {
    let is_wide = viewer.may(Permission::Administer);
    let reach = if is_wide { Reach::Everything } else { viewer.caller.reach() };
    let frame = viewer.frame(&app, Section::Queues).await?;
    let everyone = if is_wide { Some(app.overview_of_all().await?) } else { None };
    let reading = app.queue().read(reach).await?;
    let overview = match everyone {
        Some(overview) => overview,
        None => Arc::new(reading.overview().await?),
    };
    let paused: BTreeMap<String, bool> = reading.queues().await?.into_iter().collect();
    let now = frame.now;
    let activity = reading.activity(now - SignedDuration::from_hours(1), 60).await?;
    let of: Vec<Uuid> = overview.busiest().iter().take(TENANTS).map(|(id, _)| *id).collect();
    let runs = reading.runs(&of, runs_of_each(of.len())).await?;
    reading.end().await?;

    let mut names: Vec<&String> = overview.queues.keys().chain(paused.keys()).collect();
    names.sort();
    names.dedup();
    let row = |name: &String| {
        let summary = overview.queues.get(name).cloned().unwrap_or_default();
        let waits = queue_times(runs.iter().filter(|run| run.queue == *name));
        let says = |share| percentile(&waits, share).map_or_else(|| "–".to_owned(), span);
        let here: Vec<_> = activity.iter().filter(|part| part.queue == *name).collect();
        let last = now.as_second() / 60;
        let depth = |slot: i64| {
            here.iter().filter(|part| part.from.as_second() / 60 == slot).map(|part| part.queued).sum::<i64>()
                as f64
        };
        let depths: Vec<f64> = (last - 59..last).map(depth).collect();
        let most = depths.iter().copied().fold(0.0, f64::max);
        QueueRow {
            is_paused: paused.get(name).copied().unwrap_or_default(),
            queued: grouped(summary.queued),
            running: grouped(summary.running),
            scheduled: grouped(summary.scheduled),
            dead: grouped(summary.dead_letter),
            spark: spark(
                &depths,
                &format!("Queued jobs over the last hour: maximum {most}, now {}", summary.queued),
            ),
            oldest: summary
                .oldest_queued_age_seconds
                .and_then(|age| SignedDuration::try_from_secs_f64(age).ok())
                .map(|age| RelativeTime::age(now - age, now)),
            p50: says(0.5),
            p95: says(0.95),
            name: name.clone(),
        }
    };
    page(&QueuesPage {
        rows: names.into_iter().map(row).collect(),
        charts: RunCharts::new(&activity, &runs, &queue_times(runs.iter()), now),
        may_pause: is_wide,
        frame,
    })
}

/// `POST /ui/queues`: pauses or resumes a queue.
pub(crate) async fn pause(FromState(app): FromState<App>, viewer: Viewer, posted: FormBody) -> Page {
    let queue = posted.text("queue").ok_or_else(|| Problem::invalid("/queue", "must name a queue"))?;
    let is_paused = posted.get("paused") == Some("yes");
    let acting = app.queue().act(Reach::Everything, &viewer.caller.actor()).await?;
    acting.set_paused(queue, is_paused).await?;
    acting.commit().await?;
    let words = if is_paused {
        format!("Paused queue {queue}. Running jobs continue.")
    } else {
        format!("Resumed queue {queue}.")
    };
    Ok(back("/ui/queues", "succeeded", words))
}
