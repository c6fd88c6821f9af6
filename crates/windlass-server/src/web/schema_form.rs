//! A form generated from a JSON Schema, and the conversion of submitted fields to a payload. It supports the common
//! cases; anything else becomes a field for JSON, so that every schema has a form. The library validates the payload,
//! not this form.

mod draw;

use std::collections::HashMap;

use serde_json::{Map, Number, Value};

pub(crate) use draw::{FieldView, draw};

use crate::parser_messages::json_fault;

/// The values of a form by field name.
pub(crate) type RawFields = HashMap<String, String>;

/// One field. Its name is the JSON pointer of its location in the payload.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Field {
    pub(crate) name: String,
    key: String,
    pub(crate) label: String,
    hint: String,
    pub(crate) kind: FieldKind,
    pub(crate) is_required: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum FieldKind {
    /// With the type of the input element.
    Text(&'static str),
    Long,
    Number {
        is_whole: bool,
        least: Option<f64>,
        most: Option<f64>,
    },
    Flag,
    Choice(Vec<Value>),
    /// An array of texts, one per line.
    Lines,
    Json,
    Group(Vec<Field>),
}

/// The maximum depth of nested groups; deeper ones are JSON fields.
const MAX_DEPTH: usize = 3;

/// The fields of an object's schema, required ones first, else in the schema's order.
pub(crate) fn fields(schema: &Value) -> Vec<Field> {
    fields_at(schema, "", 0)
}

fn fields_at(schema: &Value, above: &str, depth: usize) -> Vec<Field> {
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else { return Vec::new() };
    let required: Vec<&str> = schema
        .get("required")
        .and_then(Value::as_array)
        .map(|names| names.iter().filter_map(Value::as_str).collect())
        .unwrap_or_default();
    let mut fields: Vec<Field> = properties
        .iter()
        .map(|(key, schema)| {
            let name = format!("{above}/{}", key.replace('~', "~0").replace('/', "~1"));
            let text = |word: &str| schema.get(word).and_then(Value::as_str).unwrap_or_default().to_owned();
            let title = text("title");
            Field {
                kind: kind(schema, &name, depth),
                label: if title.is_empty() { key.clone() } else { title },
                hint: text("description"),
                is_required: required.contains(&key.as_str()),
                key: key.clone(),
                name,
            }
        })
        .collect();
    fields.sort_by_key(|field| !field.is_required);
    fields
}

fn kind(schema: &Value, name: &str, depth: usize) -> FieldKind {
    if let Some(choices) = schema.get("enum").and_then(Value::as_array) {
        return FieldKind::Choice(choices.clone());
    }
    let number = |word: &str| schema.get(word).and_then(Value::as_f64);
    match schema.get("type").and_then(Value::as_str) {
        Some("string") => match schema.get("format").and_then(Value::as_str) {
            Some("email") => FieldKind::Text("email"),
            Some("date") => FieldKind::Text("date"),
            _ if number("maxLength").is_some_and(|most| most > 300.0) => FieldKind::Long,
            _ => FieldKind::Text("text"),
        },
        Some(word @ ("integer" | "number")) => FieldKind::Number {
            is_whole: word == "integer",
            least: number("minimum"),
            most: number("maximum"),
        },
        Some("boolean") => FieldKind::Flag,
        Some("array")
            if schema.pointer("/items/type").and_then(Value::as_str) == Some("string")
                && schema.pointer("/items/enum").is_none() =>
        {
            FieldKind::Lines
        }
        Some("object") if depth < MAX_DEPTH && schema.get("properties").is_some_and(Value::is_object) => {
            FieldKind::Group(fields_at(schema, name, depth + 1))
        }
        _ => FieldKind::Json,
    }
}

/// The submitted payload, or the errors by field.
pub(crate) fn read(fields: &[Field], raw: &RawFields) -> Result<Value, HashMap<String, String>> {
    let mut wrong = HashMap::new();
    let object = read_object(fields, raw, &mut wrong);
    if wrong.is_empty() { Ok(Value::Object(object)) } else { Err(wrong) }
}

fn read_object(fields: &[Field], raw: &RawFields, wrong: &mut HashMap<String, String>) -> Map<String, Value> {
    let mut object = Map::new();
    for field in fields {
        if let FieldKind::Group(inner) = &field.kind {
            // An optional group without any value is omitted, even if it has required fields.
            let prefix = format!("{}/", field.name);
            let is_touched =
                raw.iter().any(|(name, text)| name.starts_with(&prefix) && !text.trim().is_empty());
            if !field.is_required && !is_touched {
                continue;
            }
            let group = read_object(inner, raw, wrong);
            if field.is_required || !group.is_empty() {
                object.insert(field.key.clone(), Value::Object(group));
            }
            continue;
        }
        let text = raw.get(&field.name).map(String::as_str).unwrap_or_default();
        match read_field(field, text) {
            Ok(Some(value)) => {
                object.insert(field.key.clone(), value);
            }
            Ok(None) => {}
            Err(message) => {
                wrong.insert(field.name.clone(), message);
            }
        }
    }
    object
}

/// Returns `None` for an empty field, unless it is required.
fn read_field(field: &Field, text: &str) -> Result<Option<Value>, String> {
    let is_empty = text.trim().is_empty();
    if is_empty && !field.is_required && field.kind != FieldKind::Flag {
        return Ok(None);
    }
    let value = match &field.kind {
        FieldKind::Text(_) | FieldKind::Long if is_empty => return Err("is required".to_owned()),
        FieldKind::Text(_) | FieldKind::Long => Value::from(text),
        FieldKind::Number { is_whole: true, .. } => {
            Value::from(text.trim().parse::<i64>().map_err(|_| "must be a whole number")?)
        }
        FieldKind::Number { .. } => {
            let number = text.trim().parse::<f64>().ok().and_then(Number::from_f64);
            Value::Number(number.ok_or("must be a number")?)
        }
        // An unchecked box sends nothing; it means false only if the field is required.
        FieldKind::Flag if text == "true" => Value::from(true),
        FieldKind::Flag if field.is_required => Value::from(false),
        FieldKind::Flag => return Ok(None),
        FieldKind::Choice(choices) => {
            let index: Option<usize> = text.parse().ok();
            index.and_then(|index| choices.get(index)).cloned().ok_or("must be one of the options")?
        }
        FieldKind::Lines => text.lines().map(str::trim).filter(|line| !line.is_empty()).collect(),
        FieldKind::Json if is_empty => return Err("is required, as JSON".to_owned()),
        FieldKind::Json => serde_json::from_str(text)
            .map_err(|error| format!("must be valid JSON: {}", json_fault(&error)))?,
        FieldKind::Group(_) => return Ok(None),
    };
    Ok(Some(value))
}

/// The form values for this payload. `None` if the form cannot represent all of it.
pub(crate) fn raw_of(fields: &[Field], payload: &Value) -> Option<RawFields> {
    let mut raw = RawFields::new();
    fill(fields, payload, &mut raw);
    (read(fields, &raw).ok()? == *payload).then_some(raw)
}

fn fill(fields: &[Field], object: &Value, raw: &mut RawFields) {
    for field in fields {
        let Some(value) = object.get(&field.key) else { continue };
        let text = match (&field.kind, value) {
            (FieldKind::Group(inner), value) => {
                fill(inner, value, raw);
                continue;
            }
            (FieldKind::Choice(choices), value) => choices
                .iter()
                .position(|choice| choice == value)
                .map(|index| index.to_string())
                .unwrap_or_default(),
            (FieldKind::Lines, Value::Array(items)) => {
                items.iter().filter_map(Value::as_str).collect::<Vec<_>>().join("\n")
            }
            (FieldKind::Text(_) | FieldKind::Long, Value::String(text)) => text.clone(),
            (_, value) => value.to_string(),
        };
        raw.insert(field.name.clone(), text);
    }
}

#[cfg(test)]
mod tests;
