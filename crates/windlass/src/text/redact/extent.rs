//! Where the value of a secret name starts and ends in a line.

use std::sync::LazyLock;

use regex::bytes::Regex;

use super::keys;

/// What is between the name and the value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Separator {
    Space,
    Sign,
    /// The colon of a header of HTTP, and the quote before its name: the value ends there or with the line.
    Header(Option<u8>),
}

fn regex(expression: &str) -> Regex {
    Regex::new(expression).expect("the expression is valid")
}

/// A quoted value, also within a constructor such as `Some("…")` and with a prefix such as `b'…'`.
static QUOTED: LazyLock<Regex> =
    LazyLock::new(|| regex(r#"(?-u)^[ \t]*(?:[&*]|[A-Za-z_][\w:]*\(|[bBrRuUfFeE]{1,2})*(\\*["'`])"#));
/// The end of a value without quotes.
static END: LazyLock<Regex> = LazyLock::new(|| {
    regex(r#"(?-u)[\s&;"'`<>]|\\(?:[nrt]|\\*["'])|[,)\]}]+(?:[\s,;"')\]}\\]|$|[\w.\-]+\\*["']?[ \t]*[:=])"#)
});
/// A scheme, which the secret follows.
static SCHEME: LazyLock<Regex> = LazyLock::new(|| {
    regex(r"(?i-u)^(?:bearer|basic|digest|negotiate|token|apikey|aws4-hmac-sha256)[ \t]+[^\s\-]")
});
/// A position in a source file follows, as in `token.rs:12:5`.
static POSITION: LazyLock<Regex> = LazyLock::new(|| regex(r"(?-u)^[0-9]+(?::[0-9]+)?(?:[^\w]|$)"));
static SOURCE: LazyLock<Regex> = LazyLock::new(|| regex(r"(?-u)\.[A-Za-z]{1,5}$"));
static NUMBER: LazyLock<Regex> = LazyLock::new(|| regex(r"(?-u)^[0-9][0-9_.,]*$"));

/// Words after a name and a colon that explain: `token: must not be empty` contains no token.
const EXPLAINS: &[&str] = &[
    "a",
    "absent",
    "an",
    "are",
    "as",
    "at",
    "be",
    "been",
    "bytes",
    "can",
    "cannot",
    "could",
    "denied",
    "did",
    "does",
    "empty",
    "exceeded",
    "expected",
    "expired",
    "failed",
    "false",
    "for",
    "found",
    "from",
    "got",
    "has",
    "have",
    "in",
    "invalid",
    "is",
    "malformed",
    "may",
    "mismatch",
    "missing",
    "must",
    "needs",
    "nil",
    "no",
    "none",
    "not",
    "null",
    "of",
    "or",
    "refused",
    "rejected",
    "required",
    "revoked",
    "should",
    "text",
    "the",
    "this",
    "to",
    "too",
    "true",
    "undefined",
    "unexpected",
    "unknown",
    "unset",
    "unsupported",
    "value",
    "values",
    "was",
    "were",
    "with",
    "wrong",
];

/// Whether the name is that of a header whose whole value is secret.
pub(super) fn is_header(name: &[u8]) -> bool {
    let plain = keys::plain(&String::from_utf8_lossy(name));
    plain.ends_with("authorization") || plain.ends_with("cookie") || plain.ends_with("cookies")
}

/// The range of the value in the text after the separator; `None` if there is no secret.
pub(super) fn of_value(rest: &[u8], name: &[u8], separator: Separator) -> Option<(usize, usize)> {
    if SOURCE.is_match(name) && POSITION.is_match(rest) {
        return None;
    }
    if let Some(quote) = QUOTED.captures(rest).and_then(|found| found.get(1)) {
        let start = quote.end();
        let end = start + quoted(&rest[start..], quote.as_bytes());
        return (start < end).then_some((start, end));
    }
    let start = rest.iter().position(|byte| !b" \t".contains(byte))?;
    let value = &rest[start..];
    let length = match (separator, value[0]) {
        (Separator::Header(Some(quote)), _) => {
            let end = value.iter().position(|byte| *byte == quote).unwrap_or(value.len());
            end - value[..end].iter().rev().take_while(|byte| **byte == b'\\').count()
        }
        (Separator::Header(None), _) => value.len(),
        (_, b'[' | b'{') => nested(value),
        (Separator::Space | Separator::Sign, _) => {
            let scheme = SCHEME.find(value).map_or(0, |scheme| scheme.end() - 1);
            scheme + END.find(&value[scheme..]).map_or(value.len() - scheme, |end| end.start())
        }
    };
    let value = &value[..length];
    let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || !byte.is_ascii();
    let first: Vec<u8> = value.iter().copied().take_while(|byte| !byte.is_ascii_whitespace()).collect();
    let first = String::from_utf8_lossy(&first).to_lowercase();
    let explains = EXPLAINS.contains(&first.trim_matches(|c: char| !c.is_alphanumeric()));
    let counts = NUMBER.is_match(value) && keys::is_count(&String::from_utf8_lossy(name));
    (value.iter().any(is_word) && !explains && !counts).then_some((start, start + length))
}

/// The length of a quoted text. Within JSON that is a string itself, a quote has more backslashes the deeper it is.
fn quoted(text: &[u8], quote: &[u8]) -> usize {
    let (sign, depth) = (quote[quote.len() - 1], quote.len() - 1);
    let mut backslashes = 0;
    let mut at = 0;
    while at < text.len() {
        let byte = text[at];
        let ends = byte == sign && (backslashes < depth || backslashes % (2 * (depth + 1)) == depth);
        // SQL doubles a quote within a text.
        let is_doubled = sign == b'\'' && depth == 0 && at > 0 && text.get(at + 1) == Some(&sign);
        if ends && is_doubled {
            at += 1;
        } else if ends {
            return at - backslashes.min(depth);
        }
        backslashes = if byte == b'\\' { backslashes + 1 } else { 0 };
        at += 1;
    }
    text.len()
}

/// The length of a list or an object, or up to the end of the line.
fn nested(text: &[u8]) -> usize {
    let mut depth = 0_usize;
    let mut is_in_string = false;
    let mut before = 0;
    for (at, byte) in text.iter().enumerate() {
        match byte {
            b'"' if before != b'\\' => is_in_string = !is_in_string,
            b'[' | b'{' if !is_in_string => depth += 1,
            b']' | b'}' if !is_in_string => {
                depth -= 1;
                if depth == 0 {
                    return at + 1;
                }
            }
            _ => {}
        }
        before = *byte;
    }
    text.len()
}
