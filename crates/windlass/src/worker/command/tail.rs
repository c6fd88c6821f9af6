//! The end of a stream of any length, in bounded memory.

use crate::text;

#[derive(Debug)]
pub(crate) struct Tail {
    limit: usize,
    total: usize,
    kept: String,
}

impl Tail {
    pub(crate) fn new(limit: usize) -> Self {
        Self { limit, total: 0, kept: String::new() }
    }

    /// Appends text that is already clean.
    pub(crate) fn push(&mut self, text: &str) {
        self.total += text.len();
        self.kept.push_str(text);
        // Twice the limit, so that not every push moves the rest.
        if self.kept.len() > self.limit * 2 + 16 {
            let cut = self.kept.len() - self.limit - 8;
            let cut = (cut..self.kept.len()).find(|&at| self.kept.is_char_boundary(at)).unwrap_or(cut);
            self.kept.drain(..cut);
        }
    }

    pub(crate) fn total(&self) -> usize {
        self.total
    }

    pub(crate) fn finish(self) -> String {
        text::tail_of(&self.kept, self.total, self.limit)
    }

    /// Returns the last line that is not empty.
    pub(crate) fn last_line(&self) -> Option<&str> {
        self.kept.lines().rev().map(str::trim).find(|line| !line.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tail_of_a_long_stream_equals_that_of_the_whole() {
        let whole: String = (0..5000).map(|n| format!("line {n} é\n")).collect();
        for limit in [0, 10, 100, 1000, 100_000] {
            let mut tail = Tail::new(limit);
            for piece in whole.as_bytes().chunks(77).map(|piece| String::from_utf8_lossy(piece).into_owned())
            {
                tail.push(&piece.replace('\u{fffd}', ""));
            }
            let mut expected = Tail::new(limit);
            let cut: String = whole
                .as_bytes()
                .chunks(77)
                .map(|p| String::from_utf8_lossy(p).replace('\u{fffd}', ""))
                .collect();
            expected.push(&cut);
            assert!(tail.kept.len() <= limit * 2 + 16);
            assert_eq!(tail.finish(), expected.finish());
        }
        let mut tail = Tail::new(100);
        tail.push("one\n  two  \n\n");
        assert_eq!(tail.last_line(), Some("two"));
    }
}
