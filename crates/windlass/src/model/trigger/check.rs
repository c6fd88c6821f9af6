//! Validates the fields of a trigger.

use serde_json::Value;

use super::{Conditions, EVENT_ROOTS, NewTrigger, SCHEDULE_ROOTS, TriggerType, pattern};
use crate::error::{Error, Result};
use crate::model::cron::Schedule;
use crate::model::instant::SECONDS;
use crate::model::template::Template;
use crate::text::json::{self, JsonLimits};

const MAX_LABEL_LENGTH: usize = 200;
const MAX_TEMPLATE_LENGTH: usize = 64 * 1024;
const MAX_SECONDS: u32 = 366 * 86_400;
const MAX_MISFIRES: u32 = 1000;

impl NewTrigger {
    /// Returns an error with the name of the invalid field. The time zone of a schedule must be set already.
    pub(crate) fn check(&self) -> Result<()> {
        if self.label.trim().is_empty()
            || self.label.len() > MAX_LABEL_LENGTH
            || self.label.contains(char::is_control)
        {
            return Err(Error::refused(
                "label",
                format!("must have 1 to {MAX_LABEL_LENGTH} bytes on one line"),
            ));
        }
        if self.definition_key.is_empty()
            || self.definition_key.len() > 200
            || self.definition_key.contains('\0')
        {
            return Err(Error::refused("definition_key", "must be the key of a definition"));
        }
        self.check_shape()?;
        self.check_limits()?;
        check_json("conditions", &self.conditions)?;
        check_json("payload_template", &self.payload_template)?;
        self.template()?;
        Conditions::parse(&self.conditions)?;
        match (&self.event_name, &self.cron_expr) {
            (Some(event_name), _) => pattern::check_pattern("event_name", event_name),
            (None, _) => self.parse_schedule().map(|_| ()),
        }
    }

    fn check_shape(&self) -> Result<()> {
        let (wrong, missing) = match self.trigger_type {
            TriggerType::Event => {
                let wrong = [("cron_expr", self.cron_expr.is_some()), ("timezone", self.timezone.is_some())];
                (wrong, [("event_name", self.event_name.is_none()), ("", false)])
            }
            TriggerType::Schedule => {
                let has_conditions = self.conditions.as_object().is_none_or(|members| !members.is_empty());
                let wrong = [("event_name", self.event_name.is_some()), ("conditions", has_conditions)];
                (wrong, [("cron_expr", self.cron_expr.is_none()), ("timezone", self.timezone.is_none())])
            }
        };
        let kind = match self.trigger_type {
            TriggerType::Event => "an event trigger",
            TriggerType::Schedule => "a schedule trigger",
        };
        if let Some((field, _)) = wrong.into_iter().find(|(_, is_there)| *is_there) {
            return Err(Error::refused(field, format!("is not allowed for {kind}")));
        }
        match missing.into_iter().find(|(_, is_missing)| *is_missing) {
            Some((field, _)) => Err(Error::refused(field, format!("is required for {kind}"))),
            None => Ok(()),
        }
    }

    fn check_limits(&self) -> Result<()> {
        let limits = [
            ("dedupe_window_seconds", self.dedupe_window_seconds, 0, MAX_SECONDS),
            ("misfire_max", self.misfire_max, 1, MAX_MISFIRES),
            ("misfire_window_seconds", self.misfire_window_seconds, 1, MAX_SECONDS),
            ("misfire_grace_seconds", self.misfire_grace_seconds, 1, 86_400),
            ("jitter_seconds", self.jitter_seconds, 0, 86_400),
        ];
        for (field, value, least, most) in limits {
            if !(least..=most).contains(&value) {
                return Err(Error::refused(field, format!("must be between {least} and {most}")));
            }
        }
        for (field, at) in [("starts_at", self.starts_at), ("ends_at", self.ends_at)] {
            if at.is_some_and(|at| !(0..=*SECONDS.end()).contains(&at.as_second())) {
                return Err(Error::refused(field, "must be between the years 1970 and 9998"));
            }
        }
        match (self.starts_at, self.ends_at) {
            (Some(starts), Some(ends)) if ends <= starts => {
                Err(Error::refused("ends_at", "must be after starts_at"))
            }
            _ => Ok(()),
        }
    }

    pub(crate) fn template(&self) -> Result<Template> {
        match self.trigger_type {
            TriggerType::Event => Template::parse(&self.payload_template, &EVENT_ROOTS),
            TriggerType::Schedule => Template::parse(&self.payload_template, &SCHEDULE_ROOTS),
        }
    }

    /// The parsed schedule of a checked schedule trigger.
    pub(crate) fn parse_schedule(&self) -> Result<Schedule> {
        let cron_expr = self.cron_expr.as_deref().unwrap_or_default();
        Schedule::new(cron_expr, self.timezone.as_deref().unwrap_or("UTC"))
    }
}

fn check_json(field: &str, value: &Value) -> Result<()> {
    let text = value.to_string();
    if text.len() > MAX_TEMPLATE_LENGTH {
        return Err(Error::refused(field, format!("is larger than {MAX_TEMPLATE_LENGTH} bytes of JSON")));
    }
    json::check(&text, &JsonLimits::default()).map_err(|refused| Error::json(field, refused))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::NewTrigger;

    fn refusal(body: Value) -> String {
        match serde_json::from_value::<NewTrigger>(body) {
            Ok(trigger) => trigger.check().unwrap_err().to_string(),
            Err(error) => error.to_string(),
        }
    }

    /// The bodies of document 004, unchanged.
    #[test]
    fn both_request_bodies_are_accepted_unchanged() {
        let event = json!({
            "label": "Resync on folder change", "trigger_type": "event", "event_name": "provider.folder.updated",
            "definition_key": "sync-dropbox",
            "payload_template": {"provider_id": "{{event.provider_id}}", "path_prefix": "{{event.folder_path}}"},
            "dedupe_window_seconds": 120
        });
        let schedule = json!({
            "label": "Nightly provider sync", "trigger_type": "schedule", "cron_expr": "0 2 * * *",
            "timezone": "America/New_York", "definition_key": "sync-dropbox", "payload_template": {"path_prefix": "/"}
        });
        for body in [event, schedule] {
            serde_json::from_value::<NewTrigger>(body).unwrap().check().unwrap();
        }
    }

    #[test]
    fn an_invalid_value_is_rejected_by_field() {
        let with = |extra: Value| {
            let mut body = json!({"label": "l", "trigger_type": "schedule", "cron_expr": "@daily", "timezone": "UTC",
                "definition_key": "k"});
            body.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
            refusal(body)
        };
        assert!(with(json!({"label": ""})).starts_with("label: "));
        assert!(
            with(json!({"event_name": "a"})).contains("event_name: is not allowed for a schedule trigger")
        );
        assert!(with(json!({"cron_expr": null})).contains("cron_expr: is required"));
        assert!(with(json!({"cron_expr": "0 0 31 2 *"})).contains("never occurs"));
        assert!(with(json!({"timezone": "Mars/Base"})).starts_with("timezone: "));
        assert!(with(json!({"jitter_seconds": 90_000})).starts_with("jitter_seconds: must be between"));
        assert!(with(json!({"misfire": "sometimes"})).contains("fire_once"));
        assert!(with(json!({"colour": "red"})).contains("unknown field `colour`"));
        assert!(with(json!({"payload_template": {"a": "{{event.x}}"}})).starts_with("payload_template/a"));
        assert!(
            with(json!({"starts_at": "2026-01-02T00:00:00Z", "ends_at": "2026-01-01T00:00:00Z"}))
                .starts_with("ends_at")
        );
        assert!(
            with(json!({"trigger_type": "event", "cron_expr": null, "timezone": null}))
                .contains("event_name: is required")
        );
    }
}
