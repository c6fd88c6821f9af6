//! Removes secrets from everything that is stored or shown: output, errors, results, progress, events, traces.
//!
//! All of them use one redactor. It has the secret values, in the forms in which programs print them, and the
//! expressions of the operator; for each job, the rules of the definition and the secrets of the payload are added.
//! Secrets that nobody has named in advance are recognized by what surrounds them (`surroundings`): a name such as
//! `password`, a header, a URL, a block of PEM.
//! Transitions and spans contain only ids, keys and codes, so there is nothing to remove from them. A redactor works on
//! streams, and its output does not depend on how a stream is divided: bytes that could be the start of a secret are
//! held back until this is decided. So it must run before anything that truncates, such as a tail.
//!
//! The secrets of one payload are limited ([`MAX_SECRETS`], [`MAX_SECRET_LENGTH`], [`MAX_SECRET_BYTES`]). A job with
//! more is rejected when it is enqueued; if it was enqueued in another way, all output of its runs is withheld. After
//! redaction, control characters are replaced (never removed: that could join the two halves of a secret).

mod amount;
mod automaton;
mod expressions;
mod extent;
mod keys;
mod lines;
mod names;
mod rules;
mod surroundings;
mod values;
mod variants;

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use serde_json::{Map, Value};

pub use amount::{MAX_SECRET_BYTES, MAX_SECRET_LENGTH, MAX_SECRETS};
pub use rules::Redaction;

pub(crate) use amount::check as check_amount;
pub(crate) use rules::Rules;

use crate::error::{Error, Result};
use crate::text;
use expressions::{Expressions, LineStream};
use lines::TextStream;
use names::SecretNames;
use values::{ValueStream, Values};

/// The text that replaces a secret.
pub const PLACEHOLDER: &str = "[redacted]";

/// The text that replaces all output of a job if its payload has more secrets than can be searched for.
pub const WITHHELD: &str = "[redacted: the payload has too many secret values]";

/// Shorter values are not treated as secrets: replacing every `no` would destroy the text and reveal the secret by the
/// gaps.
pub const MIN_SECRET_LENGTH: usize = 6;

/// Whether a field with this name is a secret in every payload.
pub fn is_secret_key(name: &str) -> bool {
    keys::is_secret_by(name, &[])
}

/// Whether numbers are hidden too at this place of a payload, given by its names.
pub(crate) fn hides_numbers(names: &[String]) -> bool {
    let last = names.len().saturating_sub(1);
    let hides =
        |(place, name): (usize, &String)| is_secret_key(name) && !(place == last && keys::is_count(name));
    names.iter().enumerate().any(hides)
}

/// A payload as it is shown, with the rules of all definitions: the strings and numbers under secret names are replaced.
pub fn payload(value: &Value) -> Value {
    keys::payload(value, &[])
}

/// The pointer of a placeholder under a secret name: it was probably copied from a displayed payload.
pub(crate) fn copied_placeholder(value: &Value) -> Option<String> {
    keys::placeholder_in(value, false)
}

/// The strings under secret names that are long enough to be searched for.
pub fn secrets_in(value: &Value) -> Vec<String> {
    keys::secrets_in(value, &[])
}

/// Removes known secrets. Cheap to clone.
///
/// ```
/// use windlass::redact::{PLACEHOLDER, Redactor};
///
/// let redactor = Redactor::new(["hunter2-hunter2"], [r"card-\d+"])?;
/// assert_eq!(redactor.text("paid with card-4711"), format!("paid with {PLACEHOLDER}"));
/// assert!(redactor.finds_in("hunter2-hunter2") && !redactor.is_empty());
/// let shown = redactor.json(&serde_json::json!({ "card": "card-4711" }));
/// assert_eq!(shown, serde_json::json!({ "card": PLACEHOLDER }));
/// assert_eq!(redactor.json_text(r#"{"n":1.0}"#), r#"{"n":1.0}"#);
///
/// // The secrets of one job in addition, and those of another definition.
/// let of_job = redactor.with_values(["secret-of-the-job"]);
/// let both = of_job.and(&Redactor::new(["another-secret"], Vec::<&str>::new())?);
/// assert!(both.finds_in("another-secret") && !both.values_only().finds_in("card-4711"));
///
/// // Output that arrives in pieces.
/// let mut clean = String::new();
/// let mut stream = both.stream();
/// stream.push(b"secret-of-", &mut clean);
/// stream.push(b"the-job\n", &mut clean);
/// stream.finish(&mut clean);
/// assert_eq!(clean, format!("{PLACEHOLDER}\n"));
/// # Ok::<(), windlass::Error>(())
/// ```
#[derive(Clone)]
pub struct Redactor {
    values: Values,
    expressions: Arc<Expressions>,
    names: Arc<SecretNames>,
    /// There were too many secrets to search for, so nothing is shown.
    withholds: bool,
}

/// Knows no values, but removes what is recognized as a secret by its surroundings.
impl Default for Redactor {
    fn default() -> Self {
        Self {
            values: Values::default(),
            expressions: Arc::default(),
            names: SecretNames::common(),
            withholds: false,
        }
    }
}

/// The maximum size of one secret value of the operator, and of all of them together, in bytes.
const MAX_VALUE_LENGTH: usize = 64 * 1024;
const MAX_VALUE_BYTES: usize = 256 * 1024;

impl Redactor {
    /// Creates a redactor from secret values and expressions (in the syntax of the `regex` crate; each is applied to
    /// one line at a time).
    pub fn new<V: AsRef<[u8]>, E: AsRef<str>>(
        values: impl IntoIterator<Item = V>,
        expressions: impl IntoIterator<Item = E>,
    ) -> Result<Self> {
        let values: Vec<Vec<u8>> = values.into_iter().map(|value| value.as_ref().to_vec()).collect();
        let problem = if values.iter().any(|value| value.len() < MIN_SECRET_LENGTH) {
            Some(format!("must have at least {MIN_SECRET_LENGTH} bytes"))
        } else if values.iter().any(|value| value.len() > MAX_VALUE_LENGTH) {
            Some(format!("must have at most {MAX_VALUE_LENGTH} bytes"))
        } else if values.iter().map(Vec::len).sum::<usize>() > MAX_VALUE_BYTES {
            Some(format!("values must have at most {MAX_VALUE_BYTES} bytes together"))
        } else {
            None
        };
        if let Some(problem) = problem {
            return Err(Error::refused("secret", problem));
        }
        let expressions = Expressions::new(expressions).map_err(|error| Error::refused("redact", error))?;
        Ok(Self { values: Values::new(values), expressions: Arc::new(expressions), ..Self::default() })
    }

    /// The same with more values, such as those of one job's payload. Values that are too short are ignored. If there
    /// are too many, or one is too long, the redactor withholds all text.
    #[must_use]
    pub fn with_values<V: AsRef<[u8]>>(&self, more: impl IntoIterator<Item = V>) -> Self {
        let more: Vec<Vec<u8>> = more
            .into_iter()
            .filter(|value| value.as_ref().len() >= MIN_SECRET_LENGTH)
            .map(|value| value.as_ref().to_vec())
            .collect();
        if amount::exceeded(more.iter().collect()).is_some() {
            return Self { withholds: true, ..Self::default() };
        }
        Self { values: self.values.and(&Values::new(more)), ..self.clone() }
    }

    /// Combines two redactors, for a process with one redactor for many definitions.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        let expressions = if self.expressions.is_empty() {
            other.expressions.clone()
        } else if other.expressions.is_empty() {
            self.expressions.clone()
        } else {
            Arc::new(self.expressions.and(&other.expressions))
        };
        let withholds = self.withholds || other.withholds;
        let names = self.names.and(&other.names);
        Self { values: self.values.and(&other.values), expressions, names, withholds }
    }

    /// The same with the names of a definition: letters and digits, in lower case.
    fn with_names(self, names: Vec<String>) -> Self {
        if names.is_empty() { self } else { Self { names: Arc::new(SecretNames::new(names)), ..self } }
    }

    /// The same without its expressions, which apply to one definition.
    #[must_use]
    pub fn values_only(&self) -> Self {
        Self { expressions: Arc::default(), names: SecretNames::common(), ..self.clone() }
    }

    /// Returns whether there are no values and no expressions. Secrets are still recognized by their surroundings.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty() && self.expressions.is_empty() && !self.withholds
    }

    /// Starts a stream of bytes that becomes clean text.
    pub fn stream(&self) -> Stream {
        Stream {
            withheld: self.withholds.then_some(false),
            values: ValueStream::new(&self.values),
            texts: TextStream::new(&self.names, false),
            lines: LineStream::new(self.expressions.clone()),
            unfinished: Vec::new(),
            between: Default::default(),
        }
    }

    /// Redacts a complete text. Control characters do not change.
    pub fn text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        self.part(text, &mut false)
    }

    /// Redacts the next complete lines of a text. `is_in_key`: whether a private key has begun and not ended.
    pub(crate) fn part<'a>(&self, text: &'a str, is_in_key: &mut bool) -> Cow<'a, str> {
        let has_surroundings = *is_in_key || self.names.may_be_in(text.as_bytes());
        if self.withholds {
            return Cow::Borrowed(if text.is_empty() { text } else { WITHHELD });
        }
        if !has_surroundings {
            return self.known(text);
        }
        let (mut first, mut second, mut third) = (Vec::new(), Vec::new(), Vec::new());
        let mut values = ValueStream::new(&self.values);
        values.push(text.as_bytes(), &mut first);
        values.finish(&mut first);
        let mut texts = TextStream::new(&self.names, *is_in_key);
        texts.push(&first, &mut second);
        *is_in_key = texts.finish(&mut second);
        let mut lines = LineStream::new(self.expressions.clone());
        lines.push(&second, &mut third);
        lines.finish(&mut third);
        Self::changed(text, &third)
    }

    /// The same for the known values and the expressions only.
    fn known<'a>(&self, text: &'a str) -> Cow<'a, str> {
        if self.is_empty() {
            return Cow::Borrowed(text);
        }
        let (mut first, mut second) = (Vec::new(), Vec::new());
        let mut values = ValueStream::new(&self.values);
        values.push(text.as_bytes(), &mut first);
        values.finish(&mut first);
        let mut lines = LineStream::new(self.expressions.clone());
        lines.push(&first, &mut second);
        lines.finish(&mut second);
        Self::changed(text, &second)
    }

    fn changed<'a>(text: &'a str, redacted: &[u8]) -> Cow<'a, str> {
        if redacted == text.as_bytes() {
            return Cow::Borrowed(text);
        }
        Cow::Owned(String::from_utf8_lossy(redacted).into_owned())
    }

    /// Redacts the known values and the expressions in a JSON value, in names, strings and numbers, and everything under the
    /// names of a definition. A number that contains a secret is replaced as a whole. Secrets are not recognized by their
    /// surroundings: a value is data that somebody reads, in which `second pass: 300 rows` must stay.
    pub fn json(&self, value: &Value) -> Value {
        self.known_json(&keys::result(value, self.names.own()))
    }

    /// The same for the known values and the expressions only.
    fn known_json(&self, value: &Value) -> Value {
        if self.withholds {
            return Value::from(WITHHELD);
        }
        if self.is_empty() {
            return value.clone();
        }
        match value {
            Value::String(text) => Value::String(self.known(text).into_owned()),
            Value::Array(items) => items.iter().map(|item| self.known_json(item)).collect(),
            Value::Object(members) => {
                let members = members
                    .iter()
                    .map(|(name, value)| (self.known(name).into_owned(), self.known_json(value)));
                Value::Object(members.collect::<Map<String, Value>>())
            }
            Value::Number(number) if self.finds_in(&number.to_string()) => Value::from(PLACEHOLDER),
            Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
        }
    }

    /// Redacts JSON text. Text without secrets is returned unchanged, so that its numbers keep every digit.
    pub fn json_text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        if self.withholds {
            return Cow::Owned(Value::from(WITHHELD).to_string());
        }
        let is_clean = || !text.contains('\\') && matches!(self.known(text), Cow::Borrowed(_));
        if self.names.own().is_empty() && (self.is_empty() || is_clean()) {
            return Cow::Borrowed(text);
        }
        match serde_json::from_str::<Value>(text) {
            Ok(value) => {
                let redacted = self.json(&value);
                if redacted == value { Cow::Borrowed(text) } else { Cow::Owned(redacted.to_string()) }
            }
            Err(_) => self.known(text),
        }
    }

    /// The strings of a payload under the names that are secret to this redactor.
    pub(crate) fn secrets_in(&self, payload: &Value) -> Vec<String> {
        keys::secrets_in(payload, self.names.own())
    }

    /// Whether the text contains a known value, or something that an expression matches.
    pub fn finds_in(&self, text: &str) -> bool {
        self.withholds || matches!(self.known(text), Cow::Owned(_))
    }
}

/// Does not print the secrets.
impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redactor").field("secrets", &self.values.count()).finish_non_exhaustive()
    }
}

/// A stream that is being redacted. Its output, joined, does not depend on how the input was divided.
pub struct Stream {
    /// If the text is withheld: whether the notice was already written.
    withheld: Option<bool>,
    values: ValueStream,
    texts: TextStream,
    lines: LineStream,
    /// The start of an incomplete character.
    unfinished: Vec<u8>,
    between: [Vec<u8>; 3],
}

impl Stream {
    /// Processes the next piece and appends what is decided.
    pub fn push(&mut self, bytes: &[u8], to: &mut String) {
        if let Some(was_said) = &mut self.withheld {
            if !*was_said && !bytes.is_empty() {
                *was_said = true;
                to.push_str(WITHHELD);
                to.push('\n');
            }
            return;
        }
        let [first, second, third] = &mut self.between;
        self.values.push(bytes, first);
        self.texts.push(first, second);
        self.lines.push(second, third);
        first.clear();
        second.clear();
        self.clean(to, false);
    }

    /// Ends the stream, and writes what was held back, redacted if it is a secret.
    pub fn finish(mut self, to: &mut String) {
        let [first, second, third] = &mut self.between;
        self.values.finish(first);
        self.texts.push(first, second);
        self.texts.finish(second);
        self.lines.push(second, third);
        self.lines.finish(third);
        self.clean(to, true);
    }

    fn clean(&mut self, to: &mut String, is_last: bool) {
        let bytes = &mut self.between[2];
        if !self.unfinished.is_empty() {
            bytes.splice(0..0, self.unfinished.drain(..));
        }
        let whole = if is_last { bytes.len() } else { text::whole_characters(bytes) };
        self.unfinished.extend_from_slice(&bytes[whole..]);
        text::clean_into(&bytes[..whole], to);
        bytes.clear();
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
