//! Definitions: what kinds of jobs there are, and their policies. For super-admins.

use axum::extract::State as FromState;
use serde_json::{Map, Value, json};
use uuid::Uuid;
use windlass::{Act, Reach};

use super::asked::Id;
use super::frame::Section;
use super::html::{Html, escape};
use super::job::pretty;
use super::list::{Cell, Fields, FormPage, Link, ListPage, ListRow, badge, columns};
use super::page::{Page, PageProblem, back, page, sentence};
use super::posted::Posted;
use super::viewer::Viewer;
use super::when::{When, span};
use crate::http::{App, Problem};

/// `GET /ui/definitions`
pub(crate) async fn list(FromState(app): FromState<App>, viewer: Viewer) -> Page {
    let frame = viewer.frame(&app, Section::Definitions).await?;
    let looking = app.queue().look(Reach::Everything).await?;
    let definitions = looking.definitions().await?;
    looking.end().await?;
    let now = frame.now;
    let row = |definition: &Value| {
        let text = |name: &str| definition[name].as_str().unwrap_or_default();
        let is_active = definition["is_active"] == true;
        let id = text("id");
        let changed = text("updated_at").parse().map(|at| Html::from(When::new(at, now))).unwrap_or_default();
        ListRow {
            id: format!("definition-{}", escape(id)),
            cells: vec![
                Cell::html(Html(format!(
                    "<a href=\"/ui/definitions/{}\">{}</a>",
                    escape(id),
                    escape(text("key"))
                ))),
                Cell::html(if is_active {
                    badge("succeeded", "tick", "On")
                } else {
                    badge("canceled", "dash", "Off")
                }),
                Cell::text(text("description")).class("whole"),
                Cell::text(text("queue")).named("queue"),
                Cell::number("attempts", &definition["max_attempts"].to_string()),
                Cell::number("timeout", &span(definition["timeout_seconds"].as_f64().unwrap_or_default())),
                Cell::html(changed).named("changed"),
            ],
        }
    };
    page(&ListPage {
        aside: format!("{} for every tenant", definitions.len()),
        title: "Definitions",
        act: Some(Link { href: "/ui/definitions/new", word: "New definition" }),
        before: Html::default(),
        columns: columns(&["Command", "State", "Description", "Queue", "#Attempts", "#Timeout", "Changed"]),
        rows: definitions.iter().map(row).collect(),
        empty: ("No definitions", "A worker makes one for each handler it knows; or write one by hand."),
        next: None,
        frame,
    })
}

/// `GET /ui/definitions/new`
pub(crate) async fn new(FromState(app): FromState<App>, viewer: Viewer) -> Page {
    let blank = json!({"key": "", "description": "", "queue": "default", "priority": 100, "timeout_seconds": 3600, "max_attempts": 3,
        "is_active": true, "arg_schema": {"type": "object", "properties": {}, "additionalProperties": false}, "retention": {}});
    show(&app, &viewer, None, &blank, None).await
}

/// `GET /ui/definitions/{definition_id}`
pub(crate) async fn edit(FromState(app): FromState<App>, viewer: Viewer, Id(id): Id) -> Page {
    let looking = app.queue().look(Reach::Everything).await?;
    let definition = looking.definition(id).await?;
    looking.end().await?;
    show(&app, &viewer, Some(id), &definition, None).await
}

async fn show(app: &App, viewer: &Viewer, id: Option<Uuid>, shown: &Value, wrong: Option<String>) -> Page {
    let frame = viewer.frame(app, Section::Definitions).await?;
    let text = |name: &str| match &shown[name] {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    };
    let kept = |state: &str| {
        shown["retention"][state].as_f64().map(|seconds| (seconds / 86400.0).to_string()).unwrap_or_default()
    };
    let json = |name: &str| if shown[name].is_string() { text(name) } else { pretty(&shown[name]) };
    let mut fields = Fields::default();
    if id.is_none() {
        fields = fields.input(
            ("key", "Key"),
            "text!",
            &text("key"),
            "What jobs and workers call it, for example sync-dropbox.",
        );
    }
    let fields = fields
        .input(("description", "Description"), "text", &text("description"), "")
        .area(
            ("arg_schema", "JSON Schema of the payload"),
            12,
            &json("arg_schema"),
            "New jobs are checked against it. The form for new jobs is made from it.",
        )
        .row(&Fields::default().input(("queue", "Queue"), "text!", &text("queue"), "").input(
            ("priority", "Priority"),
            "number",
            &text("priority"),
            "0 to 1000; lower goes first within a tenant.",
        ))
        .row(
            &Fields::default()
                .input(
                    ("timeout_seconds", "Timeout in seconds"),
                    "number!",
                    &text("timeout_seconds"),
                    "How long one attempt may run.",
                )
                .input(
                    ("max_attempts", "Attempts"),
                    "number!",
                    &text("max_attempts"),
                    "After so many counted failures the job is a dead letter.",
                ),
        )
        .row(
            &Fields::default()
                .input(
                    ("keep_succeeded", "Keep succeeded jobs, in days"),
                    "text",
                    &kept("succeeded"),
                    "For ever if left empty.",
                )
                .input(("keep_failed", "Keep failed jobs, in days"), "text", &kept("failed"), ""),
        )
        .check(("is_active", "Takes new jobs"), shown["is_active"] == true)
        .hidden("version", &text("version"));
    let title = if id.is_some() { text("key") } else { "New definition".to_owned() };
    page(&FormPage {
        title,
        up: ("/ui/definitions", "Definitions"),
        head: Html::default(),
        wrong,
        before: Html::default(),
        action: id.map_or_else(|| "/ui/definitions/new".to_owned(), |id| format!("/ui/definitions/{id}")),
        fields: fields.html(),
        save: if id.is_some() { "Save definition" } else { "Make definition" },
        others: Vec::new(),
        beside: Html("<p class=\"muted\">Jobs that are queued already keep the attempts they were given; timeouts, retries and the schema count from their next start.</p>".to_owned()),
        after: Html::default(),
        frame,
    })
}

/// `POST /ui/definitions/new`
pub(crate) async fn create(FromState(app): FromState<App>, viewer: Viewer, posted: Posted) -> Page {
    save(&app, &viewer, None, &posted).await
}

/// `POST /ui/definitions/{definition_id}`
pub(crate) async fn change(
    FromState(app): FromState<App>,
    viewer: Viewer,
    Id(id): Id,
    posted: Posted,
) -> Page {
    save(&app, &viewer, Some(id), &posted).await
}

async fn save(app: &App, viewer: &Viewer, id: Option<Uuid>, posted: &Posted) -> Page {
    match written(app, viewer, id, posted).await {
        Ok(key) => Ok(back("/ui/definitions", "succeeded", format!("Saved the definition {key}."))),
        Err(PageProblem(problem)) if problem.kind.is_correctable() => {
            let typed = typed(posted);
            show(app, viewer, id, &typed, Some(sentence(&problem.detail))).await
        }
        Err(problem) => Err(problem),
    }
}

/// What was typed, as far as it can be shown again.
fn typed(posted: &Posted) -> Value {
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
    posted: &Posted,
) -> Result<String, PageProblem> {
    let fields = fields(posted, id.is_none())?;
    let acting = app.queue().act(Reach::Everything, &viewer.caller.actor()).await?;
    let (saved, act) = match id {
        None => {
            let made = acting.create_definition(&fields).await?;
            let id = made["id"].as_str().unwrap_or_default().to_owned();
            let act = Act::new("definition.create", id).after(&made);
            (made, act)
        }
        Some(id) => {
            let before = acting.definition(id).await?;
            let after = acting.change_definition(id, &fields, posted.text("version")).await?;
            let act = Act::new("definition.change", id).before(&before).after(&after);
            (after, act)
        }
    };
    acting.commit(&act).await?;
    Ok(saved["key"].as_str().unwrap_or_default().to_owned())
}

fn fields(posted: &Posted, is_new: bool) -> Result<Map<String, Value>, Problem> {
    let mut fields = Map::new();
    let mut set = |name: &str, value: Value| fields.insert(name.to_owned(), value);
    if is_new {
        set("key", Value::from(posted.text("key").ok_or_else(|| Problem::invalid("/key", "is required"))?));
    }
    set("description", Value::from(posted.text("description").unwrap_or_default()));
    set("queue", Value::from(posted.text("queue").unwrap_or("default")));
    set("is_active", Value::from(posted.get("is_active").is_some()));
    let schema = posted.text("arg_schema").unwrap_or("{}");
    let schema: Value = serde_json::from_str(schema)
        .map_err(|error| Problem::invalid("/arg_schema", format!("must be JSON: {error}")))?;
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
