//! Secrets in payloads, recognized by their field names.

use serde_json::{Map, Value};

use super::{MIN_SECRET_LENGTH, PLACEHOLDER};

/// Parts of names whose values are redacted, in lower case and without separators. Payloads, results and texts use the
/// same list.
pub(super) const MARKS: &[&str] = &[
    "password",
    "passwd",
    "passphrase",
    "passcode",
    "secret",
    "token",
    "apikey",
    "accesskey",
    "authkey",
    "encryptionkey",
    "privatekey",
    "signingkey",
    "credential",
    "authorization",
    "cookie",
];

/// Words that are too short to be searched for within a word: `pass` is in `passenger`, `compass` and `bypass`. `DBPass`,
/// `db_pass` and `pass2` contain it as a word.
pub(super) const WORDS: &[&str] = &["pass", "pwd", "pw", "cred", "creds", "jwt"];

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
    "rate",
    "used",
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
        } else if !is_secret_by(name, &[]) {
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
    words(name).last().is_some_and(|word| COUNTS.contains(&word.to_lowercase().as_str()))
}

/// The words of a name: divided at separators and digits, and where the case shows a start, as in `userPass` and
/// `DBPass`.
fn words(name: &str) -> impl Iterator<Item = &str> {
    name.split(|c: char| !c.is_alphabetic()).filter(|part| !part.is_empty()).flat_map(|part| {
        let letters: Vec<(usize, char)> = part.char_indices().collect();
        let starts = letters.windows(2).enumerate().filter_map(|(place, pair)| {
            let [(_, before), (at, letter)] = *pair else { return None };
            let after = letters.get(place + 2).map(|(_, letter)| *letter);
            let begins = !before.is_uppercase() || after.is_some_and(char::is_lowercase);
            (letter.is_uppercase() && begins).then_some(at)
        });
        let mut cuts = vec![0];
        cuts.extend(starts);
        cuts.push(part.len());
        cuts.windows(2).map(|cut| &part[cut[0]..cut[1]]).collect::<Vec<_>>()
    })
}

/// A name in the form that is compared: `API-Key`, `apiKey` and `api_key` are the same.
pub(super) fn plain(name: &str) -> String {
    name.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

/// Whether a field with this name is a secret; `more` are the marks of a definition.
pub(super) fn is_secret_by(name: &str, more: &[String]) -> bool {
    let plain = plain(name);
    MARKS.iter().any(|mark| plain.contains(mark))
        || more.iter().any(|mark| plain.contains(mark))
        || words(name).any(|word| WORDS.contains(&word.to_lowercase().as_str()))
}

/// A payload as it is shown: the strings and numbers under secret names are replaced, and everything under the names of
/// the definition. Counts are not: `max_tokens` is not a secret.
pub(super) fn payload(value: &Value, more: &[String]) -> Value {
    shown(value, more, Hiding::Nothing, [Hiding::Strings, Hiding::StringsAndNumbers])
}

/// A result as it is stored. What is not stored is lost, and a result may be a token that its reader needs, such as that of the
/// next page: only what the definition names is replaced.
pub(super) fn result(value: &Value, more: &[String]) -> Value {
    shown(value, more, Hiding::Nothing, [Hiding::Everything; 2])
}

/// `least` is what hides strings, and what hides numbers.
fn shown(value: &Value, more: &[String], hiding: Hiding, least: [Hiding; 2]) -> Value {
    let is_hidden = match value {
        Value::String(_) => hiding >= least[0],
        Value::Number(_) => hiding >= least[1],
        Value::Bool(_) => hiding >= Hiding::Everything,
        Value::Null | Value::Array(_) | Value::Object(_) => false,
    };
    match value {
        _ if is_hidden => Value::from(PLACEHOLDER),
        Value::Array(items) => items.iter().map(|item| shown(item, more, hiding.inside(), least)).collect(),
        Value::Object(members) => {
            let shown = |(name, value): (&String, &Value)| {
                let hiding = hiding.inside().max(Hiding::of(name, more));
                (name.clone(), shown(value, more, hiding, least))
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
