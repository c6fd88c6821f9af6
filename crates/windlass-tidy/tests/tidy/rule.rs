//! What a rule is.

use crate::tree::Tree;

pub(crate) struct Rule {
    /// The rule itself, as a sentence.
    pub(crate) name: &'static str,
    /// What to do about a violation.
    pub(crate) mend: &'static str,
    pub(crate) find: fn(&Tree) -> Vec<Place>,
    /// Each is a tree with at least one violation. A rule without one is refused.
    pub(crate) caught: &'static [Sample],
    /// Each is a tree that comes close and is right.
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
