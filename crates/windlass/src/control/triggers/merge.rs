//! Merges changes into the fields of a trigger.

use serde_json::{Map, Value};

use crate::error::{Error, Result};
use crate::model::trigger::NewTrigger;

/// Errors contain the name of the invalid field.
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
        // A template can be null itself; for every other field, null means that it is omitted.
        if value.is_null() && name != "payload_template" {
            fields.remove(name);
        } else {
            fields.insert(name.clone(), value.clone());
        }
        NewTrigger::deserialize_fields(&fields).map_err(|error| Error::refused(name, error.to_string()))?;
    }
    NewTrigger::deserialize_fields(&fields).map_err(unreadable)
}

/// Whether both have the same due instants.
pub(super) fn same_times(old: &NewTrigger, new: &NewTrigger) -> bool {
    let times = |trigger: &NewTrigger| {
        let cron = (trigger.cron_expr.clone(), trigger.timezone.clone());
        (trigger.trigger_type, cron, trigger.is_enabled, trigger.starts_at, trigger.ends_at)
    };
    times(old) == times(new)
}
