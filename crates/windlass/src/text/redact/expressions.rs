//! Applies expressions to a stream, one line at a time. A line is held back until it is complete, because an expression
//! may match more of it then. A line that is too long is divided into windows, independent of how the stream was
//! divided.

use std::sync::Arc;

use regex::bytes::{Regex, RegexBuilder};

use super::PLACEHOLDER;

/// The maximum length of a line that is matched as a whole.
const WINDOW: usize = 16 * 1024;
/// A match across the end of a window is found completely if it is not longer than this.
const OVERLAP: usize = 4 * 1024;

#[derive(Default)]
pub(super) struct Expressions {
    all: Vec<Regex>,
}

impl Expressions {
    pub(super) fn new<E: AsRef<str>>(expressions: impl IntoIterator<Item = E>) -> Result<Self, String> {
        let compile = |expression: E| {
            let regex = RegexBuilder::new(expression.as_ref()).size_limit(1 << 20).build();
            let regex = regex.map_err(|error| error.to_string())?;
            if regex.is_match(b"") {
                return Err(format!("`{}` matches the empty string", expression.as_ref()));
            }
            Ok(regex)
        };
        Ok(Self { all: expressions.into_iter().map(compile).collect::<Result<_, _>>()? })
    }

    pub(super) fn and(&self, other: &Self) -> Self {
        let mut all = self.all.clone();
        all.extend(
            other
                .all
                .iter()
                .filter(|one| all.iter().all(|a| a.as_str() != one.as_str()))
                .cloned()
                .collect::<Vec<_>>(),
        );
        Self { all }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// The matches, as ordered ranges that do not overlap.
    fn find(&self, line: &[u8]) -> Vec<(usize, usize)> {
        let hits = self.all.iter().flat_map(|regex| regex.find_iter(line));
        let mut found: Vec<(usize, usize)> =
            hits.map(|hit| (hit.start(), hit.end())).filter(|(start, end)| start < end).collect();
        found.sort_unstable();
        let mut merged: Vec<(usize, usize)> = Vec::with_capacity(found.len());
        for (start, end) in found {
            match merged.last_mut() {
                Some(last) if start < last.1 => last.1 = last.1.max(end),
                _ => merged.push((start, end)),
            }
        }
        merged
    }
}

pub(super) struct LineStream {
    expressions: Arc<Expressions>,
    held: Vec<u8>,
}

impl LineStream {
    pub(super) fn new(expressions: Arc<Expressions>) -> Self {
        Self { expressions, held: Vec::new() }
    }

    pub(super) fn push(&mut self, bytes: &[u8], to: &mut Vec<u8>) {
        if self.expressions.is_empty() {
            to.extend_from_slice(bytes);
            return;
        }
        self.held.extend_from_slice(bytes);
        let mut done = 0;
        loop {
            let rest = &self.held[done..];
            let window = &rest[..rest.len().min(WINDOW)];
            if let Some(end) = window.iter().position(|byte| *byte == b'\n') {
                self.write(&window[..=end], end + 1, to);
                done += end + 1;
            } else if window.len() == WINDOW {
                done += self.write(window, WINDOW - OVERLAP, to);
            } else {
                break;
            }
        }
        self.held.drain(..done);
    }

    pub(super) fn finish(&mut self, to: &mut Vec<u8>) {
        let rest = std::mem::take(&mut self.held);
        self.write(&rest, rest.len(), to);
    }

    /// Writes the text up to `until`, or up to the end of a match that extends beyond it; returns how many bytes it
    /// wrote.
    fn write(&self, text: &[u8], until: usize, to: &mut Vec<u8>) -> usize {
        let mut done = 0;
        for (start, end) in self.expressions.find(text) {
            if start >= until {
                break;
            }
            to.extend_from_slice(&text[done..start]);
            to.extend_from_slice(PLACEHOLDER.as_bytes());
            done = end;
        }
        if done < until {
            to.extend_from_slice(&text[done..until]);
            done = until;
        }
        done
    }
}
