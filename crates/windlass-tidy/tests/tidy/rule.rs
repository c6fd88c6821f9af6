//! The definition of a rule.

use crate::tree::Tree;

pub(crate) struct Rule {
    /// The rule itself, as a sentence.
    pub(crate) name: &'static str,
    /// How to fix a violation.
    pub(crate) fix: &'static str,
    pub(crate) find: fn(&Tree) -> Vec<Place>,
    /// Each is a tree with at least one violation. Every rule must have one.
    pub(crate) caught: &'static [Sample],
    /// Each is a tree that is close to a violation and valid.
    pub(crate) passes: &'static [Sample],
}

/// The files of a small tree: paths and texts.
pub(crate) type Sample = &'static [(&'static str, &'static str)];

/// Where a rule is violated.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) path: String,
    pub(crate) line: usize,
    pub(crate) what: String,
}
