//! Tests a redactor with every position at which a stream can be divided.

mod cost;
mod surroundings;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::text::hex;

const SECRETS: [&str; 5] =
    ["hunter2-\"quoted\"/ü", "correct horse", "horse battery", "aaaaaa", "line one\nline two"];

fn redactor() -> Redactor {
    Redactor::new(SECRETS, [r"AKIA[A-Z0-9]{16}", r"(?i)bearer \S+"]).unwrap()
}

/// The redacted stream, given in these pieces.
fn run<'a>(redactor: &Redactor, pieces: impl IntoIterator<Item = &'a [u8]>) -> String {
    let mut text = String::new();
    let mut stream = redactor.stream();
    for piece in pieces {
        stream.push(piece, &mut text);
    }
    stream.finish(&mut text);
    text
}

#[test]
fn a_secret_is_found_wherever_the_stream_is_cut() {
    let redactor = redactor();
    let forms = SECRETS.iter().flat_map(|secret| variants::variants(secret.as_bytes()));
    for form in forms {
        let whole = [b"before \xc3\xa9 ".as_slice(), &form, b" after"].concat();
        let expected = "before é [redacted] after";
        for first in 0..=whole.len() {
            assert_eq!(run(&redactor, [&whole[..first], &whole[first..]]), expected, "cut at {first}");
        }
        assert_eq!(run(&redactor, whole.chunks(1)), expected);
    }
}

#[test]
fn a_secret_is_found_at_every_offset_of_what_encodes_it() {
    let redactor = Redactor::new(["s3cr3t-value!"], [""; 0]).unwrap();
    for offset in 0..9 {
        let text = format!("{}s3cr3t-value!{}", "x".repeat(offset), "y".repeat(offset));
        let encoded = [STANDARD.encode(&text), URL_SAFE.encode(&text), hex(text.as_bytes())];
        for encoded in encoded {
            let seen = run(&redactor, [encoded.as_bytes()]);
            assert!(seen.contains(PLACEHOLDER), "{encoded} stayed {seen}");
        }
    }
}

#[test]
fn secrets_that_overlap_are_covered_whole_and_once() {
    let redactor = redactor();
    assert_eq!(run(&redactor, [b"<correct horse battery>".as_slice()]), "<[redacted]>");
    // A secret that overlaps itself repeatedly needs no memory, and becomes one placeholder.
    let long = "a".repeat(100_000);
    assert_eq!(run(&redactor, long.as_bytes().chunks(7)), PLACEHOLDER);
    assert_eq!(run(&redactor, [b"aaaaa".as_slice()]), "aaaaa");
}

#[test]
fn text_that_cannot_be_a_secret_is_not_held_back() {
    let redactor = Redactor::new(["a-very-long-secret-of-some-kind"], [""; 0]).unwrap();
    let (mut stream, mut text) = (redactor.stream(), String::new());
    stream.push(b"a line without an end", &mut text);
    assert_eq!(text, "a line without an ");
    stream.push(b" a-very-", &mut text);
    assert_eq!(text, "a line without an end ");
    stream.push(b"good day", &mut text);
    assert_eq!(text, "a line without an end a-very-good ");
}

#[test]
fn expressions_see_whole_lines_of_any_length() {
    let redactor = redactor();
    assert_eq!(
        run(&redactor, [b"key AKIAABCDEFGHIJKLMNOP\nBearer abc.def\n".as_slice()]),
        "key [redacted]\n[redacted]\n"
    );
    for before in [0, 16 * 1024 - 10, 12 * 1024 - 3, 40_000] {
        let line = format!("{}AKIAABCDEFGHIJKLMNOP{}", "x".repeat(before), "y".repeat(20_000));
        let expected = format!("{}[redacted]{}", "x".repeat(before), "y".repeat(20_000));
        assert_eq!(run(&redactor, line.as_bytes().chunks(1000)), expected);
        assert_eq!(run(&redactor, [line.as_bytes()]), expected);
    }
}

#[test]
fn control_characters_are_replaced_and_never_removed() {
    let redactor = Redactor::new(["secret-word"], [""; 0]).unwrap();
    let hidden = run(&redactor, [b"sec\x1b[0mret-word \x1b]52;c;YQ==\x07 \xc2\x9b31m \xe2\x82".as_slice()]);
    assert_eq!(hidden, "sec�[0mret-word �]52;c;YQ==� �31m �");
}

#[test]
fn a_tail_cut_after_redaction_contains_no_partial_secret() {
    let redactor = Redactor::new(["0123456789abcdef"], [""; 0]).unwrap();
    let output = "x".repeat(50) + "0123456789abcdef" + &"y".repeat(50);
    let clean = run(&redactor, [output.as_bytes()]);
    for limit in 0..120 {
        let tail = text::tail(clean.as_bytes(), limit);
        assert!(!tail.contains("abcdef") && !tail.contains("89abc"), "{tail}");
    }
}

#[test]
fn json_keeps_its_shape_and_loses_its_secrets() {
    let redactor = redactor();
    let value = json!({"correct horse": ["x correct horse y", 1.5, null, {"deep": "aaaaaa"}]});
    let expected = json!({"[redacted]": ["x [redacted] y", 1.5, null, {"deep": "[redacted]"}]});
    assert_eq!(redactor.json(&value), expected);
    assert_eq!(serde_json::from_str::<Value>(&redactor.json_text(&value.to_string())).unwrap(), expected);
    let large = r#"{"n": 123456789012345678901234567890}"#;
    assert_eq!(redactor.json_text(large), large);
    assert_eq!(redactor.json_text(r#"{"a": "hunter2-\u0022quoted\u0022\/\u00fc"}"#), r#"{"a":"[redacted]"}"#);
}

#[test]
fn payloads_hide_the_strings_under_sensitive_keys() {
    let value = json!({"user": "zoe", "api_key": "k-123456", "max_tokens": 5, "Auth": {"X-Secret": ["one-two", {"a": "short"}]}});
    let expected = json!({"user": "zoe", "api_key": "[redacted]", "max_tokens": 5, "Auth": {"X-Secret": ["[redacted]", {"a": "[redacted]"}]}});
    assert_eq!(payload(&value), expected);
    let mut found = secrets_in(&value);
    found.sort_unstable(); // the order of an object's keys is serde_json's choice of features
    assert_eq!(found, ["k-123456", "one-two"]);
}

/// A-403.
#[test]
fn payloads_hide_numbers_under_sensitive_keys_except_counts() {
    let value = json!({"pin": 4711, "password": 4711, "api_key": {"n": [1, 2.5], "set": true, "at": null},
        "secret_account": 12, "max_tokens": 5, "tokenCount": 6, "token-TTL": 7, "tokens": 8,
        "access_tokens": [9, {"count": 1}], "uses_cookies": true});
    let common = json!({"pin": 4711, "password": "[redacted]",
        "api_key": {"n": ["[redacted]", "[redacted]"], "set": true, "at": null},
        "secret_account": "[redacted]", "max_tokens": 5, "tokenCount": 6, "token-TTL": 7, "tokens": 8,
        "access_tokens": ["[redacted]", {"count": "[redacted]"}], "uses_cookies": true});
    assert_eq!(payload(&value), common);
    let rules = Rules::new(&Redaction::new().key("pin").key("max_tokens").key("uses_")).unwrap();
    let mut own = common;
    for name in ["pin", "max_tokens", "uses_cookies"] {
        own[name] = json!("[redacted]");
    }
    assert_eq!(rules.payload(&value), own, "a definition's own keys hide every value");
}

#[test]
fn a_number_is_redacted_if_its_text_is() {
    let rules = Rules::new(&Redaction::new().expression(r"\b\d{16}\b")).unwrap();
    let value = json!({"card": 4_111_111_111_111_111_u64, "n": 4111, "list": [4_111_111_111_111_111_u64]});
    assert_eq!(rules.payload(&value), json!({"card": "[redacted]", "n": 4111, "list": ["[redacted]"]}));
    let redactor = Redactor::new(["998877"], [""; 0]).unwrap();
    assert_eq!(redactor.json_text(r#"[{"pin":998877},1]"#), r#"[{"pin":"[redacted]"},1]"#);
}

#[test]
fn invalid_secrets_and_expressions_are_rejected() {
    assert!(Redactor::new(["short"], [""; 0]).unwrap_err().to_string().contains("must have at least"));
    assert!(Redactor::new([""; 0], ["("]).is_err());
    assert!(Redactor::new([""; 0], ["a*"]).unwrap_err().to_string().contains("empty"));
    assert!(!format!("{:?}", redactor()).contains("horse"));
}

#[test]
fn a_definition_adds_its_own_rules() {
    let redaction = Redaction {
        expressions: vec![r"\bDE\d{20}\b".to_owned()],
        keys: vec!["Card-PIN".to_owned(), "iban".to_owned()],
    };
    let rules = Rules::new(&redaction).unwrap();
    let shown =
        json!({"card_pin": "998877", "note": "to DE12345678901234567890", "password": "hunter22", "n": 1});
    let hidden = json!({"card_pin": "[redacted]", "note": "to [redacted]", "password": "[redacted]", "n": 1});
    assert_eq!(rules.payload(&shown), hidden);
    let base = Redactor::new(["known-to-all"], [""; 0]).unwrap();
    let redactor = rules.redactor(&base, &shown.to_string());
    let input = "998877 hunter22 known-to-all DE12345678901234567890 fine";
    assert_eq!(redactor.text(input), "[redacted] [redacted] [redacted] [redacted] fine");
    assert_eq!(
        Rules::default().redactor(&base, "{}").text(input),
        "998877 hunter22 [redacted] DE12345678901234567890 fine"
    );
}

#[test]
fn invalid_rules_are_rejected_by_name() {
    let expressions = |all: Vec<String>| Redaction { expressions: all, ..Redaction::default() };
    let keys = |all: Vec<String>| Redaction { keys: all, ..Redaction::default() };
    let cases = [
        (expressions(vec!["fine".to_owned(), "(".to_owned()]), "redaction/expressions/1: regex parse error"),
        (expressions(vec!["x*".to_owned()]), "redaction/expressions/0: `x*` matches the empty string"),
        (expressions(vec!["x".repeat(1001)]), "redaction/expressions/0: must have at most 1000 bytes"),
        (expressions(vec![r"\w{500}{500}".to_owned()]), "redaction/expressions/0: "),
        (expressions(vec!["x".to_owned(); 33]), "redaction/expressions: must have at most 32 items"),
        (keys(vec!["x".to_owned(); 33]), "redaction/keys: must have at most 32 items"),
        (keys(vec!["--".to_owned()]), "redaction/keys/0: must contain a letter"),
        (keys(vec!["x".repeat(101)]), "redaction/keys/0: must contain a letter"),
    ];
    for (redaction, expected) in cases {
        let refused = redaction.check().unwrap_err().to_string();
        assert!(refused.starts_with(expected), "{refused}");
    }
    assert!(serde_json::from_value::<Redaction>(json!({"expression": []})).is_err());
    assert!(redaction_is_default(&json!({})));
}

fn redaction_is_default(value: &Value) -> bool {
    serde_json::from_value::<Redaction>(value.clone()).is_ok_and(|redaction| redaction.is_empty())
}

#[test]
fn a_copied_placeholder_is_found_under_sensitive_keys_only() {
    assert_eq!(
        copied_placeholder(&json!({"a": [{"api/key": "[redacted]"}]})).as_deref(),
        Some("/a/0/api~1key")
    );
    assert_eq!(copied_placeholder(&json!({"note": "[redacted]", "api_key": "x [redacted]"})), None);
}

proptest! {
    #[test]
    fn every_way_of_splitting_gives_the_same_output(
        words in prop::collection::vec(prop_oneof![
            prop::sample::select(&SECRETS[..]).prop_map(|s| s.as_bytes().to_vec()),
            prop::sample::select(&SECRETS[..]).prop_flat_map(|s| (0..s.len()).prop_map(move |n| s.as_bytes()[..n].to_vec())),
            prop::collection::vec(any::<u8>(), 0..6),
            Just(b"AKIAABCDEFGHIJKLMNOP".to_vec()),
            Just(b"\nBearer x".to_vec()),
            Just(b"aa".to_vec()),
        ], 0..12),
        cuts in prop::collection::vec(0..400_usize, 0..12),
    ) {
        let redactor = redactor();
        let whole = words.concat();
        let expected = run(&redactor, [whole.as_slice()]);
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(whole.len())).collect();
        cuts.sort_unstable();
        let mut pieces = Vec::new();
        let mut from = 0;
        for cut in cuts {
            pieces.push(&whole[from..cut]);
            from = cut;
        }
        pieces.push(&whole[from..]);
        prop_assert_eq!(&run(&redactor, pieces), &expected);
        for secret in SECRETS {
            prop_assert!(!expected.contains(secret), "{:?} contains {:?}", expected, secret);
        }
    }
}
