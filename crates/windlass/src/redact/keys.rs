//! Secrets in payloads, known by the names of their keys.

use serde_json::{Map, Value};

use super::{PLACEHOLDER, SHORTEST_SECRET};

/// Parts of names, in lower case and without separators, whose text is not for others to see.
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

/// Whether a member of this name is taken for a secret.
pub fn is_secret_key(name: &str) -> bool {
    let plain: String = name.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect();
    MARKS.iter().any(|mark| plain.contains(mark))
}

/// A payload for others to see: the texts under such keys are replaced. Numbers stay: `max_tokens` is no secret.
pub fn payload(value: &Value) -> Value {
    shown(value, false)
}

fn shown(value: &Value, is_secret: bool) -> Value {
    match value {
        Value::String(_) if is_secret => Value::from(PLACEHOLDER),
        Value::Array(items) => items.iter().map(|item| shown(item, is_secret)).collect(),
        Value::Object(members) => {
            let shown = |(name, value): (&String, &Value)| {
                (name.clone(), shown(value, is_secret || is_secret_key(name)))
            };
            Value::Object(members.iter().map(shown).collect::<Map<String, Value>>())
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}

/// The texts under such keys that are long enough to be found elsewhere: a run of the job must not print them.
pub fn secrets_in(value: &Value) -> Vec<String> {
    let mut found = Vec::new();
    gather(value, false, &mut found);
    found
}

fn gather(value: &Value, is_secret: bool, found: &mut Vec<String>) {
    match value {
        Value::String(text) if is_secret && text.len() >= SHORTEST_SECRET => found.push(text.clone()),
        Value::Array(items) => items.iter().for_each(|item| gather(item, is_secret, found)),
        Value::Object(members) => {
            for (name, value) in members {
                gather(value, is_secret || is_secret_key(name), found);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
