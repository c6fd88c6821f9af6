//! The cost of secrets, counted, and a comparison of the automaton with a simple search.

use std::fmt::Write;

use super::*;
use crate::text::redact::variants::variants;

/// Searches for every form of every secret at every position; overlapping matches become one placeholder.
fn simply(secrets: &[Vec<u8>], text: &[u8]) -> Vec<u8> {
    let mut found: Vec<(usize, usize)> = Vec::new();
    for form in secrets.iter().flat_map(|secret| variants(secret)) {
        let starts = (0..text.len()).filter(|&at| text[at..].starts_with(&form));
        found.extend(starts.map(|at| (at, at + form.len())));
    }
    found.sort_unstable();
    let (mut clean, mut done) = (Vec::new(), 0);
    for (start, end) in found {
        if start >= done {
            clean.extend_from_slice(&text[done..start]);
            clean.extend_from_slice(PLACEHOLDER.as_bytes());
        }
        done = done.max(end);
    }
    clean.extend_from_slice(&text[done..]);
    clean
}

fn streamed(values: &Values, text: &[u8], piece: usize) -> Vec<u8> {
    let (mut stream, mut clean) = (ValueStream::new(values), Vec::new());
    text.chunks(piece).for_each(|bytes| stream.push(bytes, &mut clean));
    stream.finish(&mut clean);
    clean
}

/// Few letters, so that secrets overlap each other and themselves.
fn letters(most: usize) -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(prop::sample::select(b"ab61/".to_vec()), 6..most)
}

proptest! {
    #[test]
    fn the_automaton_finds_what_a_simple_search_finds(
        first in prop::collection::vec(letters(10), 0..4),
        second in prop::collection::vec(letters(10), 0..3),
        filler in letters(60),
        order in prop::collection::vec(0..8_usize, 0..10),
        piece in 1..9_usize,
    ) {
        let all: Vec<Vec<u8>> = first.iter().chain(&second).cloned().collect();
        let mut text = filler.clone();
        for which in order {
            match all.get(which) {
                Some(secret) => text.extend_from_slice(secret),
                None => text.extend_from_slice(&filler[..which.min(filler.len())]),
            }
        }
        // In two sets, like the secrets of a worker and those of a job.
        let values = Values::new(first).and(&Values::new(second));
        let shown = |text: &[u8]| String::from_utf8_lossy(text).into_owned();
        prop_assert_eq!(shown(&streamed(&values, &text, piece)), shown(&simply(&all, &text)));
    }
}

/// The most expensive texts within the limits: every encoder writes them differently.
fn worst(count: usize, length: usize) -> Vec<Vec<u8>> {
    let secret = |which: usize| {
        let mut text = format!("{which}");
        while text.len() < length {
            text.push_str("/:@!$&'()*+,;=? ü");
        }
        text.truncate((0..=length).rev().find(|at| text.is_char_boundary(*at)).unwrap());
        text.into_bytes()
    };
    (0..count).map(secret).collect()
}

#[test]
fn the_cost_of_building_is_linear_in_the_length_of_the_secrets() {
    // Twice the size costs twice as much, and the maximum stays below a hundred nodes per byte.
    let costs = [1, 2, 4].map(|times| Values::new(worst(times, MAX_SECRET_LENGTH)).nodes());
    assert!(costs[1] <= 2 * costs[0] + 100 && costs[2] <= 2 * costs[1] + 100, "{costs:?}");
    assert!(costs[2] <= 100 * MAX_SECRET_BYTES, "{costs:?}");
    let many = Values::new(worst(MAX_SECRETS, MAX_SECRET_BYTES / MAX_SECRETS)).nodes();
    assert!(many <= 100 * MAX_SECRET_BYTES, "{many}");
    // Each is a suffix of the next, which is the worst case for automata that list every match.
    let nested: Vec<Vec<u8>> = (MIN_SECRET_LENGTH..180).map(|length| vec![b'a'; length]).collect();
    let bytes: usize = nested.iter().flat_map(|secret| variants(secret)).map(|form| form.len()).sum();
    assert!(Values::new(nested).nodes() <= bytes + 1);
}

#[test]
fn the_secrets_of_a_worker_are_not_rebuilt_for_a_job() {
    let base = Redactor::new(["known-to-all-of-them"], [""; 0]).unwrap();
    let job = base.with_values(["only-in-this-job"]);
    let alone = Redactor::default().with_values(["only-in-this-job"]);
    assert_eq!(job.values.nodes(), base.values.nodes() + alone.values.nodes());
    assert_eq!(job.and(&base).values.nodes(), job.values.nodes());
    assert_eq!(job.text("known-to-all-of-them, only-in-this-job"), "[redacted], [redacted]");
}

#[test]
fn more_secrets_than_can_be_searched_for_withhold_everything() {
    let payload = |texts: Vec<String>| json!({"note": "plain", "tokens": texts}).to_string();
    let distinct = |count: usize| (0..count).map(|which| format!("secret-{which}")).collect::<Vec<_>>();
    let too_much = [
        (distinct(MAX_SECRETS + 1), "has 257 values under names such as `password` or `token`; at most 256"),
        (vec!["x".repeat(MAX_SECRET_LENGTH + 1)], "has a value of 4097 bytes"),
        ((0..5).map(|n| format!("{n}{}", "x".repeat(4000))).collect(), "has values of 20005 bytes"),
    ];
    for (texts, problem) in too_much {
        let payload = payload(texts);
        let refused = check_amount(&payload).unwrap_err().to_string();
        assert!(refused.starts_with(&format!("payload: {problem}")), "{refused}");
        let redactor = Rules::default().redactor(&Redactor::default(), &payload);
        assert!(!redactor.is_empty() && redactor.finds_in("anything"));
        assert_eq!(redactor.text("anything"), WITHHELD);
        assert_eq!(redactor.text(""), "");
        assert_eq!(redactor.json(&json!({"a": 1})), json!(WITHHELD));
        assert_eq!(redactor.json_text("{\"a\": 1}"), json!(WITHHELD).to_string());
        assert_eq!(run(&redactor, [b"one".as_slice(), b"two"]), format!("{WITHHELD}\n"));
        assert!(redactor.and(&Redactor::default()).withholds);
        assert!(Redactor::default().and(&redactor).withholds);
    }
    let mut fine = distinct(MAX_SECRETS);
    fine.extend(distinct(MAX_SECRETS));
    fine.extend((0..1000).map(|short| short.to_string()));
    assert!(check_amount(&payload(fine.clone())).is_ok());
    let redactor = Rules::default().redactor(&Redactor::default(), &payload(fine));
    assert_eq!(redactor.text("a secret-255 b"), "a [redacted] b");
}

#[test]
fn a_text_of_overlapping_secrets_holds_back_only_the_open_part() {
    let nested: Vec<Vec<u8>> = (MIN_SECRET_LENGTH..180).map(|length| vec![b'a'; length]).collect();
    let values = Values::new(nested);
    let mut text = String::new();
    for part in 0..1000 {
        let _ = write!(text, "{}b{part}", "a".repeat(part % 400));
    }
    let expected = simply(&[vec![b'a'; MIN_SECRET_LENGTH]], text.as_bytes());
    assert_eq!(streamed(&values, text.as_bytes(), 4096), expected);
}

#[test]
fn values_of_an_operator_are_limited_too() {
    let refused = |values: Vec<String>| Redactor::new(values, [""; 0]).unwrap_err().to_string();
    assert_eq!(refused(vec!["x".repeat(65 * 1024)]), "secret: must have at most 65536 bytes");
    let many = (0..5).map(|which| format!("{which}{}", "x".repeat(60 * 1024))).collect();
    assert_eq!(refused(many), "secret: values must have at most 262144 bytes together");
}
