//! The audit log: who did what, newest first.

use askama::Template;
use axum::extract::State as FromState;
use serde::Deserialize;
use serde_json::Value;
use windlass::admin::{AuditEntry, AuditQuery};

use super::asked::Query;
use super::frame::{Frame, Section};
use super::page::{Page, page};
use super::query::encode_into;
use super::viewer::Viewer;
use super::when::When;
use crate::http::App;

#[derive(Template)]
#[template(path = "audit.html")]
struct AuditPage {
    frame: Frame,
    search: Search,
    rows: Vec<AuditRow>,
    next: Option<String>,
}

struct AuditRow {
    at: When,
    entry: AuditEntry,
    /// The values before and after the action.
    change: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Search {
    actor: String,
    action: String,
    outcome: String,
    before: Option<i64>,
}

const ROWS: u16 = 50;

/// `GET /ui/audit`
pub(crate) async fn list(
    FromState(app): FromState<App>,
    viewer: Viewer,
    Query(search): Query<Search>,
) -> Page {
    let frame = viewer.frame(&app, Section::Audit).await?;
    let looking = app.queue().look(viewer.caller.wide_reach()).await?;
    let given = |text: &str| Some(text.trim().to_owned()).filter(|text| !text.is_empty());
    let query = AuditQuery::newest(ROWS)
        .actor(given(&search.actor))
        .action(given(&search.action))
        .outcome(given(&search.outcome))
        .before(search.before);
    let (entries, has_more) = looking.audit(&query).await?;
    looking.end().await?;
    let now = frame.now;
    let next = entries.last().filter(|_| has_more).map(|last| {
        let mut address = "/ui/audit?actor=".to_owned();
        encode_into(&mut address, &search.actor);
        address.push_str("&action=");
        encode_into(&mut address, &search.action);
        address.push_str("&outcome=");
        encode_into(&mut address, &search.outcome);
        format!("{address}&before={}", last.id)
    });
    let row = |entry: AuditEntry| AuditRow { at: When::new(entry.at, now), change: change(&entry), entry };
    page(&AuditPage { rows: entries.into_iter().map(row).collect(), search, next, frame })
}

fn change(entry: &AuditEntry) -> String {
    let parts = [("before", entry.before.as_ref()), ("after", entry.after.as_ref())];
    let text: Vec<String> =
        parts.into_iter().filter_map(|(name, value)| Some(format!("{name}: {}", compact(value?)))).collect();
    text.join("\n")
}

fn compact(value: &Value) -> String {
    value.to_string().chars().take(600).collect()
}
