//! The overview of all tenants for super-admins: problems, and where they are.

use std::collections::HashMap;

use askama::Template;
use axum::extract::State as FromState;
use jiff::SignedDuration;
use serde::Deserialize;
use uuid::Uuid;
use windlass::admin::{Problem, Reach, Summary};

use super::cards::{Card, Facts, cards, minutes};
use super::chart::percentile;
use super::count::{count_words, grouped};
use super::frame::{Frame, Section};
use super::page::{Page, page};
use super::queues::{TENANTS, runs_of_each};
use super::run_charts::{RunCharts, queue_times};
use super::url_parameters::UiQuery;
use super::viewer::Viewer;
use super::workers::{is_stale, needs_attention};
use crate::http::App;

#[derive(Template)]
#[template(path = "overview.html")]
struct OverviewPage {
    frame: Frame,
    notes: Vec<Note>,
    cards: Vec<Card>,
    charts: RunCharts,
    tenants: Vec<TenantCountsRow>,
    tenants_words: String,
    previous: Option<String>,
    next: Option<String>,
    definitions: Vec<DefinitionCountsRow>,
}

struct Note {
    role: &'static str,
    text: String,
    href: &'static str,
    link: &'static str,
}

struct TenantCountsRow {
    id: Uuid,
    name: String,
    queued: String,
    running: String,
    scheduled: String,
    succeeded: String,
    failed: String,
    dead: String,
}

struct DefinitionCountsRow {
    name: String,
    health: HealthCard,
    queued: String,
    running: String,
    succeeded: String,
    failed: String,
    dead: String,
}

struct HealthCard {
    role: &'static str,
    shape: &'static str,
    words: String,
}

const SHOWN: usize = 25;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct OverviewPart {
    /// The number of tenants to skip; they are ordered by their number of jobs.
    from: usize,
}

/// `GET /ui/overview`
pub(crate) async fn show(
    FromState(app): FromState<App>,
    viewer: Viewer,
    UiQuery(part): UiQuery<OverviewPart>,
) -> Page {
    let frame = viewer.frame(&app, Section::Overview).await?;
    let overview = app.overview_of_all().await?;
    let reading = app.queue().read(Reach::Everything).await?;
    let now = frame.now;
    let activity = reading.activity(now - SignedDuration::from_hours(1), 60).await?;
    let busiest = overview.busiest();
    let sampled: Vec<Uuid> = busiest.iter().take(TENANTS).map(|(id, _)| *id).collect();
    let runs = reading.runs(&sampled, runs_of_each(sampled.len())).await?;
    let workers = reading.workers().await?;
    let paused: Vec<String> = reading
        .queues()
        .await?
        .into_iter()
        .filter(|(_, is_paused)| *is_paused)
        .map(|(name, _)| name)
        .collect();
    let problems = reading.problems().await?;
    let shown: Vec<(Uuid, &Summary)> = busiest.iter().skip(part.from).take(SHOWN).copied().collect();
    let ids: Vec<Uuid> = shown.iter().map(|(id, _)| *id).collect();
    let names: HashMap<Uuid, String> =
        reading.tenant_names(Some(&ids), SHOWN as u16).await?.into_iter().collect();
    reading.end().await?;

    let alive = workers.iter().filter(|worker| worker.stopped_at.is_none() && !is_stale(worker)).count();
    let stale = workers.iter().filter(|worker| needs_attention(worker, now)).count();
    let waits = queue_times(runs.iter());
    let facts = Facts {
        workers: i64::try_from(alive).ok(),
        p95_wait: percentile(&waits, 0.95),
        minutes: minutes(&activity, now),
    };
    let tenant = |(id, summary): (Uuid, &Summary)| TenantCountsRow {
        id,
        name: names.get(&id).cloned().unwrap_or_else(|| id.to_string()),
        queued: grouped(summary.queued),
        running: grouped(summary.running),
        scheduled: grouped(summary.scheduled),
        succeeded: grouped(summary.succeeded),
        failed: grouped(summary.failed),
        dead: grouped(summary.dead_letter),
    };
    let mut definitions: Vec<(&String, &Summary)> = overview.definitions.iter().collect();
    definitions.sort_by(|a, b| failure_share(b.1).total_cmp(&failure_share(a.1)));
    let definition = |(name, summary): (&String, &Summary)| DefinitionCountsRow {
        name: name.clone(),
        health: health(summary),
        queued: grouped(summary.queued),
        running: grouped(summary.running),
        succeeded: grouped(summary.succeeded),
        failed: grouped(summary.failed),
        dead: grouped(summary.dead_letter),
    };
    page(&OverviewPage {
        notes: notes(stale, alive, &overview.all, &paused, &problems),
        cards: cards(&overview.all, &facts, |_| "/ui/queues".to_owned()),
        charts: RunCharts::new(&activity, &runs, &waits, now),
        tenants_words: tenants_words(part.from, shown.len(), busiest.len()),
        previous: (part.from > 0).then(|| address(part.from.saturating_sub(SHOWN))),
        next: Some(part.from.saturating_add(SHOWN)).filter(|next| *next < busiest.len()).map(address),
        tenants: shown.into_iter().map(tenant).collect(),
        definitions: definitions.into_iter().take(SHOWN).map(definition).collect(),
        frame,
    })
}

/// What needs attention.
fn notes(stale: usize, alive: usize, all: &Summary, paused: &[String], problems: &[Problem]) -> Vec<Note> {
    let mut notes = Vec::new();
    if stale > 0 {
        let text =
            format!("{} {} stale.", count_words(stale, "worker"), if stale == 1 { "is" } else { "are" });
        notes.push(Note { role: "failed", text, href: "/ui/workers", link: "View workers" });
    }
    if alive == 0 && all.queued > 0 {
        notes.push(Note {
            role: "failed",
            text: "Jobs are queued, but no worker is active.".to_owned(),
            href: "/ui/workers",
            link: "Workers",
        });
    }
    if !paused.is_empty() {
        let text = format!("Paused queues: {}.", paused.join(", "));
        notes.push(Note { role: "warning", text, href: "/ui/queues", link: "Queues" });
    }
    notes.extend(skipped(problems));
    notes
}

fn address(from: usize) -> String {
    if from == 0 { "/ui/overview#o-busy".to_owned() } else { format!("/ui/overview?from={from}#o-busy") }
}

fn tenants_words(from: usize, shown: usize, all: usize) -> String {
    if shown == all {
        String::new()
    } else {
        format!(
            "{}–{} of {}",
            grouped(from.saturating_add(1)),
            grouped(from.saturating_add(shown)),
            grouped(all)
        )
    }
}

fn failure_share(summary: &Summary) -> f64 {
    let bad = (summary.failed + summary.dead_letter) as f64;
    bad / (bad + summary.succeeded as f64).max(1.0)
}

fn health(summary: &Summary) -> HealthCard {
    let share = failure_share(summary);
    let (role, shape, words) = match share {
        _ if summary.succeeded + summary.failed + summary.dead_letter == 0 => {
            ("queued", "ring", "No runs yet".to_owned())
        }
        share if share >= 0.2 => ("failed", "cross", format!("{:.0}% failing", share * 100.0)),
        share if share >= 0.02 => ("retrying", "warning", format!("{:.0}% failing", share * 100.0)),
        _ => ("succeeded", "tick", "Healthy".to_owned()),
    };
    HealthCard { role, shape, words }
}

/// The rows that the keeper skips, as listed by `windlass doctor`. Many have the same cause, so the first few are
/// enough.
fn skipped(problems: &[Problem]) -> Vec<Note> {
    const MAX: usize = 5;
    let note = |problem: &Problem| {
        let (href, link) = match problem.duty.as_str() {
            "definition" => ("/ui/definitions", "Definitions"),
            "schedule" | "dispatch" => ("/ui/triggers", "Triggers"),
            _ => ("/ui/jobs", "Jobs"),
        };
        let text = format!("Skipped: {} {}: {}", problem.duty, problem.subject, problem.reason);
        Note { role: "warning", text, href, link }
    };
    let mut notes: Vec<Note> = problems.iter().take(MAX).map(note).collect();
    if problems.len() > MAX {
        let text = format!(
            "Skipped: {}; `windlass doctor` lists them.",
            count_words(problems.len() - MAX, "more row")
        );
        notes.push(Note { role: "warning", text, href: "/ui/definitions", link: "Definitions" });
    }
    notes
}
