//! One trigger: its form, its next runs in its own zone, and what it did.

use axum::extract::State as FromState;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use uuid::Uuid;
use windlass::{Act, Fire, NewTrigger, Trigger};

use super::super::frame::Section;
use super::super::html::{Html, escape};
use super::super::jobs::short;
use super::super::list::{Fields, FormPage, badge};
use super::super::page::{Page, back, page, sentence};
use super::super::posted::Posted;
use super::super::viewer::Viewer;
use super::super::when::When;
use super::capital;
use super::next_runs::next_runs;
use crate::auth::Permission;
use crate::http::{App, Problem};
use crate::web::asked::{Id, Query};

#[derive(Debug, Default, Deserialize)]
pub(crate) struct Kind {
    #[serde(default)]
    r#type: String,
}

/// What the form shows, by the names of the fields.
type Shown = Map<String, Value>;

/// `GET /ui/triggers/new`
pub(crate) async fn new(FromState(app): FromState<App>, viewer: Viewer, Query(kind): Query<Kind>) -> Page {
    let kind = if kind.r#type == "event" { "event" } else { "schedule" };
    let shown = json!({"trigger_type": kind, "cron_expr": "0 2 * * *", "timezone": "UTC", "is_enabled": true,
        "dedupe_window_seconds": 300, "payload_template": {}, "conditions": {}});
    show(&app, &viewer, None, shown.as_object().cloned().unwrap_or_default(), None).await
}

/// `GET /ui/triggers/{trigger_id}`
pub(crate) async fn edit(FromState(app): FromState<App>, viewer: Viewer, Id(id): Id) -> Page {
    let looking = app.queue().look(viewer.caller.reach()).await?;
    let trigger = looking.trigger(id).await?;
    looking.end().await?;
    let trigger = trigger.ok_or_else(|| Problem::not_found("trigger"))?;
    let shown = serde_json::to_value(&trigger.fields).ok().and_then(|shown| shown.as_object().cloned());
    show(&app, &viewer, Some(&trigger), shown.unwrap_or_default(), None).await
}

async fn show(
    app: &App,
    viewer: &Viewer,
    trigger: Option<&Trigger>,
    shown: Shown,
    wrong: Option<String>,
) -> Page {
    let frame = viewer.frame(app, Section::Triggers).await?;
    let text = |name: &str| match shown.get(name) {
        Some(Value::String(text)) => text.clone(),
        None | Some(Value::Null) => String::new(),
        Some(Value::Object(object)) => serde_json::to_string_pretty(object).unwrap_or_default(),
        Some(other) => other.to_string(),
    };
    let is_schedule = text("trigger_type") != "event";
    let looking = app.queue().look(viewer.caller.reach()).await?;
    let keys: Vec<(String, String)> = looking
        .definitions()
        .await?
        .iter()
        .filter_map(|definition| definition["key"].as_str())
        .map(|key| (key.to_owned(), key.to_owned()))
        .collect();
    let zone = Some(text("timezone")).filter(|zone| !zone.is_empty());
    let preview = if is_schedule {
        looking.preview_schedule(&text("cron_expr"), zone.as_deref(), 5).await
    } else {
        Ok(Vec::new())
    };
    let fires = match trigger {
        Some(trigger) => looking.fires(trigger.id, None, 20).await?,
        None => Vec::new(),
    };
    looking.end().await?;

    let now = frame.now;
    let fields = fields(&shown, is_schedule, &keys, &text);
    let beside = if is_schedule {
        next_runs(&text("cron_expr"), zone.as_deref(), &preview, now)
    } else {
        template_help()
    };
    let may_write = viewer.may(Permission::WriteTriggers);
    let kinds = if trigger.is_none() {
        let tab = |kind: &str, word: &str, is_on: bool| {
            format!(
                "<a class=\"tab\" href=\"/ui/triggers/new?type={kind}\"{}>{word}</a>",
                if is_on { " aria-current=\"page\"" } else { "" }
            )
        };
        format!(
            "<nav class=\"filters\" aria-label=\"Kind of trigger\">{}{}</nav>",
            tab("schedule", "On a schedule", is_schedule),
            tab("event", "On an event", !is_schedule)
        )
    } else {
        String::new()
    };
    let head = trigger.map(|trigger| {
        let state = if trigger.fields.is_enabled {
            badge("succeeded", "tick", "On")
        } else {
            badge("canceled", "dash", "Off")
        };
        Html(format!("{state}{}", if may_write { run_now(trigger) } else { String::new() }))
    });
    let after = trigger.map(|trigger| {
        format!("{}{}", history(&fires, now), if may_write { danger(trigger) } else { String::new() })
    });
    page(&FormPage {
        title: trigger.map_or_else(|| "New trigger".to_owned(), |trigger| trigger.fields.label.clone()),
        up: ("/ui/triggers", "Triggers"),
        head: head.unwrap_or_default(),
        wrong,
        before: Html(kinds),
        action: trigger
            .map_or_else(|| "/ui/triggers/new".to_owned(), |trigger| format!("/ui/triggers/{}", trigger.id)),
        fields: fields.html(),
        save: "Save trigger",
        others: if is_schedule { vec![("preview", "Show next runs")] } else { Vec::new() },
        beside: Html(beside),
        after: Html(after.unwrap_or_default()),
        frame,
    })
}

fn fields(
    shown: &Shown,
    is_schedule: bool,
    keys: &[(String, String)],
    text: &impl Fn(&str) -> String,
) -> Fields {
    let choices = |pairs: &[(&str, &str)]| {
        pairs.iter().map(|(value, word)| ((*value).to_owned(), (*word).to_owned())).collect::<Vec<_>>()
    };
    let fields = Fields::default()
        .hidden("trigger_type", if is_schedule { "schedule" } else { "event" })
        .input(("label", "Label"), "text!", &text("label"), "What people call it.")
        .select(("definition_key", "Command"), keys, &text("definition_key"), "");
    let fields = if is_schedule {
        fields
            .row(
                &Fields::default()
                    .input(
                        ("cron_expr", "Schedule"),
                        "text!",
                        &text("cron_expr"),
                        "Five fields: minute, hour, day, month, weekday. Also @daily and the like.",
                    )
                    .input(
                        ("timezone", "Time zone"),
                        "text",
                        &text("timezone"),
                        "For example America/New_York.",
                    ),
            )
            .row(
                &Fields::default()
                    .select(
                        ("overlap", "If the last job still runs"),
                        &choices(&[
                            ("allow", "Make another all the same"),
                            ("skip", "Leave this time out"),
                            ("queue_one", "Let one wait"),
                            ("cancel_running", "Cancel it and start the new one"),
                        ]),
                        &text("overlap"),
                        "",
                    )
                    .select(
                        ("misfire", "If no server ran at its time"),
                        &choices(&[
                            ("fire_once", "Make one job for all missed times"),
                            ("skip", "Leave them out"),
                            ("fire_all", "Make a job for each"),
                        ]),
                        &text("misfire"),
                        "",
                    ),
            )
    } else {
        fields
            .input(("event_name", "Event"), "text!", &text("event_name"), "A name, or a pattern such as provider.*")
            .area(("conditions", "Conditions"), 4, &text("conditions"), "What the event's payload must be like, by path: {\"provider\": \"dropbox\", \"size\": {\"gte\": 10}}")
            .input(("dedupe_window_seconds", "Ignore repetitions for, in seconds"), "number", &text("dedupe_window_seconds"), "The same payload again within this time makes no second job.")
    };
    fields
        .area(
            ("payload_template", "Payload"),
            7,
            &text("payload_template"),
            if is_schedule {
                "JSON; {{schedule.due_at}} stands for the instant."
            } else {
                "JSON; \"{{event.folder_path}}\" stands for a field of the event."
            },
        )
        .check(("is_enabled", "On"), shown.get("is_enabled") == Some(&Value::Bool(true)))
}

fn template_help() -> String {
    "<section aria-labelledby=\"help\"><h2 id=\"help\">How it works</h2><br><p class=\"muted\">When an event with this name is sent, and its payload fits the conditions, a job is made with the payload on the left. <code>\"{{event.size}}\"</code> alone keeps the type of the field; within a longer text it becomes text. Try an event on the page of triggers before you send one.</p></section>".to_owned()
}

fn history(fires: &[Fire], now: jiff::Timestamp) -> String {
    let rows: String = fires
        .iter()
        .map(|fire| {
            let (role, shape) = match fire.outcome.as_str() {
                "fired" => ("succeeded", "tick"),
                "skipped" => ("canceled", "dash"),
                _ => ("failed", "cross"),
            };
            let job = fire.job_id.map(|id| format!("<a class=\"id\" href=\"/ui/jobs/{id}\">{}</a>", short(id))).unwrap_or_default();
            format!(
                "<tr><td>{}</td><td>{}</td><td>{}</td><td>{job}</td><td class=\"whole\"><bdi>{}</bdi></td></tr>",
                When::new(fire.due_at, now), badge(role, shape, &capital(&fire.outcome)), escape(&fire.kind), escape(fire.reason.as_deref().unwrap_or_default())
            )
        })
        .collect();
    let body = if rows.is_empty() {
        "<div class=\"empty\"><p>It has not fired yet.</p></div>".to_owned()
    } else {
        format!(
            "<table><thead><tr><th scope=\"col\">Due</th><th scope=\"col\">Outcome</th><th scope=\"col\">By</th><th scope=\"col\">Job</th><th scope=\"col\">Reason</th></tr></thead><tbody>{rows}</tbody></table>"
        )
    };
    format!(
        "<section class=\"section\" aria-labelledby=\"fires\"><div class=\"title\"><h2 id=\"fires\">What it did</h2></div><div class=\"sheet folds\">{body}</div></section>"
    )
}

fn run_now(trigger: &Trigger) -> String {
    format!(
        "<div class=\"acts\"><form class=\"inline\" method=\"post\" action=\"/ui/triggers/act\"><input type=\"hidden\" name=\"trigger\" value=\"{}\"><button name=\"do\" value=\"run\">Run now</button></form></div>",
        trigger.id
    )
}

fn danger(trigger: &Trigger) -> String {
    format!(
        "<section class=\"section\" aria-labelledby=\"t-del\"><div class=\"title\"><h2 id=\"t-del\">Delete the trigger</h2></div><p class=\"muted\">It makes no more jobs. Jobs it made stay, and so does what it did.</p><form class=\"formrow\" method=\"post\" action=\"/ui/triggers/act\"><input type=\"hidden\" name=\"trigger\" value=\"{}\"><button class=\"danger\" name=\"do\" value=\"delete\" data-confirm=\"Delete this trigger?\" data-detail=\"{}\" data-yes=\"Delete trigger\">Delete trigger</button></form></section>",
        trigger.id,
        escape(&format!("{} makes no more jobs. Jobs it made stay.", trigger.fields.label))
    )
}

/// `POST /ui/triggers/new`
pub(crate) async fn create(FromState(app): FromState<App>, viewer: Viewer, posted: Posted) -> Page {
    save(&app, &viewer, None, &posted).await
}

/// `POST /ui/triggers/{trigger_id}`
pub(crate) async fn change(
    FromState(app): FromState<App>,
    viewer: Viewer,
    Id(id): Id,
    posted: Posted,
) -> Page {
    let looking = app.queue().look(viewer.caller.reach()).await?;
    let trigger = looking.trigger(id).await?;
    looking.end().await?;
    let trigger = trigger.ok_or_else(|| Problem::not_found("trigger"))?;
    save(&app, &viewer, Some(&trigger), &posted).await
}

async fn save(app: &App, viewer: &Viewer, trigger: Option<&Trigger>, posted: &Posted) -> Page {
    let typed = typed(posted);
    if posted.get("do") == Some("preview") {
        return show(app, viewer, trigger, typed.unwrap_or_else(|(_, typed)| typed), None).await;
    }
    let (shown, problem) = match typed {
        Err((wrong, typed)) => (typed, wrong),
        Ok(typed) => match written(app, viewer, trigger.map(|trigger| trigger.id), &typed).await {
            Ok(saved) => {
                return Ok(back(
                    &format!("/ui/triggers/{}", saved.id),
                    "succeeded",
                    format!("Saved the trigger {}.", saved.fields.label),
                ));
            }
            Err(problem) if problem.kind.is_correctable() => (typed, sentence(&problem.detail)),
            Err(problem) => return Err(problem.into()),
        },
    };
    show(app, viewer, trigger, shown, Some(problem)).await
}

/// The fields as they were typed, with their types; or what cannot be read, and what can.
fn typed(posted: &Posted) -> Result<Shown, (String, Shown)> {
    let mut shown = Shown::new();
    let mut wrong = None;
    for name in [
        "trigger_type",
        "label",
        "definition_key",
        "cron_expr",
        "timezone",
        "overlap",
        "misfire",
        "event_name",
    ] {
        if let Some(text) = posted.text(name) {
            shown.insert(name.to_owned(), Value::from(text));
        }
    }
    if let Some(text) = posted.text("dedupe_window_seconds") {
        shown.insert(
            "dedupe_window_seconds".to_owned(),
            text.parse::<u32>().map_or_else(|_| Value::from(text), Value::from),
        );
    }
    for name in ["payload_template", "conditions"] {
        let Some(text) = posted.text(name) else { continue };
        let value = serde_json::from_str(text).unwrap_or_else(|error| {
            wrong = Some(format!(
                "{} is not JSON: {error}.",
                if name == "conditions" { "Conditions" } else { "Payload" }
            ));
            Value::from(text)
        });
        shown.insert(name.to_owned(), value);
    }
    shown.insert("is_enabled".to_owned(), Value::from(posted.get("is_enabled").is_some()));
    wrong.map_or(Ok(shown.clone()), |wrong| Err((wrong, shown)))
}

async fn written(app: &App, viewer: &Viewer, id: Option<Uuid>, typed: &Shown) -> Result<Trigger, Problem> {
    let acting = app.queue().act(viewer.caller.reach(), &viewer.caller.actor()).await?;
    let (saved, act) = match id {
        None => {
            let mut new: NewTrigger = serde_json::from_value(Value::Object(typed.clone()))
                .map_err(|error| Problem::invalid("", error.to_string()))?;
            new.created_by = viewer.caller.user_id();
            let made = acting.create_trigger(&new).await?;
            let act = Act::new("trigger.create", made.id).after(&made);
            (made, act)
        }
        Some(id) => {
            let mut changes = typed.clone();
            changes.remove("trigger_type");
            let after = acting.update_trigger(id, None, &changes).await?;
            let act = Act::new("trigger.update", id).after(&after);
            (after, act)
        }
    };
    acting.commit(&act).await?;
    Ok(saved)
}
