//! Triggers: they create jobs automatically, on a schedule or on an event.

mod edit;
mod next_runs;

use askama::Template;
use axum::extract::State as FromState;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Map, Value};
use uuid::Uuid;
use windlass::events::NewEvent;
use windlass::schedule::{Schedule, Trigger, TriggerType};

pub(crate) use edit::{change, create, edit, new};

use super::form_body::FormBody;
use super::frame::{Frame, Section};
use super::json_view::JsonView;
use super::page::{Page, back, capital, page, sentence};
use super::query::encode_into;
use super::relative_time::RelativeTime;
use super::url_parameters::UiQuery;
use super::viewer::Viewer;
use crate::auth::Permission;
use crate::http::App;
use crate::parser_messages::json_fault;

#[derive(Template)]
#[template(path = "triggers.html")]
struct TriggersPage {
    frame: Frame,
    may_write: bool,
    dry_run: DryRunForm,
    rows: Vec<TriggerRow>,
    is_first: bool,
    next: Option<String>,
}

struct TriggerRow {
    id: Uuid,
    label: String,
    is_enabled: bool,
    fires: FiresOn,
    next: Option<RelativeTime>,
    definition_key: String,
    /// The definition itself, or its jobs if the viewer cannot open it.
    definition_href: String,
}

/// When a trigger fires.
enum FiresOn {
    OnEvent(String),
    OnSchedule { words: String, cron: String, zone: String },
}

/// The form that tests an event, and its result.
struct DryRunForm {
    is_open: bool,
    name: String,
    payload: String,
    wrong: Option<String>,
    /// The triggers that would fire; none if no event was tested.
    fires: Option<Vec<DryFire>>,
}

struct DryFire {
    label: String,
    definition_key: String,
    /// Why it would fail.
    reason: Option<String>,
    payload: Option<JsonView>,
}

impl DryFire {
    const fn look(&self) -> (&'static str, &'static str) {
        if self.reason.is_none() { ("succeeded", "tick") } else { ("failed", "cross") }
    }
}

impl DryRunForm {
    fn of(posted: &FormBody) -> Self {
        Self {
            is_open: posted.get("name").is_some(),
            name: posted.get("name").unwrap_or_default().to_owned(),
            payload: posted.get("payload").unwrap_or("{}").to_owned(),
            wrong: None,
            fires: None,
        }
    }
}

/// `GET /ui/triggers`
pub(crate) async fn list(
    FromState(app): FromState<App>,
    viewer: Viewer,
    UiQuery(part): UiQuery<TriggersPart>,
) -> Page {
    show(&app, &viewer, part.from, DryRunForm::of(&FormBody::default())).await
}

/// The number of triggers on one page.
const SHOWN: u16 = 50;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct TriggersPart {
    from: u32,
}

async fn show(app: &App, viewer: &Viewer, from: u32, dry_run: DryRunForm) -> Page {
    let frame = viewer.frame(app, Section::Triggers).await?;
    let reading = app.queue().read(viewer.caller.reach()).await?;
    let mut triggers = reading.triggers(None, None, SHOWN + 1, from).await?;
    reading.end().await?;
    let has_more = triggers.len() > usize::from(SHOWN);
    triggers.truncate(usize::from(SHOWN));
    let now = frame.now;
    let may_administer = viewer.may(Permission::Administer);
    page(&TriggersPage {
        may_write: viewer.may(Permission::WriteTriggers),
        dry_run,
        is_first: from == 0,
        rows: triggers.into_iter().map(|trigger| row(trigger, may_administer, now)).collect(),
        next: has_more.then(|| format!("/ui/triggers?from={}", from.saturating_add(u32::from(SHOWN)))),
        frame,
    })
}

fn row(trigger: Trigger, may_administer: bool, now: Timestamp) -> TriggerRow {
    let definition_href = if may_administer {
        format!("/ui/definitions/{}", trigger.definition_id)
    } else {
        let mut address = "/ui/jobs?definition=".to_owned();
        encode_into(&mut address, &trigger.fields.definition_key);
        address
    };
    let fields = trigger.fields;
    let fires = if fields.trigger_type == TriggerType::Schedule {
        let cron = fields.cron_expr.unwrap_or_default();
        let zone = fields.timezone.unwrap_or_else(|| "UTC".to_owned());
        FiresOn::OnSchedule { words: schedule_words(&cron, &zone), cron, zone }
    } else {
        FiresOn::OnEvent(fields.event_name.unwrap_or_default())
    };
    TriggerRow {
        id: trigger.id,
        label: fields.label,
        is_enabled: fields.is_enabled,
        fires,
        next: trigger.next_due_at.filter(|_| fields.is_enabled).map(|at| RelativeTime::new(at, now)),
        definition_key: fields.definition_key,
        definition_href,
    }
}

/// A schedule in words, starting with a capital letter: "Every day at 02:30".
fn schedule_words(cron: &str, zone: &str) -> String {
    let words = Schedule::new(cron, zone).map(|schedule| schedule.cron().in_words()).unwrap_or_default();
    let is_daily = words.starts_with("at ") && !words.contains(" on ") && !words.contains(" in ");
    capital(&if is_daily { format!("every day {words}") } else { words })
}

/// `POST /ui/triggers/dry-run`: shows which triggers would fire, and with which payload.
pub(crate) async fn dry_run(FromState(app): FromState<App>, viewer: Viewer, posted: FormBody) -> Page {
    let tried = async {
        let payload: Value = serde_json::from_str(posted.text("payload").unwrap_or("{}"))
            .map_err(|error| format!("The payload is not valid JSON: {}.", json_fault(&error)))?;
        let event = NewEvent::new(posted.text("name").unwrap_or_default())
            .tenant(viewer.caller.tenant())
            .payload(&payload);
        let reading =
            app.queue().read(viewer.caller.reach()).await.map_err(|error| sentence(&error.to_string()))?;
        let would = match viewer.caller.may(Permission::EmitEvents) {
            true => reading.dry_run(&event).await,
            false => reading.dry_run_of_reader(&event).await,
        };
        let would = would.map_err(|error| sentence(&error.to_string()))?;
        reading.end().await.map_err(|error| sentence(&error.to_string()))?;
        Ok::<_, String>(would)
    };
    let mut dry_run = DryRunForm::of(&posted);
    match tried.await {
        Err(wrong) => dry_run.wrong = Some(wrong),
        Ok(would) => {
            let fire = |fire: windlass::events::WouldFire| DryFire {
                payload: fire.payload.as_ref().map(JsonView::new),
                label: fire.label,
                definition_key: fire.definition_key,
                reason: fire.reason,
            };
            dry_run.fires = Some(would.into_iter().map(fire).collect());
        }
    }
    show(&app, &viewer, 0, dry_run).await
}

/// `POST /ui/triggers/act`: run now, enable, disable, delete.
pub(crate) async fn act(FromState(app): FromState<App>, viewer: Viewer, posted: FormBody) -> Page {
    let Some(id) = posted.get("trigger").and_then(|id| Uuid::try_parse(id).ok()) else {
        return Ok(back("/ui/triggers", "failed", "The trigger no longer exists."));
    };
    let acting = app.queue().act(viewer.caller.reach(), &viewer.caller.actor()).await?;
    let verb = posted.get("do").unwrap_or_default();
    let (words, to) = match verb {
        "run" => {
            let fired = match acting.run_trigger(id, None).await {
                Ok(fired) => fired,
                // The template of an event trigger may need an event; the message names the missing field.
                Err(error @ (windlass::Error::Refused { .. } | windlass::Error::PayloadRefused { .. })) => {
                    return Ok(back("/ui/triggers", "failed", sentence(&error.to_string())));
                }
                Err(error) => return Err(error.into()),
            };
            let words = match (fired.job_id, &fired.reason) {
                (Some(_), _) => "The trigger created a job.".to_owned(),
                (None, Some(reason)) => format!("The trigger created no job: {reason}."),
                (None, None) => "The trigger created no job.".to_owned(),
            };
            let to =
                fired.job_id.map_or_else(|| format!("/ui/triggers/{id}"), |job| format!("/ui/jobs/{job}"));
            (words, to)
        }
        "on" | "off" => {
            let changes = Map::from_iter([("is_enabled".to_owned(), Value::from(verb == "on"))]);
            let after = acting.update_trigger(id, None, &changes).await?;
            let words =
                format!("{} {}.", if verb == "on" { "Resumed" } else { "Paused" }, after.fields.label);
            (words, "/ui/triggers".to_owned())
        }
        "delete" => {
            acting.delete_trigger(id, None).await?;
            ("Deleted the trigger. Its history is kept.".to_owned(), "/ui/triggers".to_owned())
        }
        _ => return Ok(back("/ui/triggers", "failed", "Unknown action. Nothing was changed.")),
    };
    acting.commit().await?;
    Ok(back(&to, "succeeded", words))
}

#[cfg(test)]
mod tests {
    use super::schedule_words;

    #[test]
    fn a_schedule_starts_a_sentence() {
        assert_eq!(schedule_words("30 2 * * *", "Europe/Berlin"), "Every day at 02:30");
        assert_eq!(schedule_words("30 2 * * 1", "UTC"), "At 02:30 on Monday");
        assert_eq!(schedule_words("nonsense", "UTC"), "");
    }
}
