//! Enqueues a job with a form: select a definition, then fill in the fields of its schema or write the payload as JSON.
//! The form can start with the values of an existing job.

use std::collections::HashMap;

use askama::Template;
use axum::extract::State as FromState;
use axum::response::{IntoResponse, Redirect};
use serde::Deserialize;
use serde_json::{Value, json};
use uuid::Uuid;
use windlass::NewJob;
use windlass::admin::Reading;

use super::form_body::FormBody;
use super::frame::{Frame, Section};
use super::job::pretty;
use super::jobs::short;
use super::page::{Page, back, page, sentence};
use super::problem::PageProblem;
use super::query::instant;
use super::schema_form::{Field, FieldView, RawFields, draw, fields, raw_of, read};
use super::url_parameters::UiQuery;
use super::viewer::Viewer;
use crate::auth::Permission;
use crate::http::{App, Problem, ProblemKind};
use crate::parser_messages::json_fault;

#[derive(Template)]
#[template(path = "new_job.html")]
struct NewJobPage {
    frame: Frame,
    definitions: Vec<String>,
    definition: String,
    description: String,
    default_priority: i64,
    fields: Vec<FieldView>,
    /// The payload as JSON, if it is edited as JSON.
    json: Option<String>,
    options: JobFormOptions,
    wrong: Option<String>,
    /// If the same form is submitted twice, one job is created.
    request_key: String,
}

/// The options of a job in addition to its payload, as submitted.
#[derive(Debug, Default)]
struct JobFormOptions {
    at: String,
    priority: String,
    dedupe: String,
    tags: String,
}

impl JobFormOptions {
    fn is_empty(&self) -> bool {
        [&self.at, &self.priority, &self.dedupe, &self.tags].iter().all(|text| text.is_empty())
    }
}

#[derive(Debug, Default, Deserialize)]
pub(crate) struct WantedJob {
    definition: Option<String>,
    from: Option<Uuid>,
}

/// The content of the form.
#[derive(Default)]
struct Draft {
    definition: String,
    payload: Option<Value>,
    raw: RawFields,
    faults: HashMap<String, String>,
    json: Option<String>,
    options: JobFormOptions,
    wrong: Option<String>,
}

/// `GET /ui/jobs/new`
pub(crate) async fn form(
    FromState(app): FromState<App>,
    viewer: Viewer,
    UiQuery(wanted): UiQuery<WantedJob>,
) -> Page {
    let reading = app.queue().read(viewer.caller.reach()).await?;
    let mut draft = Draft { definition: wanted.definition.unwrap_or_default(), ..Draft::default() };
    if let Some(id) = wanted.from {
        if !viewer.may(Permission::ReadJobs) {
            return Err(Problem::of(ProblemKind::Forbidden, Permission::ReadJobs.required()).into());
        }
        let job = reading.job(viewer.caller.tenant(), id).await?.ok_or_else(|| Problem::not_found("job"))?;
        draft.definition = job.definition_key;
        draft.payload = Some(job.payload);
        draft.options.priority = job.priority.to_string();
        draft.options.tags = job.tags.join(", ");
    }
    reading.end().await?;
    show(&app, &viewer, draft).await
}

/// `POST /ui/jobs/new`
pub(crate) async fn enqueue(FromState(app): FromState<App>, viewer: Viewer, posted: FormBody) -> Page {
    let reading = app.queue().read(viewer.caller.reach()).await?;
    let key = posted.get("definition").unwrap_or_default().to_owned();
    let definition = find(&reading, &key).await?;
    reading.end().await?;
    let known = definition.as_ref().map(|definition| fields(&definition["arg_schema"])).unwrap_or_default();
    let text = |name: &str| posted.get(name).unwrap_or_default().trim().to_owned();
    let options = JobFormOptions {
        at: text("at"),
        priority: text("priority"),
        dedupe: text("dedupe"),
        tags: text("tags"),
    };
    let is_json = posted.get("mode") == Some("json");
    let json = posted.get("json").unwrap_or("{}").to_owned();
    let wanted = posted.get("do").unwrap_or("enqueue").to_owned();
    let request_key = posted.get("key").map(str::to_owned);
    let raw = posted.into_map();
    let mut draft = Draft { definition: key.clone(), options, ..Draft::default() };

    let payload = if is_json {
        serde_json::from_str(&json).map_err(|error| {
            (HashMap::new(), format!("The payload is not valid JSON: {}.", json_fault(&error)))
        })
    } else {
        read(&known, &raw).map_err(|faults| (faults, "Fix the highlighted fields.".to_owned()))
    };
    let payload = match payload {
        Ok(payload) => payload,
        Err((faults, wrong)) => {
            draft.json = is_json.then_some(json);
            // Switching to JSON is possible with an incomplete form; switching back requires valid JSON.
            if wanted == "json" {
                draft.json = Some(pretty(&read_what_fits(&known, &raw)));
                return show(&app, &viewer, draft).await;
            }
            (draft.raw, draft.faults, draft.wrong) = (raw, faults, Some(wrong));
            return show(&app, &viewer, draft).await;
        }
    };
    match wanted.as_str() {
        "json" => draft.json = Some(pretty(&payload)),
        "form" => draft.payload = Some(payload),
        _ => match place(&app, &viewer, &draft, &payload, request_key.as_deref()).await {
            Ok((id, is_duplicate)) => {
                let words = if is_duplicate { "This job already exists" } else { "Enqueued job" };
                return Ok(back(&format!("/ui/jobs/{id}"), "succeeded", format!("{words}: {}.", short(id))));
            }
            Err(problem) if problem.kind.is_correctable() => {
                draft.wrong = Some(sentence(&problem.detail));
                if is_json { draft.json = Some(json) } else { draft.raw = raw }
            }
            Err(problem) => return Err(problem.into()),
        },
    }
    show(&app, &viewer, draft).await
}

/// The valid fields of an incomplete form.
fn read_what_fits(fields: &[Field], raw: &RawFields) -> Value {
    let fitting: Vec<Field> =
        fields.iter().filter(|field| read(std::slice::from_ref(*field), raw).is_ok()).cloned().collect();
    read(&fitting, raw).unwrap_or_else(|_| json!({}))
}

async fn place(
    app: &App,
    viewer: &Viewer,
    draft: &Draft,
    payload: &Value,
    key: Option<&str>,
) -> Result<(Uuid, bool), Problem> {
    let mut job = NewJob::new(&draft.definition).tenant(viewer.caller.tenant()).payload(payload);
    if let Some(key) = key.filter(|key| !key.is_empty() && key.len() <= 100) {
        job = job.idempotency_key(format!("ui:{key}"));
    }
    if let Some(user) = viewer.caller.user_id() {
        job = job.created_by(user);
    }
    let options = &draft.options;
    if !options.at.is_empty() {
        job = job
            .scheduled_for(instant(&options.at).map_err(|wrong| Problem::invalid("/scheduled_for", wrong))?);
    }
    if !options.priority.is_empty() {
        let priority =
            options.priority.parse().map_err(|_| Problem::invalid("/priority", "must be a whole number"))?;
        job = job.priority(priority);
    }
    if !options.dedupe.is_empty() {
        job = job.dedupe_key(&options.dedupe);
    }
    for tag in options.tags.split(',').map(str::trim).filter(|tag| !tag.is_empty()) {
        job = job.tag(tag);
    }
    let placed = app.queue().enqueue_as(viewer.caller.tenant(), &viewer.caller.actor(), &job).await?;
    Ok((placed.enqueued.id, placed.enqueued.is_duplicate))
}

async fn find(reading: &Reading, key: &str) -> Result<Option<Value>, PageProblem> {
    Ok(reading.definitions().await?.into_iter().find(|definition| definition["key"] == key))
}

async fn show(app: &App, viewer: &Viewer, draft: Draft) -> Page {
    let reading = app.queue().read(viewer.caller.reach()).await?;
    let definitions = reading.definitions().await?;
    reading.end().await?;
    let frame = viewer.frame(app, Section::Jobs).await?;
    let active = definitions.iter().filter(|definition| definition["is_active"] == true);
    let mut keys: Vec<String> =
        active.filter_map(|definition| Some(definition["key"].as_str()?.to_owned())).collect();
    keys.sort();
    let chosen = definitions.iter().find(|definition| definition["key"] == draft.definition.as_str());
    if chosen.is_none() && !draft.definition.is_empty() {
        return Ok(Redirect::to("/ui/jobs/new").into_response());
    }
    let schema = chosen.map(|definition| definition["arg_schema"].clone()).unwrap_or_default();
    let known = fields(&schema);
    let takes_anything = known.is_empty() && schema.get("additionalProperties") != Some(&Value::Bool(false));
    // A payload that the form cannot represent is shown as JSON; also one whose schema has no fields.
    let raw = draft.payload.as_ref().map(|payload| raw_of(&known, payload));
    let json = match (&draft.json, &raw, &draft.payload) {
        (Some(json), _, _) => Some(json.clone()),
        (None, Some(None), Some(payload)) => Some(pretty(payload)),
        _ if takes_anything => Some(draft.payload.as_ref().map_or_else(|| "{}".to_owned(), pretty)),
        _ => None,
    };
    let raw = raw.flatten().unwrap_or(draft.raw);
    let word =
        |name: &str| chosen.and_then(|definition| definition[name].as_str()).unwrap_or_default().to_owned();
    page(&NewJobPage {
        definitions: keys,
        description: word("description"),
        default_priority: chosen.and_then(|definition| definition["priority"].as_i64()).unwrap_or(100),
        fields: draw(&known, &raw, &draft.faults),
        json,
        options: draft.options,
        wrong: draft.wrong,
        request_key: Uuid::new_v4().simple().to_string(),
        definition: draft.definition,
        frame,
    })
}
