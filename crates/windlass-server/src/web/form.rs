//! The common parts of the pages with a form: the frame of the form, and the values that it shows.

use serde_json::{Map, Value};

use super::job::pretty;
use super::posted::Posted;

/// The frame around the fields; rendered by `form.html`.
pub(crate) struct Form {
    pub(crate) title: String,
    /// The list that the form belongs to, and its URL.
    pub(crate) list: &'static str,
    pub(crate) list_href: &'static str,
    pub(crate) action: String,
    /// The label of the button.
    pub(crate) save: &'static str,
    pub(crate) wrong: Option<String>,
}

/// Values by field name: those that are stored, or those that were submitted and rejected.
#[derive(Debug, Clone, Default)]
pub(crate) struct Shown(pub(crate) Map<String, Value>);

impl Shown {
    pub(crate) fn of(value: &impl serde::Serialize) -> Self {
        let value = serde_json::to_value(value).unwrap_or_default();
        Self(value.as_object().cloned().unwrap_or_default())
    }

    pub(crate) fn typed(posted: &Posted) -> Self {
        Self(posted.0.iter().map(|(name, value)| (name.clone(), Value::from(value.as_str()))).collect())
    }

    /// The text of the field: objects as indented JSON; empty if there is no value.
    pub(crate) fn text(&self, name: &str) -> String {
        self.text_or(name, "")
    }

    pub(crate) fn text_or(&self, name: &str, otherwise: &str) -> String {
        match self.0.get(name) {
            Some(Value::String(text)) => text.clone(),
            None | Some(Value::Null) => otherwise.to_owned(),
            Some(object @ Value::Object(_)) => pretty(object),
            Some(other) => other.to_string(),
        }
    }

    pub(crate) fn is_on(&self, name: &str) -> bool {
        self.0.get(name) == Some(&Value::Bool(true))
    }
}
