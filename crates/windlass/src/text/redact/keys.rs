//! Secrets in payloads, recognized by their field names.

use serde_json::{Map, Value};

use super::{MIN_SECRET_LENGTH, PLACEHOLDER};

/// Parts of names whose values are redacted, in lower case and without separators.
const MARKS: &[&str] = &[
    "password",
    "passwd",
    "passphrase",
    "secret",
    "token",
    "apikey",
    "accesskey",
    "privatekey",
    "credential",
    "authorization",
    "cookie",
];

/// A name in the form that is compared: `API-Key`, `apiKey` and `api_key` are the same.
pub(super) fn plain(name: &str) -> String {
    name.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

/// Whether a field with this name is a secret; `more` are the marks of a definition.
pub(super) fn is_secret_by(name: &str, more: &[String]) -> bool {
    let name = plain(name);
    MARKS.iter().any(|mark| name.contains(mark)) || more.iter().any(|mark| name.contains(mark))
}

/// A payload as it is shown: the strings under secret names are replaced. Numbers are not: `max_tokens` is not a
/// secret.
pub(super) fn payload(value: &Value, more: &[String]) -> Value {
    shown(value, more, false)
}

fn shown(value: &Value, more: &[String], is_secret: bool) -> Value {
    match value {
        Value::String(_) if is_secret => Value::from(PLACEHOLDER),
        Value::Array(items) => items.iter().map(|item| shown(item, more, is_secret)).collect(),
        Value::Object(members) => {
            let shown = |(name, value): (&String, &Value)| {
                (name.clone(), shown(value, more, is_secret || is_secret_by(name, more)))
            };
            Value::Object(members.iter().map(shown).collect::<Map<String, Value>>())
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}

/// The pointer of a placeholder under a secret name.
pub(super) fn placeholder_in(value: &Value, is_secret: bool) -> Option<String> {
    match value {
        Value::String(text) if is_secret && text == PLACEHOLDER => Some(String::new()),
        Value::Array(items) => items.iter().enumerate().find_map(|(position, item)| {
            placeholder_in(item, is_secret).map(|rest| format!("/{position}{rest}"))
        }),
        Value::Object(members) => members.iter().find_map(|(name, value)| {
            let found = placeholder_in(value, is_secret || is_secret_by(name, &[]))?;
            Some(format!("/{}{found}", name.replace('~', "~0").replace('/', "~1")))
        }),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    }
}

/// The strings under secret names that are long enough to be searched for: the output of the job must not contain them.
pub(super) fn secrets_in(value: &Value, more: &[String]) -> Vec<String> {
    let mut found = Vec::new();
    gather(value, more, false, &mut found);
    found
}

fn gather(value: &Value, more: &[String], is_secret: bool, found: &mut Vec<String>) {
    match value {
        Value::String(text) if is_secret && text.len() >= MIN_SECRET_LENGTH => found.push(text.clone()),
        Value::Array(items) => items.iter().for_each(|item| gather(item, more, is_secret, found)),
        Value::Object(members) => {
            for (name, value) in members {
                gather(value, more, is_secret || is_secret_by(name, more), found);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
