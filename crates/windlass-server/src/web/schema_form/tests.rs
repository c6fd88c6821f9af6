use std::collections::HashMap;

use serde_json::json;

use super::{FieldKind, RawFields, draw, fields, raw_of, read};

fn schema() -> serde_json::Value {
    json!({
        "type": "object",
        "properties": {
            "path_prefix": {"type": "string", "description": "Where to begin"},
            "provider_id": {"type": "string", "format": "uuid"},
            "limit": {"type": "integer", "minimum": 1},
            "ratio": {"type": "number"},
            "deep": {"type": "boolean"},
            "mode": {"enum": ["fast", "safe", 3]},
            "paths": {"type": "array", "items": {"type": "string"}},
            "window": {"type": "object", "properties": {"from": {"type": "string"}}, "required": ["from"]},
            "odd/one~": {"oneOf": [{"type": "string"}, {"type": "null"}]}
        },
        "required": ["provider_id"]
    })
}

fn raw(pairs: &[(&str, &str)]) -> RawFields {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

#[test]
fn required_fields_come_first_and_every_property_has_one() {
    let fields = fields(&schema());
    assert_eq!(fields[0].label, "provider_id");
    assert_eq!(fields.len(), 9);
    assert!(fields.iter().any(|field| field.name == "/odd~1one~0" && field.kind == FieldKind::Json));
}

#[test]
fn the_input_becomes_a_typed_payload() {
    let fields = fields(&schema());
    let filled = raw(&[
        ("/provider_id", "abc"),
        ("/limit", "7"),
        ("/ratio", "0.5"),
        ("/deep", "true"),
        ("/mode", "2"),
        ("/paths", "a\r\n\r\n b \n"),
        ("/window/from", "now"),
        ("/odd~1one~0", "null"),
        ("/path_prefix", ""),
    ]);
    let payload = json!({
        "provider_id": "abc", "limit": 7, "ratio": 0.5, "deep": true, "mode": 3, "paths": ["a", "b"],
        "window": {"from": "now"}, "odd/one~": null
    });
    assert_eq!(read(&fields, &filled).unwrap(), payload);
    assert_eq!(read(&fields, &raw_of(&fields, &payload).unwrap()).unwrap(), payload);
    assert_eq!(
        raw_of(&fields, &json!({"provider_id": "a", "unknown": 1})),
        None,
        "the form does not allow it"
    );
}

#[test]
fn each_error_is_shown_at_its_field() {
    let fields = fields(&schema());
    let wrong =
        read(&fields, &raw(&[("/limit", "many"), ("/ratio", "x"), ("/odd~1one~0", "{"), ("/mode", "9")]))
            .unwrap_err();
    let mut names: Vec<&str> = wrong.keys().map(String::as_str).collect();
    names.sort_unstable();
    assert_eq!(names, ["/limit", "/mode", "/odd~1one~0", "/provider_id", "/ratio"]);
}

#[test]
fn hostile_keys_titles_and_values_are_escaped() {
    let hostile = "\"><script>alert(1)</script>";
    let schema = json!({"properties": {hostile: {"type": "string", "title": hostile, "description": hostile, "enum": [hostile]}}});
    let fields = fields(&schema);
    let html = draw(
        &fields,
        &raw(&[(&fields[0].name, hostile)]),
        &HashMap::from([(fields[0].name.clone(), hostile.to_owned())]),
    );
    let html = html[0].html().unwrap().to_string();
    assert!(!html.contains("<script>"), "{html}");
    assert_eq!(html.matches("&#60;script&#62;").count(), 6, "{html}");
}
