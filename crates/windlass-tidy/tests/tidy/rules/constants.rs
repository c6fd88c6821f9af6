//! The texts in SQL files mean the same in every session.

use crate::rule::{Place, Rule};
use crate::tree::{File, STATEMENTS};

pub(crate) const RULES: &[&Rule] = &[&NO_PLAIN_BACKSLASH];

/// The text of a function is parsed by the settings of the session that calls it, and every login can change that one.
const NO_PLAIN_BACKSLASH: Rule = Rule {
    name: "no plain constant of the store's SQL contains a backslash",
    fix: "write E'\\\\x01', [[:space:]] or starts_with(): with standard_conforming_strings off, a backslash in a plain constant is an escape",
    find: |tree| {
        let files = tree.ending(".sql").filter(|file| file.path.starts_with(STATEMENTS));
        files.flat_map(backslashes).collect()
    },
    caught: &[&[("crates/windlass/src/store/functions/a.sql", "-- A.\nselect 'a' ~ '^\\s+$';\n")]],
    passes: &[&[(
        "crates/windlass/src/store/functions/a.sql",
        "-- It's \\ here.\nselect E'\\\\s', $f$\\($f$, 'it''s', $$ 'a' $$;\n",
    )]],
};

fn backslashes(file: &File) -> Vec<Place> {
    let (text, mut found, mut at) = (file.text.as_str(), Vec::new(), 0);
    while let Some(next) = text[at..].find(['-', '\'', '$']).map(|offset| at + offset) {
        let rest = &text[next..];
        at = next + 1;
        if rest.starts_with("--") {
            at = next + rest.find('\n').unwrap_or(rest.len());
        } else if rest.starts_with('$') {
            at = next + quoted_by_dollars(rest).unwrap_or(1);
        } else if rest.starts_with('\'') {
            let is_escaping = text[..next].ends_with(['e', 'E'])
                && !text[..next - 1].ends_with(|before: char| before.is_alphanumeric() || before == '_');
            let length = constant(rest, is_escaping);
            if !is_escaping && rest[..length].contains('\\') {
                found.push(file.place_at(next, &rest[..length]));
            }
            at = next + length;
        }
    }
    found
}

/// The length of a constant such as `$f$…$f$` in one line. The body of a function has an empty tag and is read like any other text.
fn quoted_by_dollars(rest: &str) -> Option<usize> {
    let tag = &rest[..rest[1..].find('$')? + 2];
    let is_tag =
        tag.len() > 2 && tag[1..tag.len() - 1].chars().all(|one| one.is_alphanumeric() || one == '_');
    let line = rest.lines().next()?;
    let end = line.get(tag.len()..)?.find(tag)?;
    is_tag.then_some(end + 2 * tag.len())
}

/// The length of a constant with its quotes, of which two in a row are one in the text.
fn constant(rest: &str, is_escaping: bool) -> usize {
    let mut characters = rest.char_indices().skip(1).peekable();
    while let Some((place, character)) = characters.next() {
        match character {
            '\\' if is_escaping => drop(characters.next()),
            '\'' if characters.peek().is_some_and(|(_, next)| *next == '\'') => drop(characters.next()),
            '\'' => return place + 1,
            _ => {}
        }
    }
    rest.len()
}
