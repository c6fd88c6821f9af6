//! Names of events and patterns for them.

use crate::error::{Error, Result};

const MAX_LENGTH: usize = 200;

/// Words separated by dots: `provider.folder.updated`.
pub(crate) fn check_name(field: &str, name: &str) -> Result<()> {
    check(field, name, false)
}

/// A name in which words can be `*`.
pub(crate) fn check_pattern(field: &str, pattern: &str) -> Result<()> {
    check(field, pattern, true)
}

fn check(field: &str, name: &str, may_be_pattern: bool) -> Result<()> {
    let is_word = |word: &str| {
        (may_be_pattern && word == "*")
            || (!word.is_empty() && word.chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c)))
    };
    if name.len() <= MAX_LENGTH && name.split('.').all(is_word) {
        return Ok(());
    }
    let pattern = if may_be_pattern { ", and * for any word" } else { "" };
    Err(Error::refused(
        field,
        format!(
            "must be words of letters, digits, _ and -, separated by dots{pattern}, with at most {MAX_LENGTH} characters"
        ),
    ))
}

/// `*` matches one word, and as the last word one or more.
pub(crate) fn matches_name(pattern: &str, name: &str) -> bool {
    let mut words = name.split('.');
    let mut parts = pattern.split('.').peekable();
    while let Some(part) = parts.next() {
        match words.next() {
            None => return false,
            Some(_) if part == "*" && parts.peek().is_none() => return true,
            Some(word) if part != "*" && part != word => return false,
            Some(_) => {}
        }
    }
    words.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::{check_name, check_pattern, matches_name};

    #[test]
    fn a_pattern_matches_whole_words() {
        for (pattern, name, matches) in [
            ("provider.folder.updated", "provider.folder.updated", true),
            ("provider.*", "provider.folder.updated", true),
            ("provider.*", "provider.connection", true),
            ("provider.*", "provider", false),
            ("provider.*", "providers.folder", false),
            ("*", "list.created", true),
            ("*.created", "list.created", true),
            ("*.created", "a.list.created", false),
            ("provider.*.updated", "provider.folder.updated", true),
            ("provider.*.updated", "provider.folder.sub.updated", false),
            ("list.created", "list.created.twice", false),
            ("list.created.twice", "list.created", false),
        ] {
            assert_eq!(matches_name(pattern, name), matches, "{pattern} {name}");
        }
    }

    #[test]
    fn names_are_words_with_dots() {
        assert!(check_name("name", "images.ingest.completed").is_ok());
        assert!(check_pattern("event_name", "provider.*").is_ok());
        for name in ["", ".", "a..b", "a b", "a.*", "a.\u{0}", "ä.b", &"a".repeat(201)] {
            assert!(check_name("name", name).is_err(), "{name}");
        }
        assert!(check_pattern("event_name", "a.b*").is_err());
    }
}
