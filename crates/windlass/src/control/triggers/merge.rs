//! Some fields over those that are there.

use serde_json::{Map, Value};

use crate::error::{Error, Result};
use crate::model::trigger::NewTrigger;

/// What is wrong is refused by the field that brought it.
pub(super) fn merged(old: &NewTrigger, changes: &Map<String, Value>) -> Result<NewTrigger> {
    let unreadable = |error: serde_json::Error| Error::refused("trigger", error.to_string());
    let Value::Object(mut fields) = serde_json::to_value(old).map_err(unreadable)? else {
        return Err(Error::refused("trigger", "must be an object"));
    };
    let known: Vec<String> = fields.keys().cloned().collect();
    for (name, value) in changes {
        if !known.contains(name) {
            return Err(Error::refused(name, "is not a field of a trigger"));
        }
        // A template may be null in itself; every other field's null means that it is left out.
        if value.is_null() && name != "payload_template" {
            fields.remove(name);
        } else {
            fields.insert(name.clone(), value.clone());
        }
        NewTrigger::deserialize_fields(&fields).map_err(|error| Error::refused(name, error.to_string()))?;
    }
    NewTrigger::deserialize_fields(&fields).map_err(unreadable)
}

/// Whether both are due at the same instants.
pub(super) fn same_times(old: &NewTrigger, new: &NewTrigger) -> bool {
    let times = |trigger: &NewTrigger| {
        let cron = (trigger.cron_expr.clone(), trigger.timezone.clone());
        (trigger.trigger_type, cron, trigger.is_enabled, trigger.starts_at, trigger.ends_at)
    };
    times(old) == times(new)
}
