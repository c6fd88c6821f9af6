//! Retention: what each rule deletes, how far it has come, and what keeps jobs that are due.

use askama::Template;
use axum::extract::State as FromState;
use windlass::retention::{PurgeWait, RetentionProgress, RetentionRule};

use super::count::grouped;
use super::frame::{Frame, Section};
use super::page::{Page, page};
use super::relative_time::{RelativeTime, span};
use super::viewer::Viewer;
use crate::http::App;

#[derive(Template)]
#[template(path = "retention.html")]
struct RetentionPage {
    frame: Frame,
    scope: String,
    rules: Vec<RuleRow>,
    waits: Vec<WaitRow>,
}

struct RuleRow {
    definition: String,
    status: String,
    kept: String,
    source: &'static str,
    checked: Option<RelativeTime>,
    /// Whether jobs exist that should have been deleted a while ago, and since when.
    is_behind: bool,
    behind: String,
    deleted: String,
    due: String,
    held_back: Vec<String>,
}

/// An expired job that waits until its artifact is deleted.
struct WaitRow {
    wait: PurgeWait,
    since: RelativeTime,
}

/// A keeper checks every rule within minutes. `windlass doctor` warns later.
const BEHIND_SECONDS: i64 = 3600;

/// `GET /ui/retention`
pub(crate) async fn show(FromState(app): FromState<App>, viewer: Viewer) -> Page {
    let frame = viewer.frame(&app, Section::Retention).await?;
    let reading = app.queue().read(viewer.caller.wide_reach()).await?;
    let own = reading.retention().await?;
    let progress = reading.retention_progress().await?;
    let waits = reading.purge_waits().await?;
    reading.end().await?;
    let now = frame.now;
    let measured = progress.into_iter().map(|rule| RuleRow {
        kept: span(rule.keep_seconds as f64),
        source: if rule.tenant_id.is_some() { "Tenant" } else { "Definition" },
        checked: rule.checked_at.map(|at| RelativeTime::new(at, now)),
        is_behind: rule.behind_seconds.is_some_and(|seconds| seconds >= BEHIND_SECONDS),
        behind: behind(&rule),
        deleted: rule.purged.map(grouped).unwrap_or_default(),
        due: grouped(rule.due) + if rule.is_due_partial { "+" } else { "" },
        definition: definition(rule.definition_key),
        status: status(&rule.status),
        held_back: rule.held_back,
    });
    let forever = own.into_iter().filter(|rule| rule.keep_seconds.is_none()).map(kept_forever);
    page(&RetentionPage {
        scope: viewer.scope_words(&frame),
        rules: measured.chain(forever).collect(),
        waits: waits
            .into_iter()
            .map(|wait| WaitRow { since: RelativeTime::age(wait.since, now), wait })
            .collect(),
        frame,
    })
}

fn behind(rule: &RetentionProgress) -> String {
    match rule.behind_seconds {
        None | Some(0) => "Up to date".to_owned(),
        Some(seconds) => format!("{} behind", span(seconds as f64)),
    }
}

/// Its progress is not measured, because it deletes nothing.
fn kept_forever(rule: RetentionRule) -> RuleRow {
    RuleRow {
        definition: definition(rule.definition_key),
        status: status(&rule.status),
        kept: "Forever".to_owned(),
        source: "Tenant",
        checked: None,
        is_behind: false,
        behind: "Nothing to delete".to_owned(),
        deleted: String::new(),
        due: String::new(),
        held_back: Vec::new(),
    }
}

fn definition(key: String) -> String {
    if key == "*" { "All definitions".to_owned() } else { key }
}

/// `dead_letter` as `Dead letter`.
fn status(name: &str) -> String {
    let words = name.replace('_', " ");
    let mut letters = words.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}
