//! Makes text from outside safe to store: errors, logs, results, process output.
//!
//! No output of a handler may prevent its job from ending, so nothing here can fail. Postgres rejects NUL and invalid
//! UTF-8; it would accept other control characters, but they could affect the terminal or page on which they are shown.
//! Text that is too long is truncated and marked.

pub mod json;
pub mod redact;

use std::io;
use std::sync::LazyLock;

use regex::bytes::Regex;
use serde::Serialize;
use serde_json::{Map, Value};

use json::{JsonLimits, JsonProblem};

/// The start of `bytes` as text of at most `max_bytes`: invalid UTF-8 and control characters other than tab, line feed
/// and carriage return become U+FFFD. Truncated text ends with a mark that contains the original size, if `max_bytes`
/// has room for it.
pub fn storable(bytes: &[u8], max_bytes: usize) -> String {
    // Cleaning never makes text shorter, so nothing after this point can be kept; the additional bytes complete a
    // character at the limit.
    let mut text = cleaned(&bytes[..bytes.len().min(max_bytes.saturating_add(MAX_CHAR_LENGTH))]);
    if text.len() <= max_bytes {
        return text;
    }
    let mark = fitting(truncation_mark(bytes.len()), max_bytes);
    let room = max_bytes - mark.len();
    let cut = (0..=room).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0);
    text.truncate(cut);
    text + &mark
}

/// The end of `bytes`, cleaned in the same way. Truncated text starts with the mark on its own line, followed by the
/// first complete line, if there is one: the last lines of a failed command usually show the cause.
pub fn tail(bytes: &[u8], max_bytes: usize) -> String {
    let start = bytes.len().saturating_sub(max_bytes.saturating_add(MAX_CHAR_LENGTH));
    tail_of(&cleaned(&bytes[start..]), bytes.len(), max_bytes)
}

/// The same for the cleaned end of a text of `original_bytes`.
pub(crate) fn tail_of(text: &str, original_bytes: usize, max_bytes: usize) -> String {
    if text.len() <= max_bytes {
        return text.to_owned();
    }
    let mark = fitting(truncation_mark(original_bytes) + "\n", max_bytes);
    let room = max_bytes - mark.len();
    let cut = (text.len() - room..text.len()).find(|&at| text.is_char_boundary(at)).unwrap_or(text.len());
    let cuts_a_line = !text[..cut].ends_with('\n');
    let next_line = text[cut..].find('\n').map(|end| cut + end + 1).filter(|&next| next < text.len());
    mark + &text[next_line.filter(|_| cuts_a_line).unwrap_or(cut)..]
}

/// The result of a handler as JSON text that [`json::check`] accepts and Postgres can store. NUL in strings and names
/// becomes U+FFFD; a result beyond the limits is replaced by `{"windlass": {"dropped": …, "bytes": …}}`, which
/// describes what was lost.
pub fn storable_json(value: &impl Serialize, limits: &JsonLimits) -> String {
    let (text, bytes) = match written(value, limits) {
        Ok(written) => written,
        Err(Unwritten::TooDeep) => return dropped("result nested too deeply", None, limits),
        Err(Unwritten::Refused(error)) => {
            return storable_json(
                &format!("cannot be serialized: {}", storable(error.as_bytes(), 1000)),
                limits,
            );
        }
    };
    let problem = match json::check(&text, limits) {
        Ok(()) => return text,
        Err(refused) => refused.problem,
    };
    match (problem, serde_json::from_str::<Value>(&text)) {
        // After the replacement, a name with NUL may be equal to another one in the same object; then one of the two is
        // lost.
        (JsonProblem::Nul, Ok(value)) => storable_json(&without_nul(&value), limits),
        (JsonProblem::TooLarge { .. }, _) => dropped("result too large", Some(bytes), limits),
        (JsonProblem::TooManyValues { .. }, _) => dropped("result has too many values", Some(bytes), limits),
        (JsonProblem::TooDeep { .. }, _) => dropped("result nested too deeply", Some(bytes), limits),
        (
            JsonProblem::Nul | JsonProblem::Number | JsonProblem::LoneSurrogate | JsonProblem::Syntax { .. },
            _,
        ) => dropped("result cannot be stored", Some(bytes), limits),
    }
}

const MAX_CHAR_LENGTH: usize = 4;

fn cleaned(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    clean_into(bytes, &mut text);
    text
}

/// Appends the bytes as clean text: invalid UTF-8 and control characters are replaced.
pub(crate) fn clean_into(bytes: &[u8], text: &mut String) {
    for chunk in bytes.utf8_chunks() {
        let valid = chunk.valid();
        if UNPLAIN.as_ref().is_some_and(|unplain| !unplain.is_match(valid.as_bytes())) {
            text.push_str(valid);
        } else {
            text.extend(valid.chars().map(clean));
        }
        if !chunk.invalid().is_empty() {
            text.push(char::REPLACEMENT_CHARACTER);
        }
    }
}

/// Everything except printable ASCII, tab, line feed and carriage return. Searching for it is the fastest way to skip
/// clean output of any size, even in a debug build.
static UNPLAIN: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"(?-u)[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\xff]").ok());

/// The length of the complete characters, if more bytes follow: an incomplete last one is excluded.
pub(crate) fn whole_characters(bytes: &[u8]) -> usize {
    let last = bytes.len().saturating_sub(MAX_CHAR_LENGTH - 1);
    let start = (last..bytes.len()).rev().find(|&at| bytes[at] & 0xc0 != 0x80);
    match start {
        Some(start) if matches!(std::str::from_utf8(&bytes[start..]), Err(error) if error.error_len().is_none()) => {
            start
        }
        Some(_) | None => bytes.len(),
    }
}

/// The C1 control characters are replaced too: U+009B alone starts an escape sequence.
fn clean(c: char) -> char {
    let stays = !c.is_control() || matches!(c, '\t' | '\n' | '\r');
    if stays { c } else { char::REPLACEMENT_CHARACTER }
}

fn truncation_mark(original_bytes: usize) -> String {
    format!("…[truncated, {original_bytes} bytes]")
}

/// No mark is better than half a mark.
fn fitting(mark: String, max_bytes: usize) -> String {
    if mark.len() <= max_bytes { mark } else { String::new() }
}

enum Unwritten {
    TooDeep,
    Refused(String),
}

/// The text of the value and its size; of a text beyond the limit, only enough is kept to recognize that it is too
/// large. Serialization of a value that is nested too deeply is aborted: it recurses as deep as the value, and a stack
/// overflow would end the whole process.
fn written(value: &impl Serialize, limits: &JsonLimits) -> Result<(String, usize), Unwritten> {
    let mut bounded = Bounded {
        kept: Vec::with_capacity(128),
        total: 0,
        depth: 0,
        is_in_string: false,
        is_escaped: false,
        max_bytes: limits.max_bytes,
        max_depth: limits.max_depth.min(json::MAX_DEPTH),
    };
    match serde_json::to_writer(&mut bounded, value) {
        // Pieces are written completely, so the kept text consists of complete characters.
        Ok(()) => Ok((String::from_utf8_lossy(&bounded.kept).into_owned(), bounded.total)),
        Err(_) if bounded.depth > bounded.max_depth => Err(Unwritten::TooDeep),
        Err(error) => Err(Unwritten::Refused(error.to_string())),
    }
}

/// Receives JSON text and tracks its depth.
struct Bounded {
    kept: Vec<u8>,
    total: usize,
    depth: usize,
    is_in_string: bool,
    is_escaped: bool,
    max_bytes: usize,
    max_depth: usize,
}

impl Bounded {
    fn follow(&mut self, byte: u8) {
        if self.is_escaped {
            self.is_escaped = false;
        } else if self.is_in_string {
            self.is_escaped = byte == b'\\';
            self.is_in_string = byte != b'"';
        } else {
            match byte {
                b'"' => self.is_in_string = true,
                b'[' | b'{' => self.depth += 1,
                b']' | b'}' => self.depth = self.depth.saturating_sub(1),
                _ => {}
            }
        }
    }
}

impl io::Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for &byte in bytes {
            self.follow(byte);
            if self.depth > self.max_depth {
                return Err(io::ErrorKind::InvalidData.into());
            }
        }
        self.total += bytes.len();
        if self.kept.len() <= self.max_bytes {
            self.kept.extend_from_slice(bytes);
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn without_nul(value: &Value) -> Value {
    let cleaned = |text: &str| text.replace('\0', "\u{FFFD}");
    match value {
        Value::String(text) => Value::String(cleaned(text)),
        Value::Array(items) => items.iter().map(without_nul).collect(),
        Value::Object(members) => {
            let members = members.iter().map(|(name, member)| (cleaned(name), without_nul(member)));
            Value::Object(members.collect::<Map<String, Value>>())
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}

fn dropped(why: &str, bytes: Option<usize>, limits: &JsonLimits) -> String {
    let marker = match bytes {
        Some(bytes) => serde_json::json!({ "windlass": { "dropped": why, "bytes": bytes } }),
        None => serde_json::json!({ "windlass": { "dropped": why } }),
    }
    .to_string();
    // If the limits are too small for the marker, there is nothing better.
    if json::check(&marker, limits).is_ok() { marker } else { "null".into() }
}

/// Bytes as lower-case hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn plain_text_is_unchanged() {
        let text = "line one\n\tline two\r\nZoë 😀";
        assert_eq!(storable(text.as_bytes(), 100), text);
        assert_eq!(tail(text.as_bytes(), 100), text);
        assert_eq!(storable(text.as_bytes(), text.len()), text);
        assert_eq!(storable(b"", 0), "");
    }

    #[test]
    fn invalid_and_control_characters_are_replaced() {
        assert_eq!(storable(b"a\0b\x1b[31mc\x7f\xc2\x9bd\xffe\xe2\x82", 100), "a�b�[31mc��d�e�");
    }

    #[test]
    fn long_text_is_cut_between_characters_with_a_note() {
        let text = "é".repeat(100);
        let kept = storable(text.as_bytes(), 60);
        assert_eq!(kept, format!("{}…[truncated, 200 bytes]", "é".repeat(17)));
        assert!(kept.len() <= 60);
        assert_eq!(storable(text.as_bytes(), 5), "éé");
        assert_eq!(tail(text.as_bytes(), 5), "éé");
    }

    #[test]
    fn a_tail_starts_with_a_whole_line() {
        let log: String = (0..100).map(|n| format!("line number {n}\n")).collect();
        assert_eq!(tail(log.as_bytes(), 70), "…[truncated, 1490 bytes]\nline number 98\nline number 99\n");
        // If the cut is between two lines, neither is lost.
        assert!(tail(log.as_bytes(), 27 + 30).ends_with("\nline number 98\nline number 99\n"));
        let one_line = format!("{}end\n", "x".repeat(100));
        assert!(tail(one_line.as_bytes(), 40).ends_with("xxxend\n"));
    }

    #[test]
    fn a_result_with_nul_is_stored_without_it() {
        let stored = storable_json(&json!({"a\0": ["x\0y", 1, null]}), &JsonLimits::default());
        assert_eq!(stored, r#"{"a�":["x�y",1,null]}"#);
    }

    #[test]
    fn a_result_beyond_the_limits_is_replaced_by_a_note() {
        let limits = JsonLimits { max_bytes: 100, max_depth: 3, max_nodes: 10 };
        let note =
            |why: &str, bytes: usize| json!({"windlass": {"dropped": why, "bytes": bytes}}).to_string();
        assert_eq!(storable_json(&json!("x".repeat(200)), &limits), note("result too large", 202));
        assert_eq!(storable_json(&json!(vec![0; 10]), &limits), note("result has too many values", 21));
        let deep = json!([[[[1]]]]);
        assert_eq!(storable_json(&deep, &limits), r#"{"windlass":{"dropped":"result nested too deeply"}}"#);
        assert_eq!(storable_json(&json!([[[1]]]), &limits), "[[[1]]]");
        assert_eq!(storable_json(&deep, &JsonLimits { max_bytes: 10, ..limits }), "null");
    }

    #[test]
    fn a_deeply_nested_result_is_replaced_without_recursion() {
        let mut value = json!(1);
        for _ in 0..5_000 {
            value = Value::Array(vec![value]);
        }
        let boundless = JsonLimits { max_depth: usize::MAX, ..JsonLimits::default() };
        assert!(storable_json(&value, &JsonLimits::default()).contains("nested too deeply"));
        assert!(storable_json(&value, &boundless).contains("nested too deeply"));
    }

    fn any_value() -> impl Strategy<Value = Value> {
        let text = prop_oneof![".{0,8}", "[a\\x00]{0,4}"];
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            text.clone().prop_map(Value::from)
        ];
        leaf.prop_recursive(8, 64, 6, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                prop::collection::hash_map(text.clone(), inner, 0..6)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    fn any_bytes() -> impl Strategy<Value = Vec<u8>> {
        let text = prop_oneof![".{0,40}", "[a\\n😀\\x00]{0,60}"].prop_map(String::into_bytes);
        prop_oneof![prop::collection::vec(any::<u8>(), 0..120), text]
    }

    proptest! {
        #[test]
        fn text_is_clean_bounded_and_idempotent(bytes in any_bytes(), max_bytes in 0..130_usize) {
            for fit in [storable, tail] {
                let text = fit(&bytes, max_bytes);
                prop_assert!(text.len() <= max_bytes);
                prop_assert!(text.chars().all(|c| clean(c) == c));
                prop_assert_eq!(&fit(text.as_bytes(), max_bytes), &text);
            }
        }

        #[test]
        fn short_text_is_kept_and_cut_text_is_a_suffix(bytes in any_bytes(), max_bytes in 0..130_usize) {
            let whole = cleaned(&bytes);
            prop_assert!(whole.len() >= bytes.len());
            let start = storable(&bytes, max_bytes);
            let end = tail(&bytes, max_bytes);
            if whole.len() <= max_bytes {
                prop_assert_eq!((&start, &end), (&whole, &whole));
            } else {
                let mark = truncation_mark(bytes.len());
                let start = start.strip_suffix(&mark).unwrap_or(&start);
                let end = end.strip_prefix(&format!("{mark}\n")).unwrap_or(&end);
                prop_assert!(whole.starts_with(start) && whole.ends_with(end));
            }
        }

        #[test]
        fn a_result_can_always_be_stored(value in any_value(), max_bytes in 80..400_usize, max_depth in 2..8_usize) {
            let limits = JsonLimits { max_bytes, max_depth, max_nodes: 20 };
            let stored = storable_json(&value, &limits);
            prop_assert_eq!(json::check(&stored, &limits), Ok(()));
            let again: Value = serde_json::from_str(&stored).unwrap();
            prop_assert_eq!(storable_json(&again, &limits), stored);
        }
    }
}
