//! Finds known values in a stream.

use std::sync::Arc;

use super::automaton::Automaton;
use super::variants::variants;
use super::{MIN_SECRET_LENGTH, PLACEHOLDER};

/// Secret values, and an automaton that finds them in all their forms. Values that are added later form a separate set,
/// so that the automaton of a worker is built once and not again for every job.
#[derive(Clone, Default)]
pub(super) struct Values {
    sets: Vec<Arc<Set>>,
}

struct Set {
    count: usize,
    finder: Automaton,
}

impl Values {
    pub(super) fn new(mut raw: Vec<Vec<u8>>) -> Self {
        raw.sort();
        raw.dedup();
        if raw.is_empty() {
            return Self::default();
        }
        let mut forms: Vec<Vec<u8>> = raw.iter().flat_map(|secret| variants(secret)).collect();
        forms.extend(raw.iter().flat_map(|secret| lines(secret)).flat_map(variants));
        forms.sort();
        forms.dedup();
        let set = Set { count: raw.len(), finder: Automaton::new(&forms) };
        Self { sets: vec![Arc::new(set)] }
    }

    /// The values of both.
    pub(super) fn and(&self, other: &Self) -> Self {
        let mut both = self.clone();
        for set in &other.sets {
            if !both.sets.iter().any(|known| Arc::ptr_eq(known, set)) {
                both.sets.push(set.clone());
            }
        }
        both
    }

    pub(super) fn is_empty(&self) -> bool {
        self.sets.is_empty()
    }

    pub(super) fn count(&self) -> usize {
        self.sets.iter().map(|set| set.count).sum()
    }

    /// The cost of building and storing it.
    #[cfg(test)]
    pub(super) fn nodes(&self) -> usize {
        self.sets.iter().map(|set| set.finder.nodes()).sum()
    }
}

/// The lines of a secret that has several: a program may print them one at a time, indented, or only some.
fn lines(secret: &[u8]) -> impl Iterator<Item = &[u8]> {
    let has_several = secret.iter().any(|byte| b"\n\r".contains(byte));
    let lines = secret.split(|byte| b"\n\r".contains(byte)).map(<[u8]>::trim_ascii);
    lines.filter(move |line| has_several && line.len() >= MIN_SECRET_LENGTH)
}

/// The search in one stream. Holds back only bytes that may become part of a value.
pub(super) struct ValueStream {
    values: Values,
    /// The current node of each set's automaton.
    nodes: Vec<u32>,
    held: Vec<u8>,
    /// The values found in the held bytes, as ordered ranges that do not overlap.
    found: Vec<(usize, usize)>,
    /// How many of the held bytes belong to a value whose placeholder was already written.
    covered: usize,
}

impl ValueStream {
    pub(super) fn new(values: &Values) -> Self {
        let nodes = vec![0; values.sets.len()];
        Self { values: values.clone(), nodes, held: Vec::new(), found: Vec::new(), covered: 0 }
    }

    pub(super) fn push(&mut self, bytes: &[u8], to: &mut Vec<u8>) {
        if self.values.is_empty() {
            to.extend_from_slice(bytes);
            return;
        }
        let before = self.held.len();
        self.held.extend_from_slice(bytes);
        let mut at = before;
        while at < self.held.len() {
            if self.nodes.iter().all(|node| *node == 0) {
                at += self.harmless(&self.held[at..]);
                if at == self.held.len() {
                    break;
                }
            }
            let byte = self.held[at];
            at += 1;
            let mut longest = 0;
            for (node, set) in self.nodes.iter_mut().zip(&self.values.sets) {
                *node = set.finder.step(*node, byte);
                longest = longest.max(set.finder.ends(*node));
            }
            if longest > 0 {
                self.cover(at - longest, at);
            }
        }
        let sets = self.nodes.iter().zip(&self.values.sets);
        let open = sets.map(|(node, set)| set.finder.open(*node)).max().unwrap_or(0);
        self.write(self.held.len() - open, to);
    }

    pub(super) fn finish(&mut self, to: &mut Vec<u8>) {
        self.write(self.held.len(), to);
    }

    /// The number of bytes before the first one with which a value could start.
    fn harmless(&self, bytes: &[u8]) -> usize {
        let starts = |byte: &u8| self.values.sets.iter().any(|set| set.finder.starts_with(*byte));
        bytes.iter().position(starts).unwrap_or(bytes.len())
    }

    /// Adds a value that ends after all previous ones, but may start before some.
    fn cover(&mut self, start: usize, end: usize) {
        while self.found.last().is_some_and(|last| last.0 >= start) {
            self.found.pop();
        }
        match self.found.last_mut() {
            Some(last) if last.1 > start => last.1 = end,
            None if self.covered > start => self.covered = end,
            _ => self.found.push((start, end)),
        }
    }

    /// Writes everything that starts before `decided`. Every value that starts there is complete; otherwise its start
    /// would still be undecided.
    fn write(&mut self, decided: usize, to: &mut Vec<u8>) {
        let whole = self.found.partition_point(|(start, _)| *start < decided);
        let mut done = self.covered;
        for (start, end) in self.found.drain(..whole) {
            to.extend_from_slice(&self.held[done..start]);
            to.extend_from_slice(PLACEHOLDER.as_bytes());
            done = end;
        }
        if done < decided {
            to.extend_from_slice(&self.held[done..decided]);
        }
        self.covered = done.saturating_sub(decided);
        for range in &mut self.found {
            *range = (range.0 - decided, range.1 - decided);
        }
        self.held.drain(..decided);
    }
}
