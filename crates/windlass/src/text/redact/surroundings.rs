//! Finds the secrets of one line by what surrounds them: a name, a header, a URL, a block of PEM. The values of such
//! secrets are not known in advance.

use std::sync::LazyLock;

use regex::bytes::{Captures, Regex};

use super::extent::{self, Separator};
use super::names::SecretNames;

/// A secret in a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Hit {
    /// Where the name or the sign of the secret starts.
    pub(super) anchor: usize,
    pub(super) start: usize,
    pub(super) end: usize,
}

fn regex(expression: &str) -> Regex {
    Regex::new(expression).expect("the expression is valid")
}

/// `name: value`, `"name": "value"`, `\"name\":\"value\"`, `name=value`, `name => value`, `"name", "value"`.
static NAMED: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r#"(?-u)([\w.\-\x80-\xff]*[\w\x80-\xff])(?:(\\*["'`]\]?)|\])?[ \t]*(=>|:=|={1,3}|:|,[ \t]*\\*["'`])"#,
    )
});
/// `--name value`, and the same in a list of arguments.
static FLAG: LazyLock<Regex> =
    LazyLock::new(|| regex(r#"(?-u)--([A-Za-z][\w.\-]*)(?:\\*["'],)?[ \t]+(?:[^\s\-]|\\*["'])"#));
/// `<name>value</name>`.
static ELEMENT: LazyLock<Regex> = LazyLock::new(|| regex(r"(?-u)<([\w.:\-]+)(?:\s[^<>]*)?>([^<>]+)<\\?/"));
/// `ALTER ROLE … PASSWORD 'value'`.
static SQL: LazyLock<Regex> =
    LazyLock::new(|| regex(r"(?i-u)\b(?:password|identified\s+(?:with\s+\S+\s+)?by)\s+(e?')"));
/// `scheme://user:password@host`; the second form has a `/`, `?` or `#` in the password.
static LOGIN: LazyLock<[Regex; 2]> = LazyLock::new(|| {
    [
        regex(r#"(?-u)[A-Za-z][A-Za-z0-9+.\-]*:\\?/\\?/[^\s/?#"'<>:@]*:([^\s/?#"'<>]+)@"#),
        regex(r#"(?-u)[A-Za-z][A-Za-z0-9+.\-]*:\\?/\\?/[^\s/?#"'<>:@]*:([^\s"'<>@]+)@"#),
    ]
});
/// `scheme://token@host`.
static USER: LazyLock<Regex> =
    LazyLock::new(|| regex(r#"(?-u)[A-Za-z][A-Za-z0-9+.\-]*:\\?/\\?/([^\s/?#"'<>:@]{16,}):?@"#));
static PORT: LazyLock<Regex> = LazyLock::new(|| regex(r"(?-u)^[0-9]{1,5}(?:$|[/?#\\])"));
/// A scheme of the header `Authorization`, without the header.
static SCHEME: LazyLock<Regex> =
    LazyLock::new(|| regex(r"(?i-u)\b(?:bearer|basic|negotiate|token)[ \t]+([\w.~+/=\-]{8,})"));
/// Forms of tokens that are secrets wherever they are.
static KNOWN: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r"(?-u)\b(?:eyJ[\w\-]{6,}\.[\w\-]{6,}(?:\.[\w\-]*)*|gh[pousr]_\w{20,}|github_pat_\w{20,}|glpat-[\w\-]{16,}|xox[abeoprs]-[\w\-]{10,}|wl_[a-z]+_[\w\-]{40,})",
    )
});
pub(super) static BEGIN: LazyLock<Regex> =
    LazyLock::new(|| regex(r"(?-u)-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----"));
pub(super) static END: LazyLock<Regex> =
    LazyLock::new(|| regex(r"(?-u)[A-Za-z0-9+/=\\]*-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----"));

/// The secrets of a line, ordered and without overlaps, and whether a private key starts that does not end in this line.
pub(super) fn secrets(line: &[u8], names: &SecretNames) -> (Vec<Hit>, bool) {
    if !names.may_be_in(line) {
        return (Vec::new(), false);
    }
    let mut hits = Vec::new();
    let is_open = keys(line, &mut hits);
    named(line, names, &mut hits);
    let mut done = 0;
    for hit in FLAG.captures_iter(line).filter(|hit| names.is_secret(&hit[1])) {
        let from = hit.get(1).map_or(0, |name| name.end());
        if from < done {
            continue; // within the value of the previous one
        }
        let gap = line[from..].iter().position(|byte| b" \t".contains(byte)).unwrap_or(0);
        let extent = extent::of_value(&line[from + gap..], &hit[1], Separator::Space);
        done = extent.map_or(done, |(_, end)| from + gap + end);
        add(line, &hit, extent, from + gap, &mut hits);
    }
    for hit in SQL.captures_iter(line) {
        let from = hit.get(1).map_or(0, |quote| quote.start());
        add(line, &hit, extent::of_value(&line[from..], b"password", Separator::Space), from, &mut hits);
    }
    let elements = ELEMENT.captures_iter(line).filter(|hit| names.is_secret(&hit[1]));
    groups(elements, 2, &mut hits);
    groups(LOGIN[0].captures_iter(line), 1, &mut hits);
    groups(LOGIN[1].captures_iter(line).filter(|hit| !PORT.is_match(&hit[1])), 1, &mut hits);
    groups(USER.captures_iter(line).filter(|hit| looks_random(&hit[1])), 1, &mut hits);
    groups(SCHEME.captures_iter(line).filter(|hit| looks_random(&hit[1])), 1, &mut hits);
    groups(KNOWN.captures_iter(line), 0, &mut hits);
    hits.sort_unstable_by_key(|hit| (hit.start, hit.end));
    let mut merged: Vec<Hit> = Vec::with_capacity(hits.len());
    for hit in hits {
        match merged.last_mut() {
            Some(last) if hit.start < last.end => {
                last.anchor = last.anchor.min(hit.anchor);
                last.end = last.end.max(hit.end);
            }
            _ => merged.push(hit),
        }
    }
    (merged, is_open)
}

fn groups<'a>(all: impl Iterator<Item = Captures<'a>>, which: usize, hits: &mut Vec<Hit>) {
    for (all, part) in all.filter_map(|hit| Some((hit.get(0)?, hit.get(which)?))) {
        hits.push(Hit { anchor: all.start(), start: part.start(), end: part.end() });
    }
}

fn add(line: &[u8], hit: &Captures<'_>, extent: Option<(usize, usize)>, from: usize, hits: &mut Vec<Hit>) {
    if let (Some((start, end)), Some(all)) = (extent, hit.get(0)) {
        hits.push(Hit { anchor: all.start(), start: from + start, end: (from + end).min(line.len()) });
    }
}

/// Values with a secret name. A value of another name is searched too.
fn named(line: &[u8], names: &SecretNames, hits: &mut Vec<Hit>) {
    let mut at = 0;
    while let Some(hit) = NAMED.captures_at(line, at) {
        let (Some(all), Some(name), Some(separator)) = (hit.get(0), hit.get(1), hit.get(3)) else { return };
        at = all.end();
        if !names.is_secret(name.as_bytes()) {
            continue;
        }
        let is_header = extent::is_header(name.as_bytes());
        let is_quoted = hit.get(2).is_some();
        let (kind, from) = match separator.as_bytes() {
            [b',', ..] if is_header && is_quoted => (Separator::Sign, separator.start() + 1),
            [b',', ..] => continue,
            b":" if line.get(at) == Some(&b':') => {
                at += 1; // a path, such as `auth::token::verify`
                continue;
            }
            b":" if is_header && !is_quoted => {
                let before = name.start().checked_sub(1).map(|before| line[before]);
                (Separator::Header(before.filter(|byte| b"\"'`".contains(byte))), at)
            }
            _ => (Separator::Sign, at),
        };
        let Some((start, end)) = extent::of_value(&line[from..], name.as_bytes(), kind) else { continue };
        hits.push(Hit { anchor: name.start(), start: from + start, end: from + end });
        at = at.max(from + end);
    }
}

/// Private keys, also if only a part of one is in the line.
fn keys(line: &[u8], hits: &mut Vec<Hit>) -> bool {
    let mut at = 0;
    loop {
        let begin = BEGIN.find_at(line, at);
        let end = END.find_at(line, at);
        match (begin, end) {
            (Some(begin), Some(end)) if begin.start() < end.end() => {
                hits.push(Hit { anchor: begin.start(), start: begin.start(), end: end.end() });
                at = end.end();
            }
            (_, Some(end)) => {
                hits.push(Hit { anchor: end.start(), start: end.start(), end: end.end() });
                at = end.end();
            }
            (Some(begin), None) => {
                hits.push(Hit { anchor: begin.start(), start: begin.start(), end: line.len() });
                return true;
            }
            (None, None) => return false,
        }
    }
}

/// Whether a word is none of a language: it contains letters and digits, or a capital letter within, or is very long.
fn looks_random(word: &[u8]) -> bool {
    let has = |kind: fn(&u8) -> bool| word.iter().any(kind);
    let capital = |pair: &[u8]| pair[0].is_ascii_lowercase() && pair[1].is_ascii_uppercase();
    has(u8::is_ascii_digit) && has(u8::is_ascii_alphabetic)
        || word.windows(2).any(capital)
        || word.len() >= 32
}
