//! Definitions: the kinds of jobs and their policies. For super-admins.

use askama::Template;
use axum::extract::State as FromState;
use serde_json::{Map, Value, json};
use uuid::Uuid;
use windlass::admin::Reach;

use super::form::{Form, Shown, Wrong};
use super::form_body::FormBody;
use super::frame::{Frame, Section};
use super::page::{Page, back, page};
use super::problem::PageProblem;
use super::relative_time::{RelativeTime, span};
use super::url_parameters::PathId;
use super::viewer::Viewer;
use crate::http::{App, Problem};
use crate::parser_messages::json_fault;
use crate::strict_json::StrictJson;

#[derive(Template)]
#[template(path = "definitions.html")]
struct DefinitionsPage {
    frame: Frame,
    rows: Vec<DefinitionRow>,
}

struct DefinitionRow {
    id: String,
    key: String,
    is_active: bool,
    description: String,
    queue: String,
    attempts: String,
    timeout: String,
    changed: Option<RelativeTime>,
}

/// `GET /ui/definitions`
pub(crate) async fn list(FromState(app): FromState<App>, viewer: Viewer) -> Page {
    let frame = viewer.frame(&app, Section::Definitions).await?;
    let reading = app.queue().read(Reach::Everything).await?;
    let definitions = reading.definitions().await?;
    reading.end().await?;
    let now = frame.now;
    let row = |definition: &Value| {
        let text = |name: &str| definition[name].as_str().unwrap_or_default().to_owned();
        DefinitionRow {
            id: text("id"),
            key: text("key"),
            is_active: definition["is_active"] == true,
            description: text("description"),
            queue: text("queue"),
            attempts: definition["max_attempts"].to_string(),
            timeout: span(definition["timeout_seconds"].as_f64().unwrap_or_default()),
            changed: text("updated_at").parse().ok().map(|at| RelativeTime::new(at, now)),
        }
    };
    page(&DefinitionsPage { rows: definitions.iter().map(row).collect(), frame })
}

#[derive(Template)]
#[template(path = "definition.html")]
struct DefinitionPage {
    frame: Frame,
    form: Form,
    shown: Shown,
    is_new: bool,
    is_active: bool,
    /// In days.
    keep_succeeded: String,
    keep_failed: String,
}

/// The fields of the form, by their names in the API.
const FIELDS: [(&str, &str); 10] = [
    ("key", "key"),
    ("description", "description"),
    ("arg_schema", "arg_schema"),
    ("queue", "queue"),
    ("priority", "priority"),
    ("timeout_seconds", "timeout_seconds"),
    ("max_attempts", "max_attempts"),
    ("keep_succeeded", "keep_succeeded"),
    ("keep_failed", "keep_failed"),
    ("retention", "keep_failed"),
];

/// `GET /ui/definitions/new`
pub(crate) async fn new(FromState(app): FromState<App>, viewer: Viewer) -> Page {
    let blank = json!({"key": "", "description": "", "queue": "default", "priority": 100, "timeout_seconds": 3600, "max_attempts": 3,
        "is_active": true, "arg_schema": {"type": "object", "properties": {}, "additionalProperties": false}, "retention": {}});
    show(&app, &viewer, None, &blank, None).await
}

/// `GET /ui/definitions/{definition_id}`
pub(crate) async fn edit(FromState(app): FromState<App>, viewer: Viewer, PathId(id): PathId) -> Page {
    let reading = app.queue().read(Reach::Everything).await?;
    let definition = reading.definition(id).await?;
    reading.end().await?;
    show(&app, &viewer, Some(id), &definition, None).await
}

async fn show(app: &App, viewer: &Viewer, id: Option<Uuid>, shown: &Value, wrong: Option<Wrong>) -> Page {
    let frame = viewer.frame(app, Section::Definitions).await?;
    let kept = |state: &str| {
        shown["retention"][state].as_f64().map(|seconds| (seconds / 86400.0).to_string()).unwrap_or_default()
    };
    let (keep_succeeded, keep_failed) = (kept("succeeded"), kept("failed"));
    let shown = Shown::of(shown);
    page(&DefinitionPage {
        form: Form {
            title: if id.is_some() { shown.text("key") } else { "New definition".to_owned() },
            list: "Definitions",
            list_href: "/ui/definitions",
            action: id.map_or_else(|| "/ui/definitions/new".to_owned(), |id| format!("/ui/definitions/{id}")),
            save: Some(if id.is_some() { "Save definition" } else { "Create definition" }),
            wrong,
        },
        is_new: id.is_none(),
        is_active: shown.is_on("is_active"),
        shown,
        keep_succeeded,
        keep_failed,
        frame,
    })
}

/// `POST /ui/definitions/new`
pub(crate) async fn create(FromState(app): FromState<App>, viewer: Viewer, posted: FormBody) -> Page {
    save(&app, &viewer, None, &posted).await
}

/// `POST /ui/definitions/{definition_id}`
pub(crate) async fn change(
    FromState(app): FromState<App>,
    viewer: Viewer,
    PathId(id): PathId,
    posted: FormBody,
) -> Page {
    save(&app, &viewer, Some(id), &posted).await
}

async fn save(app: &App, viewer: &Viewer, id: Option<Uuid>, posted: &FormBody) -> Page {
    match written(app, viewer, id, posted).await {
        Ok(key) => Ok(back("/ui/definitions", "succeeded", format!("Saved definition {key}."))),
        Err(PageProblem(problem)) if problem.kind.is_correctable() => {
            let typed = typed(posted);
            show(app, viewer, id, &typed, Some(Wrong::of(&problem, &FIELDS))).await
        }
        Err(problem) => Err(problem),
    }
}

/// The submitted values, as far as they can be shown again.
fn typed(posted: &FormBody) -> Value {
    let mut shown = Map::new();
    for name in [
        "key",
        "description",
        "queue",
        "priority",
        "timeout_seconds",
        "max_attempts",
        "arg_schema",
        "version",
    ] {
        shown.insert(name.to_owned(), Value::from(posted.get(name).unwrap_or_default()));
    }
    let days =
        |name: &str| posted.text(name).and_then(|text| text.parse::<f64>().ok()).map(|days| days * 86400.0);
    shown.insert(
        "retention".to_owned(),
        json!({"succeeded": days("keep_succeeded"), "failed": days("keep_failed")}),
    );
    shown.insert("is_active".to_owned(), Value::from(posted.get("is_active").is_some()));
    Value::Object(shown)
}

async fn written(
    app: &App,
    viewer: &Viewer,
    id: Option<Uuid>,
    posted: &FormBody,
) -> Result<String, PageProblem> {
    let fields = fields(posted, id.is_none())?;
    let acting = app.queue().act(Reach::Everything, &viewer.caller.actor()).await?;
    let saved = match id {
        None => acting.create_definition(&fields).await?,
        Some(id) => acting.change_definition(id, &fields, posted.text("version")).await?,
    };
    acting.commit().await?;
    Ok(saved["key"].as_str().unwrap_or_default().to_owned())
}

fn fields(posted: &FormBody, is_new: bool) -> Result<Map<String, Value>, Problem> {
    let mut fields = Map::new();
    let mut set = |name: &str, value: Value| fields.insert(name.to_owned(), value);
    if is_new {
        set("key", Value::from(posted.text("key").ok_or_else(|| Problem::invalid("/key", "is required"))?));
    }
    set("description", Value::from(posted.text("description").unwrap_or_default()));
    set("queue", Value::from(posted.text("queue").unwrap_or("default")));
    set("is_active", Value::from(posted.get("is_active").is_some()));
    let schema = posted.text("arg_schema").unwrap_or("{}");
    let StrictJson(schema) = serde_json::from_str(schema).map_err(|error| {
        Problem::invalid("/arg_schema", format!("must be valid JSON: {}", json_fault(&error)))
    })?;
    set("arg_schema", schema);
    for name in ["priority", "timeout_seconds", "max_attempts"] {
        if let Some(text) = posted.text(name) {
            let number: i64 =
                text.parse().map_err(|_| Problem::invalid(format!("/{name}"), "must be a whole number"))?;
            set(name, Value::from(number));
        }
    }
    let mut retention = Map::new();
    for (name, states) in
        [("keep_succeeded", &["succeeded"][..]), ("keep_failed", &["failed", "dead_letter", "canceled"][..])]
    {
        if let Some(text) = posted.text(name) {
            let days: f64 =
                text.parse().map_err(|_| Problem::invalid(format!("/{name}"), "must be a number of days"))?;
            if !(0.0..=36500.0).contains(&days) {
                return Err(Problem::invalid(format!("/{name}"), "must be between 0 and 36500 days"));
            }
            retention.extend(
                states.iter().map(|state| ((*state).to_owned(), Value::from((days * 86400.0) as i64))),
            );
        }
    }
    set("retention", Value::Object(retention));
    Ok(fields)
}
