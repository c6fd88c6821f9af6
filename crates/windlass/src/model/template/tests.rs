use proptest::prelude::*;
use serde_json::{Value, json};

use super::Template;

const ROOTS: [&str; 2] = ["event", "meta"];

#[expect(clippy::needless_pass_by_value, reason = "the callers write literals")]
fn render(template: Value, event: Value) -> Result<Value, String> {
    let meta = json!({"name": "list.created"});
    Template::parse(&template, &ROOTS)
        .and_then(|template| {
            let rendered = template.render(&[("event", &event), ("meta", &meta)], usize::MAX);
            rendered.expect("there is room for any payload").payload
        })
        .map_err(|error| error.to_string())
}

/// The body of document 004.
#[test]
fn a_template_takes_its_values_from_the_event() {
    let template = json!({"provider_id": "{{event.provider_id}}", "path_prefix": "{{event.folder_path}}"});
    let event = json!({"provider_id": "p1", "folder_path": "/photos", "other": 1});
    assert_eq!(render(template, event).unwrap(), json!({"provider_id": "p1", "path_prefix": "/photos"}));
}

#[test]
fn a_single_placeholder_keeps_the_type() {
    let event =
        json!({"size": 12, "ratio": 1.5, "ok": true, "none": null, "tags": ["a", 1], "owner": {"id": 7}});
    for (name, value) in event.as_object().unwrap() {
        assert_eq!(render(json!(format!("{{{{event.{name}}}}}")), event.clone()).unwrap(), *value);
    }
    assert_eq!(render(json!("{{ event.tags.1 }}"), event.clone()).unwrap(), json!(1));
    assert_eq!(render(json!("{{event}}"), event.clone()).unwrap(), event);
    let mixed = json!(["{{meta.name}}: {{event.size}} of {{event.owner.id}}, {{event.ok}}"]);
    assert_eq!(render(mixed, event).unwrap(), json!(["list.created: 12 of 7, true"]));
}

/// A value of the event that is redacted because of its name stays redacted in the job.
#[test]
fn a_value_with_a_secret_name_keeps_such_a_name() {
    let event = json!({"password": "hunter22", "auth": {"api-key": ["k3y-of-zoe"]}, "all": {"token": "t0ken-of-zoe"}});
    for text in [
        "{{event.password}}",
        "as {{event.password}}",
        "{{event.auth.api-key.0}}",
        "{{event.all.token | default(1)}}",
    ] {
        let refused = render(json!({"a": [{"x": text}]}), event.clone()).unwrap_err();
        assert!(refused.starts_with("payload_template/a/0/x") && refused.contains("hidden"), "{refused}");
    }
    let kept = json!({"password": "{{event.password}}", "credentials": {"x": ["{{event.auth.api-key.0}}"]}, "all": "{{event.all}}"});
    let rendered = json!({"password": "hunter22", "credentials": {"x": ["k3y-of-zoe"]}, "all": {"token": "t0ken-of-zoe"}});
    assert_eq!(render(kept, event).unwrap(), rendered);
}

/// The number of a count is shown.
#[test]
fn a_secret_number_does_not_get_the_name_of_a_count() {
    let event = json!({"password": 4711, "max_tokens": 5});
    let refused = render(json!({"max_tokens": "{{event.password}}"}), event.clone()).unwrap_err();
    assert!(refused.starts_with("payload_template/max_tokens") && refused.contains("hidden"), "{refused}");
    let kept = json!({"tokens": "{{event.max_tokens}}", "api_tokens": ["{{event.password}}"]});
    assert_eq!(render(kept, event).unwrap(), json!({"tokens": 5, "api_tokens": [4711]}));
}

#[test]
fn a_missing_field_is_an_error_with_its_path_unless_there_is_a_default() {
    let error = render(json!({"a": {"b/c": "{{event.size}}"}}), json!({})).unwrap_err();
    assert_eq!(error, "payload_template/a/b~1c: event.size is missing and has no default");
    let defaults = json!([
        "{{event.size | default(0)}}",
        "{{event.a|default({\"x\": \"}}\"})}}",
        "{{event.b | default(\"a|b\")}}"
    ]);
    assert_eq!(render(defaults, json!({})).unwrap(), json!([0, {"x": "}}"}, "a|b"]));
    assert_eq!(render(json!("{{event.size | default(0)}}"), json!({"size": null})).unwrap(), Value::Null);
}

#[test]
fn an_invalid_template_is_rejected_when_parsed() {
    for (template, part) in [
        ("{{event.a", "without a matching }}"),
        ("{{}}", "is not a path"),
        ("{{event.a + 1}}", "is not a path"),
        ("{{event.a()}}", "is not a path"),
        ("{{secrets.key}}", "does not start with one of event, meta"),
        ("{{event.a | upper}}", "default(JSON)"),
        ("{{event..a}}", "is not a path"),
    ] {
        let error = Template::parse(&json!({"x": template}), &ROOTS).unwrap_err().to_string();
        assert!(error.starts_with("payload_template/x: ") && error.contains(part), "{template}: {error}");
    }
    let error = render(json!("a {{event.list}}"), json!({"list": []})).unwrap_err();
    assert!(error.contains("event.list is a list, which cannot be part of a longer string"), "{error}");
}

#[test]
fn braces_can_be_written_as_a_literal() {
    assert_eq!(render(json!("{{\"{{\"}}event.a}}"), json!({})).unwrap(), json!("{{event.a}}"));
}

/// a large value that is inserted many times does not result in a larger payload.
#[test]
fn the_output_is_bounded() {
    let event = json!({"text": "x".repeat(600_000)});
    let many: Vec<&str> = vec!["{{event.text}}"; 1000];
    assert!(render(json!(many), event.clone()).unwrap_err().contains("more than 1048576 bytes"));
    assert!(render(json!(["{{event.text}}"]), event).is_ok());
    let mut deep = json!("{{event.a}}");
    for _ in 0..40 {
        deep = json!([deep]);
    }
    assert!(render(deep, json!({"a": 1})).unwrap_err().contains("nested more than"));
}

/// what is rendered is counted as it is written, so rendering stops where the room ends and not after it.
#[test]
fn rendering_stops_at_exactly_the_bytes_that_there_is_room_for() {
    let event = json!({"text": "a \"quoted\"\nline\u{1}é", "size": -12.5, "list": [1, {"b\t": null}, [], {}], "yes": true});
    let template = json!({"fix\"ed": [1, null, "x\ty", {}, []], "text": "<{{event.text}}> {{event.size}} {{event.yes}}",
        "{{": "{{event.list}}", "default": "{{event.none | default([\"\\\\\"])}}", "whole": "{{event.text}}"});
    let parsed = Template::parse(&template, &ROOTS).unwrap();
    let render = |room| parsed.render(&[("event", &event)], room);
    let rendered = render(usize::MAX).unwrap();
    assert_eq!(rendered.payload.unwrap().to_string().len(), rendered.bytes);
    assert!(render(rendered.bytes).is_some());
    assert!(render(rendered.bytes - 1).is_none());
    assert!(render(0).is_none());
}

/// what was built before the error is counted too.
#[test]
fn a_rendering_that_fails_reports_what_it_rendered() {
    let event = json!({"text": "x".repeat(600_000)});
    for (template, bytes) in [
        (json!(["{{event.text}}", "{{event.none}}"]), 600_000),
        (json!(["{{event.text}}", "{{event.text}}"]), 1 << 20),
    ] {
        let rendered =
            Template::parse(&template, &ROOTS).unwrap().render(&[("event", &event)], usize::MAX).unwrap();
        assert!(rendered.payload.is_err());
        assert!((bytes..=bytes + 10).contains(&rendered.bytes), "{}", rendered.bytes);
    }
}

proptest! {
    /// values are inserted once and never parsed as a template, and field names never change.
    #[test]
    fn values_are_never_expanded_again_and_names_never_change(text in ".{0,60}", name in "[a-z{}.|]{1,12}") {
        let hostile = format!("{text}{{{{event.secret}}}}{{{{meta.name | default(1)}}}}");
        let event = json!({"a": hostile, "secret": "s3cret"});
        let template = json!({name.clone(): "{{event.a}}", format!("{name}_"): "<{{event.a}}>"});
        let rendered = render(template.clone(), event).unwrap();
        prop_assert_eq!(&rendered[&name], &json!(hostile.clone()));
        prop_assert_eq!(&rendered[format!("{name}_")], &json!(format!("<{hostile}>")));
        let names = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
        prop_assert_eq!(names(&rendered), names(&template));
    }

    #[test]
    fn any_text_is_parsed_or_rejected(text in ".{0,80}", braces in "[{}|\"ev.a()]{0,30}") {
        let template = json!(format!("{text}{braces}"));
        let _ = render(template, json!({"a": 1}));
    }
}
