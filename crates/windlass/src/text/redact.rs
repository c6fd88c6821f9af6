//! Takes secrets out of what is stored or shown: output, errors, results, progress, events, traces.
//!
//! One redactor for all of them. It knows secret values, in the forms in which programs print them, and the operator's
//! expressions; for each job the definition's own rules and the secret texts of its payload are added. Transitions and
//! spans hold only ids, keys and codes, so there is nothing to remove from them. A redactor works on streams, and its
//! output does not depend on how a stream is cut into pieces: what could be the beginning of a secret is held back until
//! it is known. So it must come before anything that cuts, such as a tail.
//!
//! The secret texts of one payload are limited ([`MOST_SECRETS`], [`LONGEST_SECRET`], [`MOST_SECRET_BYTES`]). A job with
//! more is refused when it is enqueued; if it gets in by another way, everything that its runs say is withheld.
//! After it, control characters are replaced (never removed: that could put the two halves of a secret together).

mod amount;
mod automaton;
mod expressions;
mod keys;
mod rules;
mod values;
mod variants;

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use serde_json::{Map, Value};

pub use amount::{LONGEST_SECRET, MOST_SECRET_BYTES, MOST_SECRETS};
pub use rules::Redaction;

pub(crate) use amount::check as check_amount;
pub(crate) use rules::Rules;

use crate::error::{Error, Result};
use crate::text;
use expressions::{Expressions, LineStream};
use values::{ValueStream, Values};

/// What stands where a secret stood.
pub const PLACEHOLDER: &str = "[redacted]";

/// What stands for everything a job says if its payload has more secrets than can be searched for.
pub const WITHHELD: &str = "[redacted: the payload has more secret texts than can be searched for]";

/// Shorter values are not secrets: replacing every `no` would destroy the text and tell the secret by its gaps.
pub const SHORTEST_SECRET: usize = 6;

/// Whether a member of this name is taken for a secret in every payload.
pub fn is_secret_key(name: &str) -> bool {
    keys::is_secret_by(name, &[])
}

/// A payload for others to see, by the rules that hold for every definition: the texts under telling keys are replaced.
pub fn payload(value: &Value) -> Value {
    keys::payload(value, &[])
}

/// Where a payload holds the placeholder under a telling key: as if it had been copied from where it is shown.
pub(crate) fn copied_placeholder(value: &Value) -> Option<String> {
    keys::placeholder_in(value, false)
}

/// The texts under telling keys that are long enough to be found elsewhere.
pub fn secrets_in(value: &Value) -> Vec<String> {
    keys::secrets_in(value, &[])
}

/// Knows secrets and takes them out. Cheap to clone.
#[derive(Clone, Default)]
pub struct Redactor {
    values: Values,
    expressions: Arc<Expressions>,
    /// There was too much to search for, so nothing is shown.
    withholds: bool,
}

/// The most bytes of secret values that an operator may give, in one and in all.
const LONGEST_VALUE: usize = 64 * 1024;
const MOST_VALUE_BYTES: usize = 256 * 1024;

impl Redactor {
    /// From secret values and from expressions (in the syntax of the `regex` crate; each is applied to one line at a time).
    pub fn new<V: AsRef<[u8]>, E: AsRef<str>>(
        values: impl IntoIterator<Item = V>,
        expressions: impl IntoIterator<Item = E>,
    ) -> Result<Self> {
        let values: Vec<Vec<u8>> = values.into_iter().map(|value| value.as_ref().to_vec()).collect();
        let problem = if values.iter().any(|value| value.len() < SHORTEST_SECRET) {
            Some(format!("is shorter than {SHORTEST_SECRET} bytes, which is too short to be found in a text"))
        } else if values.iter().any(|value| value.len() > LONGEST_VALUE) {
            Some(format!("must have at most {LONGEST_VALUE} bytes"))
        } else if values.iter().map(Vec::len).sum::<usize>() > MOST_VALUE_BYTES {
            Some(format!("values must have at most {MOST_VALUE_BYTES} bytes together"))
        } else {
            None
        };
        if let Some(problem) = problem {
            return Err(Error::refused("secret", problem));
        }
        let expressions = Expressions::new(expressions).map_err(|error| Error::refused("redact", error))?;
        Ok(Self { values: Values::new(values), expressions: Arc::new(expressions), withholds: false })
    }

    /// The same with more values, such as those of one job's payload. Values that are too short are left out. If there are
    /// too many or too long ones, the redactor withholds every text.
    #[must_use]
    pub fn with_values<V: AsRef<[u8]>>(&self, more: impl IntoIterator<Item = V>) -> Self {
        let more: Vec<Vec<u8>> = more
            .into_iter()
            .filter(|value| value.as_ref().len() >= SHORTEST_SECRET)
            .map(|value| value.as_ref().to_vec())
            .collect();
        if amount::exceeded(more.iter().collect()).is_some() {
            return Self { withholds: true, ..Self::default() };
        }
        Self { values: self.values.and(&Values::new(more)), ..self.clone() }
    }

    /// What both know, for a process with one redactor for many kinds of jobs.
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
        Self { values: self.values.and(&other.values), expressions, withholds }
    }

    /// The same without its expressions, which are meant for one kind of job.
    #[must_use]
    pub fn values_only(&self) -> Self {
        Self { expressions: Arc::default(), ..self.clone() }
    }

    /// Returns whether nothing is hidden by these rules.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty() && self.expressions.is_empty() && !self.withholds
    }

    /// Begins a stream of bytes that becomes clean text.
    pub fn stream(&self) -> Stream {
        Stream {
            withheld: self.withholds.then_some(false),
            values: ValueStream::new(&self.values),
            lines: LineStream::new(self.expressions.clone()),
            unfinished: Vec::new(),
            between: [Vec::new(), Vec::new()],
        }
    }

    /// A whole text without its secrets. Control characters stay as they are.
    pub fn text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        if self.is_empty() {
            return Cow::Borrowed(text);
        }
        if self.withholds {
            return Cow::Borrowed(if text.is_empty() { text } else { WITHHELD });
        }
        let (mut first, mut second) = (Vec::new(), Vec::new());
        let mut values = ValueStream::new(&self.values);
        values.push(text.as_bytes(), &mut first);
        values.finish(&mut first);
        let mut lines = LineStream::new(self.expressions.clone());
        lines.push(&first, &mut second);
        lines.finish(&mut second);
        if second == text.as_bytes() {
            return Cow::Borrowed(text);
        }
        Cow::Owned(String::from_utf8_lossy(&second).into_owned())
    }

    /// A JSON value without secrets, in names and strings. A secret that is a number is found by its key alone.
    pub fn json(&self, value: &Value) -> Value {
        if self.is_empty() {
            return value.clone();
        }
        if self.withholds {
            return Value::from(WITHHELD);
        }
        match value {
            Value::String(text) => Value::String(self.text(text).into_owned()),
            Value::Array(items) => items.iter().map(|item| self.json(item)).collect(),
            Value::Object(members) => {
                let members =
                    members.iter().map(|(name, value)| (self.text(name).into_owned(), self.json(value)));
                Value::Object(members.collect::<Map<String, Value>>())
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
        }
    }

    /// JSON text without secrets. Text that holds none is returned as it is, so that its numbers keep every digit.
    pub fn json_text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        if self.withholds {
            return Cow::Owned(Value::from(WITHHELD).to_string());
        }
        if self.is_empty() || matches!(self.text(text), Cow::Borrowed(_)) && !text.contains('\\') {
            return Cow::Borrowed(text);
        }
        match serde_json::from_str::<Value>(text) {
            Ok(value) => {
                let redacted = self.json(&value);
                if redacted == value { Cow::Borrowed(text) } else { Cow::Owned(redacted.to_string()) }
            }
            Err(_) => self.text(text),
        }
    }

    /// Whether anything in the text would be taken out.
    pub fn finds_in(&self, text: &str) -> bool {
        self.withholds || matches!(self.text(text), Cow::Owned(_))
    }
}

/// Never prints what it knows.
impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redactor").field("secrets", &self.values.count()).finish_non_exhaustive()
    }
}

/// A stream on its way through a redactor. Its answers, put together, are the same however the input was cut.
pub struct Stream {
    /// If nothing is shown: whether that was said.
    withheld: Option<bool>,
    values: ValueStream,
    lines: LineStream,
    /// The beginning of a character whose end has not come yet.
    unfinished: Vec<u8>,
    between: [Vec<u8>; 2],
}

impl Stream {
    /// Takes the next piece and appends what is certain by now.
    pub fn push(&mut self, bytes: &[u8], to: &mut String) {
        if let Some(was_said) = &mut self.withheld {
            if !*was_said && !bytes.is_empty() {
                *was_said = true;
                to.push_str(WITHHELD);
                to.push('\n');
            }
            return;
        }
        let [first, second] = &mut self.between;
        self.values.push(bytes, first);
        self.lines.push(first, second);
        first.clear();
        self.clean(to, false);
    }

    /// Ends the stream: what was held back is no secret after all, or is one.
    pub fn finish(mut self, to: &mut String) {
        let [first, second] = &mut self.between;
        self.values.finish(first);
        self.lines.push(first, second);
        self.lines.finish(second);
        self.clean(to, true);
    }

    fn clean(&mut self, to: &mut String, is_last: bool) {
        let bytes = &mut self.between[1];
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
