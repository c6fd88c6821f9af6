//! Templates and payloads that have broken other tools.

use super::*;

fn part(written: &[&str], when: When) -> Part {
    let elements = written.iter().map(|one| Element::parse(one).unwrap()).collect();
    Part { elements, when, rule: Rule::default() }
}

fn always(written: &str) -> Part {
    part(&[written], When::Always)
}

fn built(parts: &[Part], payload: &str) -> Result<Vec<String>, String> {
    build(parts, &PlaceholderValues { tenant: Uuid::nil(), job: Uuid::max(), attempt: 3, payload })
}

#[test]
fn placeholders_fill_whole_elements() {
    let parts =
        ["/bin/x", "--tenant", "{tenant.id}", "--job={job.id}", "{attempt}", "--p={payload.a.b}", "{{x}}"];
    let argv = built(&parts.map(always), r#"{"a": {"b": "one two\n$(id) -x"}}"#).unwrap();
    let expected = [
        "/bin/x",
        "--tenant",
        &Uuid::nil().to_string(),
        &format!("--job={}", Uuid::max()),
        "3",
        "--p=one two\n$(id) -x",
        "{x}",
    ];
    assert_eq!(argv, expected);
}

#[test]
fn numbers_keep_every_digit() {
    let payload = r#"{"n": 123456789012345678901234567890.10, "t": true, "s": "\u0041\""}"#;
    let argv = built(&["{payload.n}", "{payload.t}", "{payload.s}"].map(always), payload).unwrap();
    assert_eq!(argv, ["123456789012345678901234567890.10", "true", "A\""]);
}

#[test]
fn a_missing_value_is_an_error_or_omitted() {
    assert_eq!(built(&[always("{payload.a}")], "{}").unwrap_err(), "payload.a is missing");
    assert_eq!(built(&[always("{payload.a}")], r#"{"a": null}"#).unwrap_err(), "payload.a is missing");
    let optional = [part(&["--a", "{payload.a}"], When::Present), always("end")];
    assert_eq!(built(&optional, "{}").unwrap(), ["end"]);
    assert_eq!(built(&optional, r#"{"a": ""}"#).unwrap(), ["--a", "", "end"]);
}

#[test]
fn lists_are_repeated_only_where_declared() {
    let each = [part(&["--tag", "{payload.tags}"], When::Each)];
    assert_eq!(built(&each, r#"{"tags": ["a", 1]}"#).unwrap(), ["--tag", "a", "--tag", "1"]);
    assert_eq!(built(&each, "{}").unwrap(), Vec::<String>::new());
    assert_eq!(built(&each, r#"{"tags": "a"}"#).unwrap_err(), "payload.tags must be a list");
    assert_eq!(built(&[always("{payload.tags}")], r#"{"tags": []}"#).unwrap_err(), "payload.tags is a list");
    assert_eq!(
        built(&[always("{payload.tags}")], r#"{"tags": {}}"#).unwrap_err(),
        "payload.tags is an object"
    );
    assert_eq!(
        built(&each, r#"{"tags": ["-x"]}"#).unwrap_err(),
        "payload.tags starts with `-`, which the command would read as an option"
    );
}

#[test]
fn a_leading_dash_is_rejected_unless_declared_or_after_dashes() {
    for value in ["-", "--", "--config=/etc/x", "-rf"] {
        let payload = serde_json::json!({ "a": value }).to_string();
        assert!(built(&[always("{payload.a}")], &payload).unwrap_err().contains("starts with `-`"));
        assert_eq!(built(&[always("--a={payload.a}")], &payload).unwrap(), [format!("--a={value}")]);
        assert_eq!(built(&["x", "--", "{payload.a}"].map(always), &payload).unwrap()[2], value);
        let mut allowed = always("{payload.a}");
        allowed.rule.may_begin_with_dash = true;
        assert_eq!(built(&[allowed], &payload).unwrap(), [value]);
    }
    // Only a literal `--` counts.
    let smuggled = ["x", "{payload.a}", "{payload.b}"].map(always);
    assert!(built(&smuggled, r#"{"a": "--", "b": "-x"}"#).is_err());
}

#[test]
fn nul_and_long_values_are_rejected() {
    assert_eq!(
        built(&[always("{payload.a}")], r#"{"a": "x\u0000y"}"#).unwrap_err(),
        "payload.a contains NUL"
    );
    let long = serde_json::json!({ "a": "x".repeat(ELEMENT_BYTES + 1) }).to_string();
    assert!(built(&[always("{payload.a}")], &long).unwrap_err().contains("are allowed"));
    let many = serde_json::json!({ "a": vec!["x"; MAX_ELEMENTS + 1] }).to_string();
    assert!(built(&[part(&["{payload.a}"], When::Each)], &many).unwrap_err().contains("arguments"));
}

#[test]
fn a_value_must_be_among_those_allowed() {
    let mut chosen = always("{payload.a}");
    chosen.rule.one_of = Some(vec!["siglip".to_owned()]);
    assert_eq!(built(&[chosen.clone()], r#"{"a": "siglip"}"#).unwrap(), ["siglip"]);
    assert!(built(&[chosen], r#"{"a": "other"}"#).is_err());
    let mut formed = always("{payload.a}");
    formed.rule.pattern = Some(Regex::new("^(?:[a-z]+)$").unwrap());
    assert!(built(&[formed.clone()], r#"{"a": "abc"}"#).is_ok());
    assert!(built(&[formed], r#"{"a": "abc\n"}"#).is_err());
}

#[test]
fn an_invalid_template_is_rejected() {
    for bad in [
        "{payload}",
        "{env.HOME}",
        "a{payload.x}",
        "{payload.x}b",
        "{payload.x}{payload.y}",
        "{payload.x",
        "{}",
        "{payload.a..b}",
        "a\0",
    ] {
        assert!(Element::parse(bad).is_err(), "{bad}");
    }
    assert!(part(&["--x"], When::Present).check().is_err());
    assert!(part(&["{payload.a}", "{payload.b}"], When::Each).check().is_err());
}
