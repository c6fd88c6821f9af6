//! The audit trail: who did what, newest first.

use std::collections::HashMap;

use askama::Template;
use axum::extract::State as FromState;
use serde::Deserialize;
use uuid::Uuid;
use windlass::admin::{AuditEntry, AuditQuery, Reading};

use super::frame::{Frame, Section};
use super::job::pretty;
use super::page::{Page, page};
use super::query::encode_into;
use super::relative_time::RelativeTime;
use super::url_parameters::UiQuery;
use super::viewer::Viewer;
use crate::http::App;

#[derive(Template)]
#[template(path = "audit.html")]
struct AuditView {
    frame: Frame,
    scope: String,
    search: AuditSearch,
    rows: Vec<AuditRow>,
    next: Option<String>,
}

struct AuditRow {
    at: RelativeTime,
    entry: AuditEntry,
    /// The name of the actor, and the address of its other entries.
    actor: String,
    actor_href: String,
    /// The values before and after the action.
    change: Vec<(&'static str, String)>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct AuditSearch {
    actor: String,
    action: String,
    outcome: String,
    before: Option<i64>,
}

impl AuditSearch {
    /// Whether it can exclude entries.
    fn is_active(&self) -> bool {
        let texts = [&self.actor, &self.action, &self.outcome];
        self.before.is_some() || texts.iter().any(|text| !text.trim().is_empty())
    }
}

const ROWS: u16 = 50;

/// `GET /ui/audit`
pub(crate) async fn list(
    FromState(app): FromState<App>,
    viewer: Viewer,
    UiQuery(search): UiQuery<AuditSearch>,
) -> Page {
    let frame = viewer.frame(&app, Section::Audit).await?;
    let reading = app.queue().read(viewer.caller.wide_reach()).await?;
    let given = |text: &str| Some(text.trim().to_owned()).filter(|text| !text.is_empty());
    let query = AuditQuery::newest(ROWS)
        .actor(given(&search.actor))
        .action(given(&search.action))
        .outcome(given(&search.outcome))
        .before(search.before);
    let (entries, has_more) = reading.audit(&query).await?;
    let names = names(&reading, viewer.caller.tenant(), &entries).await?;
    reading.end().await?;
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
    let row = |entry: AuditEntry| {
        let mut actor_href = "/ui/audit?actor=".to_owned();
        encode_into(&mut actor_href, &entry.actor);
        AuditRow {
            at: RelativeTime::new(entry.at, now),
            actor: names.get(&entry.actor).unwrap_or(&entry.actor).clone(),
            actor_href,
            change: change(&entry),
            entry,
        }
    };
    page(&AuditView {
        scope: viewer.scope_words(&frame),
        rows: entries.into_iter().map(row).collect(),
        search,
        next,
        frame,
    })
}

/// The email addresses of the tenant's members and the names of tokens, by the actors of these entries. Others are shown by their
/// ids.
async fn names(
    reading: &Reading,
    tenant: Uuid,
    entries: &[AuditEntry],
) -> windlass::Result<HashMap<String, String>> {
    let members = reading.members(tenant).await?;
    let mut names: HashMap<String, String> =
        members.into_iter().map(|member| (format!("user:{}", member.user_id), member.email)).collect();
    for entry in entries {
        if let Some(id) = entry.actor.strip_prefix("token:")
            && !names.contains_key(&entry.actor)
        {
            let name = reading.token_name(id).await?.map(|name| format!("token {name}"));
            names.insert(entry.actor.clone(), name.unwrap_or_else(|| entry.actor.clone()));
        }
    }
    Ok(names)
}

/// The number of characters of a value that are shown. It keeps the page small.
const MAX_SHOWN: usize = 1000;

fn change(entry: &AuditEntry) -> Vec<(&'static str, String)> {
    let parts = [("Before", entry.before.as_ref()), ("After", entry.after.as_ref())];
    let shown = |(name, value): (&'static str, Option<_>)| {
        let text = pretty(value?);
        let start: String = text.chars().take(MAX_SHOWN).collect();
        Some((name, if start.len() < text.len() { start + "\n…" } else { start }))
    };
    parts.into_iter().filter_map(shown).collect()
}
