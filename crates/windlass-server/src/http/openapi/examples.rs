//! Examples of requests and responses, generated from the schemas: the example of the type or field, else a plausible value of its
//! type. So every operation has one, and none can become outdated.

use serde_json::{Map, Value, json};

/// A response, with every field.
pub(super) fn response(schema: &Value, schemas: &Value) -> Value {
    Generator { schemas, is_request: false }.of(schema)
}

/// A request body: the required fields, and those with an example.
pub(super) fn request(schema: &Value, schemas: &Value) -> Value {
    Generator { schemas, is_request: true }.of(schema)
}

struct Generator<'a> {
    schemas: &'a Value,
    is_request: bool,
}

impl Generator<'_> {
    fn of(&self, schema: &Value) -> Value {
        if let Some(example) = schema.get("example") {
            return example.clone();
        }
        if let Some(name) = schema["$ref"].as_str().and_then(|reference| reference.rsplit('/').next()) {
            return self.of(&self.schemas[name]);
        }
        for choice in ["oneOf", "anyOf"] {
            let of = schema[choice].as_array().and_then(|all| all.iter().find(|one| one["type"] != "null"));
            if let Some(one) = of {
                return self.of(one);
            }
        }
        if let Some(parts) = schema["allOf"].as_array() {
            return Value::Object(parts.iter().flat_map(|part| members(self.of(part))).collect());
        }
        if let Some(first) = schema["enum"].get(0) {
            return first.clone();
        }
        match kind(&schema["type"]) {
            "object" => self.object(schema),
            "array" => json!([self.of(&schema["items"])]),
            "integer" => schema.get("minimum").cloned().unwrap_or(json!(3)),
            "number" => json!(12.5),
            "boolean" => json!(true),
            "string" => json!(text(&schema["format"])),
            _ => json!({}),
        }
    }

    fn object(&self, schema: &Value) -> Value {
        let is_required = |name: &String| {
            schema["required"].as_array().is_some_and(|required| required.contains(&json!(name)))
        };
        let mut made = Map::new();
        for (name, field) in schema["properties"].as_object().into_iter().flatten() {
            if !self.is_request || is_required(name) || field.get("example").is_some() {
                made.insert(name.clone(), self.of(field));
            }
        }
        if let Some(any) = schema.get("additionalProperties").filter(|any| any.is_object()) {
            made.insert("default".to_owned(), self.of(any));
        }
        Value::Object(made)
    }
}

fn members(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(members) => members,
        _ => Map::new(),
    }
}

/// Returns the type of a field, without `null`.
fn kind(kind: &Value) -> &str {
    let one = kind.as_array().and_then(|kinds| kinds.iter().find(|kind| *kind != "null"));
    one.unwrap_or(kind).as_str().unwrap_or_default()
}

fn text(format: &Value) -> &'static str {
    match format.as_str() {
        Some("uuid") => "0198c3a4-7f1e-7d54-8b46-9ec2e6a37f09",
        Some("date-time") => "2026-02-16T10:30:00Z",
        Some("email") => "ada@example.com",
        Some("password") => "correct horse battery",
        _ => "text",
    }
}
