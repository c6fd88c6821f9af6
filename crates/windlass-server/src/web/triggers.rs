//! Triggers: what makes jobs by itself, on a schedule or on an event.

mod edit;
mod next_runs;

use axum::extract::State as FromState;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Map, Value};
use uuid::Uuid;
use windlass::{Act, NewEvent, Schedule, Trigger, TriggerType};

pub(crate) use edit::{change, create, edit, new};

use super::asked::Query;
use super::frame::Section;
use super::html::{Html, escape};
use super::json_view::json_view;
use super::list::{Cell, Link, ListPage, ListRow, badge, columns};
use super::page::{Page, back, page, sentence};
use super::posted::Posted;
use super::viewer::Viewer;
use super::when::When;
use crate::auth::Permission;
use crate::http::App;

/// `GET /ui/triggers`
pub(crate) async fn list(FromState(app): FromState<App>, viewer: Viewer, Query(part): Query<Part>) -> Page {
    show(&app, &viewer, part.from, Html::default(), &Posted::default()).await
}

/// Triggers on one page.
const SHOWN: u16 = 50;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Part {
    from: u32,
}

async fn show(app: &App, viewer: &Viewer, from: u32, answer: Html, typed: &Posted) -> Page {
    let frame = viewer.frame(app, Section::Triggers).await?;
    let looking = app.queue().look(viewer.caller.reach()).await?;
    let mut triggers = looking.triggers(None, None, SHOWN + 1, from).await?;
    looking.end().await?;
    let may_write = viewer.may(Permission::WriteTriggers);
    let now = frame.now;
    let has_more = triggers.len() > usize::from(SHOWN);
    triggers.truncate(usize::from(SHOWN));
    let next = has_more
        .then(|| (format!("/ui/triggers?from={}", from.saturating_add(u32::from(SHOWN))), "Older triggers"));
    page(&ListPage {
        title: "Triggers",
        aside: "they make jobs by themselves".to_owned(),
        act: may_write.then_some(Link { href: "/ui/triggers/new", word: "New trigger" }),
        before: Html(format!("{}{}", dry_run_form(typed), answer)),
        columns: columns(&["Trigger", "State", "When", "Next", "Command", "!Actions"]),
        rows: triggers.iter().map(|trigger| row(trigger, now, may_write)).collect(),
        empty: (
            "No triggers",
            "A schedule makes jobs at certain times, an event trigger when something happens.",
        ),
        next,
        frame,
    })
}

fn row(trigger: &Trigger, now: Timestamp, may_write: bool) -> ListRow {
    let fields = &trigger.fields;
    let state =
        if fields.is_enabled { badge("succeeded", "tick", "On") } else { badge("canceled", "dash", "Off") };
    let label = format!("<a href=\"/ui/triggers/{}\"><bdi>{}</bdi></a>", trigger.id, escape(&fields.label));
    let next = trigger
        .next_due_at
        .filter(|_| fields.is_enabled)
        .map_or_else(|| Html("<span class=\"faint\">–</span>".to_owned()), |at| When::new(at, now).into());
    let run = if may_write {
        format!(
            "<form class=\"inline\" method=\"post\" action=\"/ui/triggers/act\"><input type=\"hidden\" name=\"trigger\" value=\"{}\"><button class=\"small\" name=\"do\" value=\"run\">Run now</button><button class=\"small quiet\" name=\"do\" value=\"{}\">{}</button></form>",
            trigger.id,
            if fields.is_enabled { "off" } else { "on" },
            if fields.is_enabled { "Switch off" } else { "Switch on" }
        )
    } else {
        String::new()
    };
    ListRow {
        id: format!("trigger-{}", trigger.id),
        cells: vec![
            Cell::html(Html(label)),
            Cell::html(state),
            Cell::html(Html(when_words(trigger))).class("whole"),
            Cell::html(next).named("next"),
            Cell::text(&fields.definition_key).named("command"),
            Cell::acts(run),
        ],
    }
}

/// A schedule in words with its expression, or the event it waits for.
fn when_words(trigger: &Trigger) -> String {
    let fields = &trigger.fields;
    match fields.trigger_type {
        TriggerType::Event => {
            format!("On the event <code>{}</code>", escape(fields.event_name.as_deref().unwrap_or_default()))
        }
        TriggerType::Schedule => {
            let (cron, zone) = (
                fields.cron_expr.as_deref().unwrap_or_default(),
                fields.timezone.as_deref().unwrap_or("UTC"),
            );
            let words = schedule_words(cron, zone);
            format!(
                "{}<span class=\"sub\"><code>{}</code> {}</span>",
                escape(&words),
                escape(cron),
                escape(zone)
            )
        }
    }
}

/// A schedule as a sentence's beginning: "Every day at 02:30".
fn schedule_words(cron: &str, zone: &str) -> String {
    let words = Schedule::new(cron, zone).map(|schedule| schedule.cron().in_words()).unwrap_or_default();
    let is_daily = words.starts_with("at ") && !words.contains(" on ") && !words.contains(" in ");
    capital(&if is_daily { format!("every day {words}") } else { words })
}

/// With a capital letter, as a word or a sentence begins.
fn capital(words: &str) -> String {
    let mut letters = words.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

fn dry_run_form(typed: &Posted) -> String {
    let text = |name: &str| escape(typed.get(name).unwrap_or_default());
    let open = if typed.get("name").is_some() { " open" } else { "" };
    format!(
        "<details{open}><summary class=\"muted\">Try an event without sending it</summary><br><form method=\"post\" action=\"/ui/triggers/dry-run\"><div class=\"field\"><label for=\"e-name\">Event</label><input id=\"e-name\" name=\"name\" value=\"{}\" placeholder=\"provider.folder.updated\" required></div><div class=\"field\"><label for=\"e-payload\">Payload</label><textarea id=\"e-payload\" name=\"payload\" rows=\"4\" spellcheck=\"false\">\n{}</textarea></div><div class=\"formrow\"><button>Show what would happen</button></div></form></details><br>",
        text("name"),
        if typed.get("payload").is_some() { text("payload") } else { "{}".to_owned() }
    )
}

/// `POST /ui/triggers/dry-run`: which triggers would fire, and with what.
pub(crate) async fn dry_run(FromState(app): FromState<App>, viewer: Viewer, posted: Posted) -> Page {
    let tried = async {
        let payload: Value = serde_json::from_str(posted.text("payload").unwrap_or("{}"))
            .map_err(|error| format!("The payload is not JSON: {error}."))?;
        let event = NewEvent::new(posted.text("name").unwrap_or_default())
            .tenant(viewer.caller.tenant())
            .payload(&payload);
        let looking =
            app.queue().look(viewer.caller.reach()).await.map_err(|error| sentence(&error.to_string()))?;
        let would = looking.dry_run(&event).await.map_err(|error| sentence(&error.to_string()))?;
        looking.end().await.map_err(|error| sentence(&error.to_string()))?;
        Ok::<_, String>(would)
    };
    let answer = match tried.await {
        Err(wrong) => note("failed", "warning", &escape(&wrong)),
        Ok(would) if would.is_empty() => note(
            "warning",
            "clock",
            "No trigger would fire. Look at the names and conditions of the triggers below.",
        ),
        Ok(would) => would
            .iter()
            .map(|fire| {
                let payload = fire.payload.as_ref().map(|payload| json_view(payload).0).unwrap_or_default();
                let (role, shape, words) = match &fire.reason {
                    None => ("succeeded", "tick", "would enqueue a job of".to_owned()),
                    Some(reason) => {
                        ("failed", "cross", format!("would fail ({}) to enqueue a job of", escape(reason)))
                    }
                };
                note(
                    role,
                    shape,
                    &format!(
                        "<strong><bdi>{}</bdi></strong> {words} <code>{}</code>{payload}",
                        escape(&fire.label),
                        escape(&fire.definition_key)
                    ),
                )
            })
            .collect(),
    };
    show(&app, &viewer, 0, Html(answer), &posted).await
}

fn note(role: &str, shape: &str, html: &str) -> String {
    format!(
        "<div class=\"note is-{role}\" role=\"status\"><svg class=\"mark\" aria-hidden=\"true\"><use href=\"#s-{shape}\"/></svg><div>{html}</div></div>"
    )
}

/// `POST /ui/triggers/act`: run now, switch on or off, delete.
pub(crate) async fn act(FromState(app): FromState<App>, viewer: Viewer, posted: Posted) -> Page {
    let Some(id) = posted.get("trigger").and_then(|id| Uuid::try_parse(id).ok()) else {
        return Ok(back("/ui/triggers", "failed", "That trigger is not there any more."));
    };
    let acting = app.queue().act(viewer.caller.reach(), &viewer.caller.actor()).await?;
    let verb = posted.get("do").unwrap_or_default();
    let (act, words, to) = match verb {
        "run" => {
            let fired = match acting.run_trigger(id, None).await {
                Ok(fired) => fired,
                // An event trigger's template may need an event; the reader is told which field is missing.
                Err(error @ windlass::Error::Refused { .. }) => {
                    return Ok(back("/ui/triggers", "failed", sentence(&error.to_string())));
                }
                Err(error) => return Err(error.into()),
            };
            let words = match (fired.job_id, &fired.reason) {
                (Some(_), _) => "The trigger made a job.".to_owned(),
                (None, Some(reason)) => format!("The trigger made no job: {reason}."),
                (None, None) => "The trigger made no job.".to_owned(),
            };
            let to =
                fired.job_id.map_or_else(|| format!("/ui/triggers/{id}"), |job| format!("/ui/jobs/{job}"));
            (Act::new("trigger.run", id).after(&fired), words, to)
        }
        "on" | "off" => {
            let changes = Map::from_iter([("is_enabled".to_owned(), Value::from(verb == "on"))]);
            let after = acting.update_trigger(id, None, &changes).await?;
            let words = format!("{} is {verb} now.", after.fields.label);
            (Act::new("trigger.update", id).after(&after), words, "/ui/triggers".to_owned())
        }
        "delete" => {
            acting.delete_trigger(id, None).await?;
            (
                Act::new("trigger.delete", id),
                "Deleted the trigger. What it did stays to be seen.".to_owned(),
                "/ui/triggers".to_owned(),
            )
        }
        _ => return Ok(back("/ui/triggers", "failed", "Nothing was done.")),
    };
    acting.commit(&act).await?;
    Ok(back(&to, "succeeded", words))
}

#[cfg(test)]
mod tests {
    use super::schedule_words;

    #[test]
    fn a_schedule_reads_as_a_sentence_begins() {
        assert_eq!(schedule_words("30 2 * * *", "Europe/Berlin"), "Every day at 02:30");
        assert_eq!(schedule_words("30 2 * * 1", "UTC"), "At 02:30 on Monday");
        assert_eq!(schedule_words("nonsense", "UTC"), "");
    }
}
