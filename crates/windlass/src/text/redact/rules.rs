//! The redaction rules of a definition: expressions, and names of payload fields.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Redactor, keys};
use crate::error::{Error, Result};

/// The redaction rules of a definition, in addition to the defaults.
///
/// ```
/// use windlass::redact::Redaction;
///
/// let redaction = Redaction::new().key("password").expression(r"card-\d+");
/// assert!(redaction.check().is_ok() && !redaction.is_empty());
/// assert!(Redaction::new().expression("(").check().is_err());
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct Redaction {
    /// Regular expressions in the syntax of the `regex` crate, applied to each line: matches are replaced in output,
    /// errors, results, progress and logs, and in the payload where it is shown.
    pub expressions: Vec<String>,
    /// Parts of names of payload fields, in addition to the defaults such as `password`: their values are redacted
    /// where the payload is shown, and their strings in the output of the job.
    pub keys: Vec<String>,
}

impl Redaction {
    /// The maximum number of expressions, and of keys.
    pub const MAX: usize = 32;
    /// The maximum length of one expression, in bytes.
    pub const MAX_EXPRESSION_LENGTH: usize = 1000;
    /// The maximum length of one key, in bytes.
    pub const MAX_KEY_LENGTH: usize = 100;

    /// Creates empty rules.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an expression.
    #[must_use]
    pub fn expression(mut self, expression: impl Into<String>) -> Self {
        self.expressions.push(expression.into());
        self
    }

    /// Adds a part of names of payload fields.
    #[must_use]
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.keys.push(key.into());
        self
    }

    /// Returns whether there are no rules.
    pub fn is_empty(&self) -> bool {
        self.expressions.is_empty() && self.keys.is_empty()
    }

    /// Returns an error for a rule that is invalid or exceeds a limit, with its location.
    pub fn check(&self) -> Result<()> {
        Rules::new(self).map(drop)
    }
}

/// Compiled rules.
#[derive(Debug, Default)]
pub(crate) struct Rules {
    marks: Vec<String>,
    expressions: Redactor,
}

/// Recently compiled rules. Compiling takes milliseconds, and the rules of a definition rarely change.
static COMPILED: Mutex<Option<HashMap<Redaction, Arc<Rules>>>> = Mutex::new(None);
const MAX_COMPILED: usize = 64;

impl Rules {
    /// The same as [`Rules::new`], with a cache.
    pub(crate) fn of(redaction: &Redaction) -> Result<Arc<Self>> {
        let known = || COMPILED.lock();
        if let Some(rules) = known().get_or_insert_default().get(redaction) {
            return Ok(rules.clone());
        }
        let rules = Arc::new(Self::new(redaction)?);
        let mut known = known();
        let known = known.get_or_insert_default();
        if known.len() >= MAX_COMPILED {
            known.clear();
        }
        known.insert(redaction.clone(), rules.clone());
        Ok(rules)
    }

    pub(crate) fn new(redaction: &Redaction) -> Result<Self> {
        let too_many = |field: &str| {
            Error::refused(
                format!("redaction/{field}"),
                format!("must have at most {} items", Redaction::MAX),
            )
        };
        if redaction.expressions.len() > Redaction::MAX {
            return Err(too_many("expressions"));
        }
        if redaction.keys.len() > Redaction::MAX {
            return Err(too_many("keys"));
        }
        let mut marks = Vec::with_capacity(redaction.keys.len());
        for (position, key) in redaction.keys.iter().enumerate() {
            let mark = keys::plain(key);
            if mark.is_empty() || key.len() > Redaction::MAX_KEY_LENGTH {
                let message = format!(
                    "must contain a letter or a digit and have at most {} bytes",
                    Redaction::MAX_KEY_LENGTH
                );
                return Err(Error::refused(format!("redaction/keys/{position}"), message));
            }
            marks.push(mark);
        }
        for (position, expression) in redaction.expressions.iter().enumerate() {
            let problem = if expression.len() > Redaction::MAX_EXPRESSION_LENGTH {
                Some(format!("must have at most {} bytes", Redaction::MAX_EXPRESSION_LENGTH))
            } else {
                super::Expressions::new([expression]).err()
            };
            if let Some(problem) = problem {
                return Err(Error::refused(format!("redaction/expressions/{position}"), problem));
            }
        }
        let expressions = Redactor::new([""; 0], &redaction.expressions)?.with_names(marks.clone());
        Ok(Self { marks, expressions })
    }

    /// The redactor of one job of the definition: the base, the expressions of the definition, and the secrets of the
    /// payload.
    pub(crate) fn redactor(&self, base: &Redactor, payload: &str) -> Redactor {
        let payload = serde_json::from_str(payload).unwrap_or_default();
        base.and(&self.expressions).with_values(keys::secrets_in(&payload, &self.marks))
    }

    /// The payload as it is shown.
    pub(crate) fn payload(&self, payload: &Value) -> Value {
        // Text that is not valid JSON is shown as text, in which names and values cannot be distinguished.
        if let Value::String(text) = payload
            && text.trim_start().starts_with(['{', '['])
            && keys::is_secret_by(text, &self.marks)
        {
            return Value::from(super::PLACEHOLDER);
        }
        self.expressions.known_json(&keys::payload(payload, &self.marks))
    }
}
