//! The checks of a definition whose fields are JSON, as the API and operators give them.

use serde_json::Value;

use super::validator;
use crate::error::{Error, Result};
use crate::model::job::backoff::Backoff;
use crate::model::job::unique::Unique;
use crate::model::new_job::NewJob;
use crate::text::redact::Redaction;

/// The fields that are whole numbers, each with its smallest and its largest value. `definition_problem` in the database has
/// the same.
pub const RANGES: [(&str, i64, i64); 9] = [
    ("timeout_seconds", 1, 604_800),
    ("max_attempts", 1, 1000),
    ("priority", 0, 1000),
    ("min_priority", 0, 1000),
    ("max_priority", 0, 1000),
    ("max_lost", 1, 1000),
    ("max_snoozes", 0, 32_000),
    ("max_running", 1, 1_000_000),
    ("start_deadline_seconds", 1, NewJob::MAX_DELAY.as_secs() as i64),
];

/// Like [`Definition::check`](super::Definition::check). The caller checks the names and types of the fields; the constraints of the
/// database reject other invalid values.
pub(crate) fn check_fields(fields: &serde_json::Map<String, Value>) -> Result<()> {
    if let Some(schema) = fields.get("arg_schema") {
        validator(&schema.to_string())?;
    }
    if let Some(backoff) = fields.get("backoff") {
        let backoff: Backoff = serde_json::from_value(backoff.clone())
            .map_err(|error| Error::refused("backoff", error.to_string()))?;
        backoff.validate().map_err(|invalid| {
            Error::refused(format!("backoff.{}", invalid.field), format!("must be {}", invalid.expected))
        })?;
    }
    if let Some(unique) = fields.get("uniqueness") {
        serde_json::from_value::<Unique>(unique.clone())
            .map_err(|error| Error::refused("uniqueness", error.to_string()))?;
    }
    if let Some(redaction) = fields.get("redaction") {
        serde_json::from_value::<Redaction>(redaction.clone())
            .map_err(|error| Error::refused("redaction", error.to_string()))?
            .check()?;
    }
    if let Some(key) = fields.get("on_purge").and_then(Value::as_str)
        && !is_key(key)
    {
        return Err(Error::refused("on_purge", "must be the key of a definition"));
    }
    for (field, least, most) in RANGES {
        let given = fields.get(field).and_then(Value::as_i64);
        if given.is_some_and(|given| !(least..=most).contains(&given)) {
            return Err(Error::refused(field, format!("must be a whole number between {least} and {most}")));
        }
    }
    Ok(())
}

/// The same rule as the constraint of the database on keys.
fn is_key(text: &str) -> bool {
    let mut letters = text.bytes();
    let is_first = letters.next().is_some_and(|letter| letter.is_ascii_alphanumeric());
    is_first
        && text.len() <= 200
        && letters.all(|letter| letter.is_ascii_alphanumeric() || b"._:/-".contains(&letter))
}
