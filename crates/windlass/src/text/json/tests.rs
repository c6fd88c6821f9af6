use proptest::prelude::*;
use serde_json::Value;

use super::*;

fn refused(text: &str) -> (String, JsonProblem) {
    let JsonRefused { pointer, problem } = check(text, &JsonLimits::default()).unwrap_err();
    (pointer, problem)
}

fn accepts(text: &str) -> bool {
    check(text, &JsonLimits::default()).is_ok()
}

#[test]
fn ordinary_documents_pass() {
    for text in [
        "null",
        " true ",
        "false",
        "0",
        "-0",
        "-1.5e-7",
        "1E+308",
        "5e-324",
        "0e0",
        "18446744073709551615",
        r#""""#,
        r#""tab \t quote \" slash \/ euro \u20AC smile \ud83d\ude00 é 😀""#,
        "[]",
        "{}",
        "\r\n[ 1 ,\t[ ] , { } ]\n",
        r#"{"":{"a":[1,2,{"b":null}]},"a":1,"a":2}"#,
    ] {
        assert_eq!(check(text, &JsonLimits::default()), Ok(()), "{text}");
        assert!(serde_json::from_str::<Value>(text).is_ok(), "{text}");
    }
}

#[test]
fn of_a_repeated_name_the_last_one_is_kept() {
    let kept = |text: &str| checked(text.to_owned(), &JsonLimits::default()).unwrap();
    for as_written in ["[1, 1]", r#"{"b" : 1.10, "a": {"b": {"a": "\u0061"}}}"#, r#"[{"a":1},{"a":2}]"#] {
        assert_eq!(kept(as_written), as_written);
    }
    for (text, once) in [
        (r#"{"a":1,"b":{"a":1},"a":2}"#, r#"{"a":2,"b":{"a":1}}"#),
        (r#"[0,{"x":{"a":1.10,"a":12345678901234567890.10}}]"#, r#"[0,{"x":{"a":12345678901234567890.10}}]"#),
        (r#"{"a":"x","\u0061":"\""}"#, r#"{"a":"\""}"#),
        (r#"{"a\"b":1,"a\"b":[]}"#, r#"{"a\"b":[]}"#),
    ] {
        assert_eq!(kept(text), once);
    }
}

#[test]
fn invalid_json_is_rejected_as_by_the_parser() {
    for text in [
        "",
        " ",
        "nul",
        "nullx",
        "tru",
        "True",
        "NaN",
        "-",
        "+1",
        "01",
        "-01",
        "1.",
        ".5",
        "1e",
        "1e+",
        "1 2",
        "0x10",
        "[",
        "[1",
        "[1,",
        "[1,]",
        "[,1]",
        "[1 2]",
        "]",
        "{",
        "{]",
        "[}",
        r#"{"a"}"#,
        r#"{"a":}"#,
        r#"{"a":1,}"#,
        r#"{"a" 1}"#,
        r#"{a:1}"#,
        r#"{1:1}"#,
        r#"{'a':1}"#,
        r#"""#,
        r#""\"#,
        r#""\x""#,
        r#""\u12""#,
        r#""\u12g4""#,
        "\"\t\"",
        "\"\n\"",
        "\"\u{0}\"",
        "\u{feff}{}",
        "\u{a0}1",
        "// 1",
    ] {
        assert!(!accepts(text), "{text}");
        assert!(serde_json::from_str::<Value>(text).is_err(), "{text}");
    }
}

#[test]
fn an_error_points_to_its_place() {
    let nul = JsonProblem::Nul;
    assert_eq!(refused(r#"{"a":[1,{"b/c":"x\u0000"}]}"#), ("/a/1/b~1c".into(), nul));
    assert_eq!(refused(r#"{"m~n":{"\u0000":1}}"#), ("/m~0n".into(), nul));
    assert_eq!(refused(r#"["\u0000"]"#), ("/0".into(), nul));
    assert_eq!(refused(r#""\u0000""#), (String::new(), nul));
    assert_eq!(refused(r#"{"\u001b[2J":1e999}"#), ("/\u{fffd}[2J".into(), JsonProblem::Number));
    let long = format!(r#"{{"{}":nope}}"#, "k".repeat(5000));
    assert_eq!(refused(&long).0, format!("/{}…", "k".repeat(64)));
    let syntax = JsonProblem::Syntax { at: 6, expected: "a value" };
    assert_eq!(refused(r#"{"a": ?}"#), ("/a".into(), syntax));
    let shown = check("[1e999]", &JsonLimits::default()).unwrap_err().to_string();
    assert!(shown.starts_with("number is longer than 64") && shown.ends_with("(at /0)"), "{shown}");
}

#[test]
fn half_a_surrogate_pair_is_rejected() {
    for text in [
        r#""\ud800""#,
        r#""\udc00""#,
        r#""\ud800x""#,
        r#""\ud800\n""#,
        r#""\ud800\ud800""#,
        r#""\udc00\ud800""#,
    ] {
        assert_eq!(refused(text).1, JsonProblem::LoneSurrogate, "{text}");
    }
    assert_eq!(refused(r#""\ud800\u0000""#).1, JsonProblem::LoneSurrogate);
}

#[test]
fn a_number_that_postgres_would_expand_is_rejected() {
    let digits = |count| "9".repeat(count);
    assert!(accepts(&digits(64)));
    for number in
        ["1e309", "-1e309", "1e131071", "1e-325", "0e-16000", "0e99999999999", "0.0e401", "1e4294967296"]
    {
        assert_eq!(refused(number).1, JsonProblem::Number, "{number}");
    }
    for number in [digits(65), format!("0.{}", digits(63)), format!("{}e1", digits(63))] {
        assert_eq!(refused(&number).1, JsonProblem::Number, "{number}");
    }
}

#[test]
fn depth_is_limited_and_no_depth_can_exhaust_the_stack() {
    let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    assert!(accepts(&nested(32)));
    let (pointer, problem) = refused(&nested(33));
    assert_eq!((pointer, problem), ("/0".repeat(32), JsonProblem::TooDeep { limit: 32 }));
    assert_eq!(refused(&"{\"a\":".repeat(100_000)).1, JsonProblem::TooDeep { limit: 32 });

    let boundless = JsonLimits { max_depth: usize::MAX, ..JsonLimits::default() };
    assert_eq!(check(&nested(127), &boundless), Ok(()));
    assert!(serde_json::from_str::<Value>(&nested(127)).is_ok());
    assert!(check(&nested(128), &boundless).is_err());
}

#[test]
fn size_and_number_of_values_are_limited() {
    let limits = JsonLimits { max_bytes: 20, max_nodes: 4, ..JsonLimits::default() };
    assert_eq!(check("[1,2,3]", &limits), Ok(()));
    let problem = JsonProblem::TooManyValues { limit: 4 };
    assert_eq!(check("[1,2,3,4]", &limits), Err(JsonRefused { pointer: "/3".into(), problem }));
    assert_eq!(check(&format!("\"{}\"", "x".repeat(18)), &limits), Ok(()));
    let problem = JsonProblem::TooLarge { bytes: 21, limit: 20 };
    assert_eq!(check(&" ".repeat(21), &limits), Err(JsonRefused { pointer: String::new(), problem }));
}

/// Prints the time that the module comment states; to measure it:
/// `cargo test --release -p windlass --lib quickly -- --nocapture`.
#[test]
fn a_small_payload_is_checked_quickly() {
    let payload = r#"{"user":{"id":8812,"email":"someone@example.com","roles":["admin","editor"]},"order":{"total":129.95,"currency":"EUR","lines":[{"sku":"A-1","n":2},{"sku":"B-77","n":1}]},"note":"leave at the door"}"#;
    let rounds = 100_000_u32;
    let start = std::time::Instant::now();
    for _ in 0..rounds {
        check(std::hint::black_box(payload), &JsonLimits::default()).unwrap();
    }
    println!("{} bytes: {:?} per check", payload.len(), start.elapsed() / rounds);
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        prop::num::f64::NORMAL.prop_map(Value::from),
        "[^\\x00]{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 64, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::hash_map("[^\\x00]{0,6}", inner, 0..6)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn all_output_of_the_serializer_passes(value in any_json()) {
        prop_assert!(accepts(&value.to_string()));
        prop_assert!(accepts(&serde_json::to_string_pretty(&value).unwrap()));
    }

    #[test]
    fn damaged_documents_get_the_same_verdict_as_by_the_parser(
        value in any_json(),
        cut in any::<prop::sample::Index>(),
        junk in "[\\[\\]{}:,\"0-9a-z\\\\ .+-]{0,3}",
    ) {
        let mut text: Vec<char> = value.to_string().chars().collect();
        let at = cut.index(text.len());
        text.splice(at..(at + 1).min(text.len()), junk.chars());
        let text: String = text.into_iter().collect();
        let parsed = serde_json::from_str::<Value>(&text);
        match check(&text, &JsonLimits::default()) {
            Ok(()) => prop_assert!(parsed.is_ok(), "{}", text),
            Err(JsonRefused { pointer: _, problem: JsonProblem::Syntax { .. } | JsonProblem::LoneSurrogate }) => {
                prop_assert!(parsed.is_err(), "{}", text);
            }
            Err(_) => (),
        }
    }

    #[test]
    fn any_text_has_a_result(text in ".{0,200}") {
        let accepted = accepts(&text);
        prop_assert!(!accepted || serde_json::from_str::<Value>(&text).is_ok());
    }

    #[test]
    fn a_pointer_finds_its_place(value in any_json()) {
        let with_nul = serde_json::json!({ "outer": [value, "\0"] });
        let refusal = check(&with_nul.to_string(), &JsonLimits::default()).unwrap_err();
        prop_assert_eq!(with_nul.pointer(&refusal.pointer), Some(&Value::from("\0")));
    }
}
