//! The super-admin's look across tenants: is anything wrong, and where.

use std::collections::HashMap;

use askama::Template;
use axum::extract::State as FromState;
use jiff::SignedDuration;
use uuid::Uuid;
use windlass::{Reach, Run, Summary};

use super::cards::{Card, Facts, cards, grouped};
use super::chart::{Unit, distribution, percentile, scatter, throughput};
use super::frame::{Frame, Section};
use super::html::Html;
use super::jobs::{bars, dots, sorted};
use super::page::{Page, page};
use super::viewer::Viewer;
use super::workers::is_silent;
use crate::http::App;

#[derive(Template)]
#[template(path = "overview.html")]
struct OverviewPage {
    frame: Frame,
    notes: Vec<Note>,
    cards: Vec<Card>,
    throughput: Html,
    scatter: Html,
    latency: Html,
    duration: Html,
    tenants: Vec<TenantRow>,
    definitions: Vec<DefinitionRow>,
}

struct Note {
    role: &'static str,
    text: String,
    href: &'static str,
    link: &'static str,
}

struct TenantRow {
    id: Uuid,
    name: String,
    queued: String,
    running: String,
    scheduled: String,
    succeeded: String,
    failed: String,
    dead: String,
}

struct DefinitionRow {
    name: String,
    health: Html,
    queued: String,
    running: String,
    succeeded: String,
    failed: String,
    dead: String,
}

const SHOWN: usize = 25;

/// `GET /ui/overview`
pub(crate) async fn show(FromState(app): FromState<App>, viewer: Viewer) -> Page {
    let frame = viewer.frame(&app, Section::Overview).await?;
    let looking = app.queue().look(Reach::Everything).await?;
    let now = frame.now;
    let overview = looking.overview().await?;
    let counts = looking.counts().await?;
    let activity = looking.activity(now - SignedDuration::from_hours(1), 60).await?;
    let runs = looking.runs(500).await?;
    let workers = looking.workers().await?;
    let paused: Vec<String> = looking
        .queues()
        .await?
        .into_iter()
        .filter(|(_, is_paused)| *is_paused)
        .map(|(name, _)| name)
        .collect();
    let mut busiest: Vec<(&Uuid, &Summary)> = overview.tenants.iter().collect();
    busiest.sort_by_key(|(_, summary)| {
        std::cmp::Reverse((summary.queued + summary.running, summary.dead_letter + summary.failed))
    });
    busiest.truncate(SHOWN);
    let ids: Vec<Uuid> = busiest.iter().map(|(id, _)| **id).collect();
    let names: HashMap<Uuid, String> =
        looking.tenant_names(Some(&ids), SHOWN as u16).await?.into_iter().collect();
    looking.end().await?;

    let alive = workers.iter().filter(|worker| worker.stopped_at.is_none() && !is_silent(worker)).count();
    let silent = workers.iter().filter(|worker| is_silent(worker)).count();
    let waits = sorted(runs.iter().filter_map(Run::waited));
    let facts = Facts {
        oldest_queued: overview.all.oldest_queued_age_seconds,
        workers: i64::try_from(alive).ok(),
        succeeded_lately: activity.iter().map(|each| each.succeeded).sum(),
        failed_lately: activity.iter().map(|each| each.failed).sum(),
        p95_wait: percentile(&waits, 0.95),
    };
    let mut notes = Vec::new();
    if silent > 0 {
        let text = if silent == 1 {
            "1 worker has fallen silent.".to_owned()
        } else {
            format!("{silent} workers have fallen silent.")
        };
        notes.push(Note { role: "failed", text, href: "/ui/workers", link: "Look at the workers" });
    }
    if alive == 0 && overview.all.queued > 0 {
        notes.push(Note {
            role: "failed",
            text: "Jobs are queued and no worker is alive.".to_owned(),
            href: "/ui/workers",
            link: "Workers",
        });
    }
    if !paused.is_empty() {
        let text = format!("Paused: {}.", paused.join(", "));
        notes.push(Note { role: "warning", text, href: "/ui/queues", link: "Queues" });
    }
    let tenant = |(id, summary): (&Uuid, &Summary)| TenantRow {
        id: *id,
        name: names.get(id).cloned().unwrap_or_else(|| id.to_string()),
        queued: grouped(summary.queued),
        running: grouped(summary.running),
        scheduled: grouped(summary.scheduled),
        succeeded: grouped(summary.succeeded),
        failed: grouped(summary.failed),
        dead: grouped(summary.dead_letter),
    };
    let mut definitions: Vec<(&String, &Summary)> = overview.definitions.iter().collect();
    definitions.sort_by(|a, b| failure_share(b.1).total_cmp(&failure_share(a.1)));
    let definition = |(name, summary): (&String, &Summary)| DefinitionRow {
        name: name.clone(),
        health: health(summary),
        queued: grouped(summary.queued),
        running: grouped(summary.running),
        succeeded: grouped(summary.succeeded),
        failed: grouped(summary.failed),
        dead: grouped(summary.dead_letter),
    };
    page(&OverviewPage {
        notes,
        cards: cards(&counts, &facts, |_| "/ui/queues".to_owned()),
        throughput: throughput(&bars(&activity, now, 60, 60), 60.0),
        scatter: scatter(&dots(&runs)),
        latency: distribution(Unit::Latency, &waits),
        duration: distribution(Unit::Duration, &sorted(runs.iter().filter_map(Run::lasted))),
        tenants: busiest.into_iter().map(tenant).collect(),
        definitions: definitions.into_iter().take(SHOWN).map(definition).collect(),
        frame,
    })
}

fn failure_share(summary: &Summary) -> f64 {
    let bad = (summary.failed + summary.dead_letter) as f64;
    bad / (bad + summary.succeeded as f64).max(1.0)
}

fn health(summary: &Summary) -> Html {
    let share = failure_share(summary);
    let (role, shape, words) = match share {
        _ if summary.succeeded + summary.failed + summary.dead_letter == 0 => {
            ("queued", "ring", "no run yet".to_owned())
        }
        share if share >= 0.2 => ("failed", "cross", format!("{:.0} % fail", share * 100.0)),
        share if share >= 0.02 => ("retrying", "warning", format!("{:.0} % fail", share * 100.0)),
        _ => ("succeeded", "tick", "well".to_owned()),
    };
    Html(format!(
        "<span class=\"status is-{role}\"><svg aria-hidden=\"true\"><use href=\"#s-{shape}\"/></svg>{words}</span>"
    ))
}
