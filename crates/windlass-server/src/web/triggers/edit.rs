//! One trigger: its form, its next runs in its own time zone, and its history.

use askama::Template;
use axum::extract::State as FromState;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use uuid::Uuid;
use windlass::schedule::{Fire, NewTrigger, Trigger};

use super::super::form::{Form, Shown, Wrong};
use super::super::form_body::FormBody;
use super::super::frame::{Frame, Section};
use super::super::jobs::short;
use super::super::page::{Page, back, capital, page};
use super::super::relative_time::RelativeTime;
use super::super::viewer::Viewer;
use super::next_runs::NextRuns;
use crate::auth::Permission;
use crate::http::{App, Problem, parse};
use crate::parser_messages::json_fault;
use crate::strict_json::StrictJson;
use crate::web::url_parameters::{PathId, UiQuery};

#[derive(Debug, Default, Deserialize)]
pub(crate) struct TriggerChoice {
    #[serde(default)]
    r#type: String,
}

#[derive(Template)]
#[template(path = "trigger.html")]
struct TriggerPage {
    frame: Frame,
    form: Form,
    shown: Shown,
    is_schedule: bool,
    is_enabled: bool,
    may_write: bool,
    /// The definition keys to choose from, as value and label.
    definitions: Vec<(String, String)>,
    /// The stored trigger; none for a new one.
    saved: Option<Saved>,
    next_runs: NextRuns,
    /// The name of the instants in the history: an event has none that was due.
    time_column: &'static str,
    fires: Vec<FireRow>,
}

struct Saved {
    id: Uuid,
    label: String,
    is_enabled: bool,
}

struct FireRow {
    due: RelativeTime,
    role: &'static str,
    shape: &'static str,
    outcome: String,
    kind: String,
    job: Option<(Uuid, String)>,
    reason: String,
}

/// The fields of the form, by their names in the API.
const FIELDS: [(&str, &str); 11] = [
    ("label", "label"),
    ("definition_key", "definition_key"),
    ("cron_expr", "cron_expr"),
    ("timezone", "timezone"),
    ("overlap", "overlap"),
    ("misfire", "misfire"),
    ("event_name", "event_name"),
    ("conditions", "conditions"),
    ("dedupe_window_seconds", "dedupe_window_seconds"),
    ("payload_template", "payload_template"),
    ("payload", "payload_template"),
];

/// What happens if the previous job has not ended.
const OVERLAPS: [(&str, &str); 4] = [
    ("allow", "Start another anyway"),
    ("skip", "Skip this run"),
    ("queue_one", "Queue one job"),
    ("cancel_running", "Cancel the running job"),
];

/// What happens to the instants that passed while no keeper was running.
const MISFIRES: [(&str, &str); 3] = [
    ("fire_once", "Create one job, for the latest"),
    ("skip", "Skip them"),
    ("fire_all", "Create a job for each"),
];

/// `GET /ui/triggers/new`
pub(crate) async fn new(
    FromState(app): FromState<App>,
    viewer: Viewer,
    UiQuery(kind): UiQuery<TriggerChoice>,
) -> Page {
    let kind = if kind.r#type == "event" { "event" } else { "schedule" };
    let shown = json!({"trigger_type": kind, "cron_expr": "0 2 * * *", "timezone": "UTC", "is_enabled": true,
        "dedupe_window_seconds": 300, "payload_template": {}, "conditions": {}});
    show(&app, &viewer, None, Shown::of(&shown), None).await
}

/// `GET /ui/triggers/{trigger_id}`
pub(crate) async fn edit(FromState(app): FromState<App>, viewer: Viewer, PathId(id): PathId) -> Page {
    let reading = app.queue().read(viewer.caller.reach()).await?;
    let trigger = reading.trigger(id).await?;
    reading.end().await?;
    let trigger = trigger.ok_or_else(|| Problem::not_found("trigger"))?;
    show(&app, &viewer, Some(&trigger), Shown::of(&trigger.fields), None).await
}

async fn show(
    app: &App,
    viewer: &Viewer,
    trigger: Option<&Trigger>,
    shown: Shown,
    mut wrong: Option<Wrong>,
) -> Page {
    let frame = viewer.frame(app, Section::Triggers).await?;
    let is_schedule = shown.text("trigger_type") != "event";
    let reading = app.queue().read(viewer.caller.reach()).await?;
    let definitions: Vec<(String, String)> = reading
        .definitions()
        .await?
        .iter()
        .filter_map(|definition| definition["key"].as_str())
        .map(|key| (key.to_owned(), key.to_owned()))
        .collect();
    let zone = Some(shown.text("timezone")).filter(|zone| !zone.is_empty());
    let preview = if is_schedule {
        reading.preview_schedule(&shown.text("cron_expr"), zone.as_deref(), 5).await.map_err(Problem::from)
    } else {
        Ok(Vec::new())
    };
    let preview = match preview {
        Ok(runs) => Some(runs),
        Err(problem) if problem.kind.is_correctable() => {
            wrong = wrong.or_else(|| Some(Wrong::of(&problem, &FIELDS)));
            None
        }
        Err(problem) => return Err(problem.into()),
    };
    let fires = match trigger {
        Some(trigger) => reading.fires(trigger.id, None, 20).await?,
        None => Vec::new(),
    };
    reading.end().await?;

    let now = frame.now;
    let may_write = viewer.may(Permission::WriteTriggers);
    let saved = |trigger: &Trigger| Saved {
        id: trigger.id,
        label: trigger.fields.label.clone(),
        is_enabled: trigger.fields.is_enabled,
    };
    page(&TriggerPage {
        form: Form {
            title: trigger.map_or_else(|| "New trigger".to_owned(), |trigger| trigger.fields.label.clone()),
            list: "Triggers",
            list_href: "/ui/triggers",
            action: trigger.map_or_else(
                || "/ui/triggers/new".to_owned(),
                |trigger| format!("/ui/triggers/{}", trigger.id),
            ),
            save: may_write.then_some("Save trigger"),
            wrong,
        },
        next_runs: NextRuns::new(&shown.text("cron_expr"), zone.as_deref(), preview.as_deref(), now),
        is_enabled: shown.is_on("is_enabled"),
        shown,
        is_schedule,
        time_column: if is_schedule { "Due" } else { "Time" },
        may_write,
        definitions,
        saved: trigger.map(saved),
        fires: fires.into_iter().map(|fire| fire_row(fire, now)).collect(),
        frame,
    })
}

fn fire_row(fire: Fire, now: jiff::Timestamp) -> FireRow {
    let (role, shape) = match fire.outcome.as_str() {
        "fired" => ("succeeded", "tick"),
        "skipped" | "deduplicated" => ("canceled", "dash"),
        _ => ("failed", "cross"),
    };
    FireRow {
        due: RelativeTime::new(fire.due_at, now),
        role,
        shape,
        outcome: capital(&fire.outcome),
        kind: fire.kind,
        job: fire.job_id.map(|id| (id, short(id))),
        reason: fire.reason.unwrap_or_default(),
    }
}

/// `POST /ui/triggers/new`
pub(crate) async fn create(FromState(app): FromState<App>, viewer: Viewer, posted: FormBody) -> Page {
    save(&app, &viewer, None, &posted).await
}

/// `POST /ui/triggers/{trigger_id}`
pub(crate) async fn change(
    FromState(app): FromState<App>,
    viewer: Viewer,
    PathId(id): PathId,
    posted: FormBody,
) -> Page {
    let reading = app.queue().read(viewer.caller.reach()).await?;
    let trigger = reading.trigger(id).await?;
    reading.end().await?;
    let trigger = trigger.ok_or_else(|| Problem::not_found("trigger"))?;
    save(&app, &viewer, Some(&trigger), &posted).await
}

async fn save(app: &App, viewer: &Viewer, trigger: Option<&Trigger>, posted: &FormBody) -> Page {
    let (typed, wrong) = typed(posted);
    if posted.get("do") == Some("preview") {
        return show(app, viewer, trigger, typed, None).await;
    }
    let (shown, problem) = match wrong {
        Some(wrong) => (typed, wrong),
        None => match written(app, viewer, trigger.map(|trigger| trigger.id), &typed).await {
            Ok(saved) => {
                return Ok(back(
                    &format!("/ui/triggers/{}", saved.id),
                    "succeeded",
                    format!("Saved trigger {}.", saved.fields.label),
                ));
            }
            Err(problem) if problem.kind.is_correctable() => (typed, problem),
            Err(problem) => return Err(problem.into()),
        },
    };
    show(app, viewer, trigger, shown, Some(Wrong::of(&problem, &FIELDS))).await
}

/// The submitted fields with their types, and an error if one of them has none.
fn typed(posted: &FormBody) -> (Shown, Option<Problem>) {
    let mut shown = Map::new();
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
        let StrictJson(value) = serde_json::from_str(text).unwrap_or_else(|error| {
            let message = format!("must be valid JSON: {}", json_fault(&error));
            wrong = Some(Problem::invalid(format!("/{name}"), message));
            StrictJson(Value::from(text))
        });
        shown.insert(name.to_owned(), value);
    }
    shown.insert("is_enabled".to_owned(), Value::from(posted.get("is_enabled").is_some()));
    (Shown(shown), wrong)
}

async fn written(app: &App, viewer: &Viewer, id: Option<Uuid>, typed: &Shown) -> Result<Trigger, Problem> {
    let acting = app.queue().act(viewer.caller.reach(), &viewer.caller.actor()).await?;
    let saved = match id {
        None => {
            let mut new: NewTrigger = parse(&Value::Object(typed.0.clone()).to_string())?;
            new.created_by = viewer.caller.user_id();
            acting.create_trigger(&new).await?
        }
        Some(id) => {
            let mut changes = typed.0.clone();
            changes.remove("trigger_type");
            acting.update_trigger(id, None, &changes).await?
        }
    };
    acting.commit().await?;
    Ok(saved)
}
