//! The names that are secret in texts: the common ones, and those of a definition.

use std::sync::{Arc, LazyLock};

use regex::bytes::{Regex, RegexBuilder};

use super::keys;

/// The names, and a fast search for lines that can contain any of them.
pub(super) struct SecretNames {
    /// The marks of a definition.
    own: Vec<String>,
    hint: Regex,
}

/// What every secret that is recognized by its surroundings contains, in lower case: a part of each common name, or the
/// signs of a URL, a flag of a command, a block of PEM and a known form of tokens.
const HINTS: &str = r"pass|secret|token|key|cred|authorization|cookie|pwd|pw|jwt|bearer|basic|identified|:\\?/\\?/|-----|eyj|gh[pousr]_|glpat-|xox[abeoprs]-|wl_";

static COMMON: LazyLock<Arc<SecretNames>> = LazyLock::new(|| Arc::new(SecretNames::new(Vec::new())));

impl Default for SecretNames {
    fn default() -> Self {
        Self::new(Vec::new())
    }
}

impl SecretNames {
    /// The common names only.
    pub(super) fn common() -> Arc<Self> {
        COMMON.clone()
    }

    /// The common names and the marks of a definition: letters and digits, in lower case.
    pub(super) fn new(own: Vec<String>) -> Self {
        let spaced = |mark: &String| {
            let letters: Vec<String> = mark.chars().map(|c| regex::escape(&c.to_string())).collect();
            letters.join(r"[_.\-]*")
        };
        let parts: Vec<String> = std::iter::once(HINTS.to_owned()).chain(own.iter().map(spaced)).collect();
        let hint = RegexBuilder::new(&parts.join("|")).case_insensitive(true).build();
        Self { own, hint: hint.expect("the marks are escaped and limited") }
    }

    pub(super) fn and(self: &Arc<Self>, other: &Arc<Self>) -> Arc<Self> {
        if other.own.is_empty() || Arc::ptr_eq(self, other) {
            return self.clone();
        }
        if self.own.is_empty() {
            return other.clone();
        }
        let more = other.own.iter().filter(|mark| !self.own.contains(mark));
        Arc::new(Self::new(self.own.iter().chain(more).cloned().collect()))
    }

    pub(super) fn own(&self) -> &[String] {
        &self.own
    }

    /// Whether the text can contain a secret. `false` is certain.
    pub(super) fn may_be_in(&self, text: &[u8]) -> bool {
        self.hint.is_match(text)
    }

    pub(super) fn is_secret(&self, name: &[u8]) -> bool {
        self.may_be_in(name) && keys::is_secret_by(&String::from_utf8_lossy(name), &self.own)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_common_name_is_hinted_at() {
        for name in keys::MARKS.iter().chain(keys::WORDS) {
            assert!(SecretNames::common().is_secret(name.as_bytes()), "{name}");
        }
        let own = SecretNames::new(vec!["cardpin".to_owned()]);
        assert!(own.is_secret(b"Card-PIN") && own.is_secret(b"my.card_pin") && !own.is_secret(b"card"));
    }
}
