//! The fields as shown: one template, which renders a group recursively.

use std::collections::HashMap;

use askama::Template;
use serde_json::Value;

use super::{Field, FieldKind, RawFields};
use crate::web::html::Html;

/// A field with its submitted value and its error.
#[derive(Template)]
#[template(path = "schema_form.html")]
pub(crate) struct FieldView {
    id: String,
    field: Field,
    value: String,
    wrong: Option<String>,
    /// The fields of a group.
    inner: Vec<FieldView>,
}

/// `wrong`: errors by field name.
pub(crate) fn draw(fields: &[Field], raw: &RawFields, wrong: &HashMap<String, String>) -> Vec<FieldView> {
    draw_all(fields, raw, wrong, &mut 0)
}

fn draw_all(
    fields: &[Field],
    raw: &RawFields,
    wrong: &HashMap<String, String>,
    last: &mut usize,
) -> Vec<FieldView> {
    let mut draw_one = |field: &Field| {
        *last += 1;
        let id = format!("p{last}");
        let inner = match &field.kind {
            FieldKind::Group(inner) => draw_all(inner, raw, wrong, last),
            _ => Vec::new(),
        };
        FieldView {
            id,
            value: raw.get(&field.name).cloned().unwrap_or_default(),
            wrong: wrong.get(&field.name).cloned(),
            inner,
            field: field.clone(),
        }
    };
    fields.iter().map(&mut draw_one).collect()
}

impl FieldView {
    pub(crate) fn html(&self) -> askama::Result<Html> {
        Html::rendered(self)
    }

    fn is_chosen(&self, index: &usize) -> bool {
        self.value == index.to_string()
    }

    fn choice_words(&self, choice: &Value) -> String {
        choice.as_str().map_or_else(|| choice.to_string(), str::to_owned)
    }

    /// The expected format, if the kind of field does not show it.
    const fn note(&self) -> &'static str {
        match self.field.kind {
            FieldKind::Lines => "One per line.",
            FieldKind::Json => "As JSON.",
            _ => "",
        }
    }
}
