//! What a definition says of its own secrets: expressions for its texts, and names of payload members.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Redactor, keys};
use crate::error::{Error, Result};

/// A definition's own rules, beside those that hold for every job.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct Redaction {
    /// In the syntax of the `regex` crate, each applied to one line at a time: what they match is replaced in output,
    /// errors, results, progress and logs, and in the payload where it is shown.
    pub expressions: Vec<String>,
    /// Parts of names of payload members, beside the usual ones such as `password`: the texts below them are hidden
    /// where the payload is shown, and replaced wherever a run says them.
    pub keys: Vec<String>,
}

impl Redaction {
    /// The most of each.
    pub const MOST: usize = 32;
    /// The most bytes of one expression.
    pub const LONGEST_EXPRESSION: usize = 1000;
    /// The most bytes of one key.
    pub const LONGEST_KEY: usize = 100;

    /// Rules that hide nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an expression.
    #[must_use]
    pub fn expression(mut self, expression: impl Into<String>) -> Self {
        self.expressions.push(expression.into());
        self
    }

    /// Adds a part of names of payload members.
    #[must_use]
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.keys.push(key.into());
        self
    }

    /// Returns whether nothing is hidden by these rules.
    pub fn is_empty(&self) -> bool {
        self.expressions.is_empty() && self.keys.is_empty()
    }

    /// Refuses what is too much or makes no sense, naming it.
    pub fn check(&self) -> Result<()> {
        Rules::new(self).map(drop)
    }
}

/// The same, ready to be used.
#[derive(Debug, Default)]
pub(crate) struct Rules {
    marks: Vec<String>,
    expressions: Redactor,
}

/// Rules that were compiled lately. Compiling takes milliseconds, and a definition's rules rarely change.
static COMPILED: Mutex<Option<HashMap<Redaction, Arc<Rules>>>> = Mutex::new(None);
const MOST_COMPILED: usize = 64;

impl Rules {
    /// The same as [`Rules::new`], compiled once for many uses.
    pub(crate) fn of(redaction: &Redaction) -> Result<Arc<Self>> {
        let known = || COMPILED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(rules) = known().get_or_insert_default().get(redaction) {
            return Ok(rules.clone());
        }
        let rules = Arc::new(Self::new(redaction)?);
        let mut known = known();
        let known = known.get_or_insert_default();
        if known.len() >= MOST_COMPILED {
            known.clear();
        }
        known.insert(redaction.clone(), rules.clone());
        Ok(rules)
    }

    pub(crate) fn new(redaction: &Redaction) -> Result<Self> {
        let too_many = |field: &str| {
            Error::refused(format!("redaction/{field}"), format!("are at most {}", Redaction::MOST))
        };
        if redaction.expressions.len() > Redaction::MOST {
            return Err(too_many("expressions"));
        }
        if redaction.keys.len() > Redaction::MOST {
            return Err(too_many("keys"));
        }
        let mut marks = Vec::with_capacity(redaction.keys.len());
        for (position, key) in redaction.keys.iter().enumerate() {
            let mark = keys::plain(key);
            if mark.is_empty() || key.len() > Redaction::LONGEST_KEY {
                let message =
                    format!("must have a letter or a digit and at most {} bytes", Redaction::LONGEST_KEY);
                return Err(Error::refused(format!("redaction/keys/{position}"), message));
            }
            marks.push(mark);
        }
        for (position, expression) in redaction.expressions.iter().enumerate() {
            let problem = if expression.len() > Redaction::LONGEST_EXPRESSION {
                Some(format!("must have at most {} bytes", Redaction::LONGEST_EXPRESSION))
            } else {
                super::Expressions::new([expression]).err()
            };
            if let Some(problem) = problem {
                return Err(Error::refused(format!("redaction/expressions/{position}"), problem));
            }
        }
        Ok(Self { marks, expressions: Redactor::new([""; 0], &redaction.expressions)? })
    }

    /// What one job of the definition must not say: what everybody knows, the definition's expressions, and the texts
    /// under telling keys of its own payload.
    pub(crate) fn redactor(&self, base: &Redactor, payload: &str) -> Redactor {
        let payload = serde_json::from_str(payload).unwrap_or_default();
        base.and(&self.expressions).with_values(keys::secrets_in(&payload, &self.marks))
    }

    /// The payload for others to see.
    pub(crate) fn payload(&self, payload: &Value) -> Value {
        // What cannot be read as JSON is shown as its text, in which names cannot be told from what stands under them.
        if let Value::String(text) = payload
            && text.trim_start().starts_with(['{', '['])
            && keys::is_secret_by(text, &self.marks)
        {
            return Value::from(super::PLACEHOLDER);
        }
        self.expressions.json(&keys::payload(payload, &self.marks))
    }
}
