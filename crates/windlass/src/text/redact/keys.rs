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

/// The last words of names whose numbers are counts, such as `max_tokens`, `tokenCount` or `session_token_ttl`.
const COUNTS: &[&str] = &[
    "tokens",
    "maxtokens",
    "count",
    "limit",
    "length",
    "size",
    "bytes",
    "seconds",
    "minutes",
    "hours",
    "days",
    "ms",
    "ttl",
    "age",
    "version",
    "attempts",
];

/// What is hidden of a value, because of its name or of a name above it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Hiding {
    Nothing,
    /// A count: a number is shown.
    Strings,
    /// A secret by a common name, such as `uses_cookies`: `true` is shown.
    StringsAndNumbers,
    /// A secret by the rules of the definition.
    Everything,
}

impl Hiding {
    fn of(name: &str, more: &[String]) -> Self {
        let plain = plain(name);
        if more.iter().any(|mark| plain.contains(mark)) {
            Self::Everything
        } else if !MARKS.iter().any(|mark| plain.contains(mark)) {
            Self::Nothing
        } else if is_count(name) {
            Self::Strings
        } else {
            Self::StringsAndNumbers
        }
    }

    /// Within a list or an object: that is not a count, whatever its name is.
    fn inside(self) -> Self {
        if self == Self::Strings { Self::StringsAndNumbers } else { self }
    }
}

/// Whether a number with this name is a count, by the last word of the name.
pub(super) fn is_count(name: &str) -> bool {
    let end = name.trim_end_matches(|c: char| !c.is_alphanumeric());
    let mut start = 0;
    let mut before = None;
    for (position, letter) in end.char_indices() {
        let begins = before.is_some_and(|before: char| {
            !before.is_alphanumeric() || letter.is_uppercase() && !before.is_uppercase()
        });
        if begins {
            start = position;
        }
        before = Some(letter);
    }
    COUNTS.contains(&end[start..].to_lowercase().as_str())
}

/// A name in the form that is compared: `API-Key`, `apiKey` and `api_key` are the same.
pub(super) fn plain(name: &str) -> String {
    name.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

/// Whether a field with this name is a secret; `more` are the marks of a definition.
pub(super) fn is_secret_by(name: &str, more: &[String]) -> bool {
    let name = plain(name);
    MARKS.iter().any(|mark| name.contains(mark)) || more.iter().any(|mark| name.contains(mark))
}

/// A payload as it is shown: the strings and numbers under secret names are replaced, and everything under the names of
/// the definition. Counts are not: `max_tokens` is not a secret.
pub(super) fn payload(value: &Value, more: &[String]) -> Value {
    shown(value, more, Hiding::Nothing)
}

fn shown(value: &Value, more: &[String], hiding: Hiding) -> Value {
    let is_hidden = match value {
        Value::String(_) => hiding >= Hiding::Strings,
        Value::Number(_) => hiding >= Hiding::StringsAndNumbers,
        Value::Bool(_) => hiding >= Hiding::Everything,
        Value::Null | Value::Array(_) | Value::Object(_) => false,
    };
    match value {
        _ if is_hidden => Value::from(PLACEHOLDER),
        Value::Array(items) => items.iter().map(|item| shown(item, more, hiding.inside())).collect(),
        Value::Object(members) => {
            let shown = |(name, value): (&String, &Value)| {
                (name.clone(), shown(value, more, hiding.inside().max(Hiding::of(name, more))))
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
