//! Text of tenants on the terminal of an operator. A control character in it could start an escape sequence, which moves the
//! cursor, changes what was printed before, or makes the terminal send input. All output of the commands goes through here, on a
//! terminal or not, so that it is the same for people and scripts.

use std::borrow::Cow;

/// Lines of text: control characters other than line feeds are escaped.
pub(crate) fn lines(text: &str) -> Cow<'_, str> {
    escaped(text, |c| match c {
        '\n' => None,
        '\t' => Some("    ".to_owned()),
        c => is_unsafe(c).then(|| c.escape_default().to_string()),
    })
}

/// The log of a job: its tabs are kept as well.
pub(crate) fn log(text: &str) -> Cow<'_, str> {
    escaped(text, |c| (is_unsafe(c) && !matches!(c, '\n' | '\t')).then(|| c.escape_default().to_string()))
}

/// Text within a line, such as a cell of a table: a line feed could imitate another row.
pub(crate) fn cell(text: &str) -> Cow<'_, str> {
    escaped(text, |c| is_unsafe(c).then(|| c.escape_default().to_string()))
}

/// JSON stays the same JSON. It has control characters only in strings, and escapes most of them itself.
pub(crate) fn json(text: &str) -> Cow<'_, str> {
    escaped(text, |c| (is_unsafe(c) && c != '\n').then(|| format!("\\u{:04x}", u32::from(c))))
}

fn escaped(text: &str, escape: impl Fn(char) -> Option<String>) -> Cow<'_, str> {
    if !text.contains(|c| escape(c).is_some()) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match escape(c) {
            Some(escaped) => safe.push_str(&escaped),
            None => safe.push(c),
        }
    }
    Cow::Owned(safe)
}

/// Control characters, including C1, and those that change the direction of the text or end a line.
fn is_unsafe(c: char) -> bool {
    c.is_control() || matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::{cell, json, lines, log};

    #[test]
    fn control_characters_are_escaped_and_other_text_is_unchanged() {
        assert_eq!(lines("ä → 日本\nb"), "ä → 日本\nb");
        assert_eq!(lines("a\x1b[2Jb\rc\u{9b}d\x7f\0\te"), "a\\u{1b}[2Jb\\rc\\u{9b}d\\u{7f}\\u{0}    e");
        assert_eq!(lines("a\u{202e}b"), "a\\u{202e}b");
        assert_eq!(cell("a\nb\tc"), "a\\nb\\tc");
        assert_eq!(log("a\tb\nc\r"), "a\tb\nc\\r");
    }

    #[test]
    fn json_is_the_same_value() {
        let value = serde_json::json!({"a\x1b": "b\u{9b}\x7f\u{202e}\n"});
        let text = serde_json::to_string_pretty(&value).unwrap();
        let safe = json(&text);
        assert!(!safe.contains(|c: char| c.is_control() && c != '\n'), "{safe:?}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&safe).unwrap(), value);
    }
}
