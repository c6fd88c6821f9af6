//! The common parts of the pages with a form: the frame of the form, and the values that it shows.

use serde_json::{Map, Value};

use super::form_body::FormBody;
use super::job::pretty;
use super::page::sentence;
use crate::http::Problem;

/// The frame around the fields; rendered by `form.html`.
pub(crate) struct Form {
    pub(crate) title: String,
    /// The list that the form belongs to, and its URL.
    pub(crate) list: &'static str,
    pub(crate) list_href: &'static str,
    pub(crate) action: String,
    /// The label of the button. Without one the fields can only be read.
    pub(crate) save: Option<&'static str>,
    pub(crate) wrong: Option<Wrong>,
}

impl Form {
    /// The message at the top of the page.
    pub(crate) fn alert(&self) -> Option<&str> {
        self.wrong.as_ref().map(|wrong| match wrong.field {
            Some(_) => "Fix the highlighted field.",
            None => wrong.message.as_str(),
        })
    }

    /// What is wrong with this field.
    pub(crate) fn wrong_at(&self, field: &str) -> Option<&str> {
        let wrong = self.wrong.as_ref().filter(|wrong| wrong.field == Some(field));
        wrong.map(|wrong| wrong.message.as_str())
    }
}

/// Why a submitted form was rejected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Wrong {
    /// The field that it is about.
    field: Option<&'static str>,
    message: String,
}

impl Wrong {
    /// `fields`: the first part of a pointer into the body of the API, and the name of the field in the form.
    pub(crate) fn of(problem: &Problem, fields: &[(&str, &'static str)]) -> Self {
        let placed = problem.errors.first().and_then(|fault| {
            let place = fault.pointer.trim_start_matches('/').split('/').next()?;
            let (_, field) = fields.iter().find(|(known, _)| *known == place)?;
            Some((*field, fault.message.clone()))
        });
        match placed {
            Some((field, message)) => Self { field: Some(field), message },
            None => Self { field: None, message: sentence(&problem.detail) },
        }
    }
}

/// Values by field name: those that are stored, or those that were submitted and rejected.
#[derive(Debug, Clone, Default)]
pub(crate) struct Shown(pub(crate) Map<String, Value>);

impl Shown {
    pub(crate) fn of(value: &impl serde::Serialize) -> Self {
        let value = serde_json::to_value(value).unwrap_or_default();
        Self(value.as_object().cloned().unwrap_or_default())
    }

    pub(crate) fn typed(posted: &FormBody) -> Self {
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

#[cfg(test)]
mod tests {
    use super::Wrong;
    use crate::http::Problem;

    #[test]
    fn a_problem_is_shown_at_its_field_and_without_one_as_a_sentence() {
        let fields = [("name", "name"), ("expires_at", "expires")];
        let wrong = Wrong::of(&Problem::invalid("/expires_at", "must be in the future"), &fields);
        assert_eq!((wrong.field, wrong.message.as_str()), (Some("expires"), "must be in the future"));
        let nested = Wrong::of(&Problem::invalid("/name/first", "is required"), &fields);
        assert_eq!(nested.field, Some("name"));
        let other = Wrong::of(&Problem::invalid("/other", "is required"), &fields);
        assert_eq!((other.field, other.message.as_str()), (None, "Other: is required."));
    }
}
