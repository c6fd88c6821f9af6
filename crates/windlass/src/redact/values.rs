//! Finds known values in a stream.

use std::sync::Arc;

use aho_corasick::{AhoCorasick, MatchKind};

use super::PLACEHOLDER;
use super::variants::variants;

/// Secret values and how to find them in any of their forms.
#[derive(Default)]
pub(super) struct Values {
    pub(super) raw: Vec<Vec<u8>>,
    /// Every form of every value, sorted.
    forms: Vec<Vec<u8>>,
    finder: Option<AhoCorasick>,
    longest: usize,
}

impl Values {
    pub(super) fn new(mut raw: Vec<Vec<u8>>) -> Self {
        raw.sort();
        raw.dedup();
        let mut forms: Vec<Vec<u8>> = raw.iter().flat_map(|secret| variants(secret)).collect();
        forms.sort();
        forms.dedup();
        let longest = forms.iter().map(Vec::len).max().unwrap_or(0);
        // Every occurrence, also one that overlaps another: both are covered then.
        let finder = (!forms.is_empty())
            .then(|| AhoCorasick::builder().match_kind(MatchKind::Standard).build(&forms))
            .and_then(Result::ok);
        Self { raw, forms, finder, longest }
    }

    /// Where the text begins that may be the first part of a value whose rest has not come.
    fn undecided_from(&self, bytes: &[u8]) -> usize {
        let first = bytes.len().saturating_sub(self.longest.saturating_sub(1));
        (first..bytes.len()).find(|&at| self.begins_a_form(&bytes[at..])).unwrap_or(bytes.len())
    }

    fn begins_a_form(&self, start: &[u8]) -> bool {
        let at = self.forms.partition_point(|form| form.as_slice() < start);
        let longer = |form: &&Vec<u8>| form.len() > start.len() && form.starts_with(start);
        self.forms.iter().skip(at).take(2).any(|form| longer(&form))
    }
}

/// One stream on its way past them.
pub(super) struct ValueStream {
    values: Arc<Values>,
    held: Vec<u8>,
    /// How much of what is held belongs to a value whose placeholder was written already.
    covered: usize,
}

impl ValueStream {
    pub(super) fn new(values: Arc<Values>) -> Self {
        Self { values, held: Vec::new(), covered: 0 }
    }

    pub(super) fn push(&mut self, bytes: &[u8], to: &mut Vec<u8>) {
        if self.values.finder.is_none() {
            to.extend_from_slice(bytes);
            return;
        }
        self.held.extend_from_slice(bytes);
        let decided = self.values.undecided_from(&self.held);
        self.write(decided, to);
    }

    pub(super) fn finish(&mut self, to: &mut Vec<u8>) {
        self.write(self.held.len(), to);
    }

    /// Writes what begins before `decided`. Every value that begins there is whole, else its beginning would be held.
    fn write(&mut self, decided: usize, to: &mut Vec<u8>) {
        let Some(finder) = &self.values.finder else { return };
        let mut found: Vec<(usize, usize)> = Vec::new();
        // Nearly always there is nothing, and to see that is far cheaper than to list what there is.
        if finder.is_match(&self.held) {
            found.extend(finder.find_overlapping_iter(&self.held).map(|hit| (hit.start(), hit.end())));
            found.sort_unstable();
        }
        let mut done = self.covered;
        for (start, end) in found.into_iter().filter(|(start, _)| *start < decided) {
            if start >= done {
                to.extend_from_slice(&self.held[done..start]);
                to.extend_from_slice(PLACEHOLDER.as_bytes());
            }
            done = done.max(end);
        }
        if done < decided {
            to.extend_from_slice(&self.held[done..decided]);
        }
        self.covered = done.saturating_sub(decided);
        self.held.drain(..decided);
    }
}
