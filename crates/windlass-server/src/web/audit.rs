//! The audit trail: who did what, newest first.

use axum::extract::State as FromState;
use serde::Deserialize;
use serde_json::Value;
use windlass::{AuditEntry, AuditQuery};

use super::asked::Query;
use super::frame::Section;
use super::html::{Html, escape};
use super::list::{Cell, ListPage, ListRow, badge, columns};
use super::page::{Page, page};
use super::query::encode_into;
use super::viewer::Viewer;
use super::when::When;
use crate::http::App;

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
    let query = AuditQuery {
        actor: given(&search.actor),
        action: given(&search.action),
        target: None,
        outcome: given(&search.outcome),
        before: search.before,
        limit: ROWS,
    };
    let (entries, has_more) = looking.audit(&query).await?;
    looking.end().await?;
    let now = frame.now;
    let row = |entry: &AuditEntry| ListRow {
        id: format!("audit-{}", entry.id),
        cells: vec![
            Cell::html(When::new(entry.at, now)),
            Cell::html(if entry.outcome == "denied" {
                badge("failed", "cross", "Denied")
            } else {
                badge("succeeded", "tick", "Done")
            }),
            Cell::code(&entry.action),
            Cell::code(&entry.actor).named("by"),
            Cell::text(entry.role.as_deref().unwrap_or_default()).class("minor"),
            Cell::text(&entry.target).class("whole"),
            Cell::html(details(entry)).class("whole"),
            Cell::code(entry.from_address.as_deref().unwrap_or_default()).class("minor mono"),
        ],
    };
    let selected = |value: &str| if search.outcome == value { " selected" } else { "" };
    let before = format!(
        "<form class=\"filters\" action=\"/ui/audit\" role=\"search\" aria-label=\"Audit trail\"><label class=\"aloud\" for=\"a-actor\">By whom</label><input id=\"a-actor\" name=\"actor\" value=\"{}\" placeholder=\"By whom\"><label class=\"aloud\" for=\"a-action\">What</label><input id=\"a-action\" name=\"action\" value=\"{}\" placeholder=\"What, e.g. job.cancel\"><label class=\"aloud\" for=\"a-outcome\">Outcome</label><select id=\"a-outcome\" name=\"outcome\"><option value=\"\">Done and denied</option><option value=\"done\"{}>Done</option><option value=\"denied\"{}>Denied</option></select><button>Find</button></form>",
        escape(&search.actor),
        escape(&search.action),
        selected("done"),
        selected("denied")
    );
    let next = entries.last().filter(|_| has_more).map(|last| {
        let mut address = "/ui/audit?actor=".to_owned();
        encode_into(&mut address, &search.actor);
        address.push_str("&action=");
        encode_into(&mut address, &search.action);
        address.push_str("&outcome=");
        encode_into(&mut address, &search.outcome);
        (format!("{address}&before={}", last.id), "Older")
    });
    page(&ListPage {
        title: "Audit",
        aside: "every act, and every refused one".to_owned(),
        act: None,
        before: Html(before),
        columns: columns(&["When", "Outcome", "What", "By", "Role", "On", "Change", "From"]),
        rows: entries.iter().map(row).collect(),
        empty: ("Nothing yet", "Acts of people and tokens appear here as they happen."),
        next,
        frame,
    })
}

/// What changed, folded away.
fn details(entry: &AuditEntry) -> Html {
    let parts = [("before", entry.before.as_ref()), ("after", entry.after.as_ref())];
    let text: Vec<String> =
        parts.into_iter().filter_map(|(name, value)| Some(format!("{name}: {}", compact(value?)))).collect();
    if text.is_empty() {
        return Html::default();
    }
    Html(format!(
        "<details><summary class=\"muted\">Show</summary><code>{}</code></details>",
        escape(&text.join("\n"))
    ))
}

fn compact(value: &Value) -> String {
    value.to_string().chars().take(600).collect()
}
