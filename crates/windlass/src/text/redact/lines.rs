//! Removes the secrets that are recognized by their surroundings from a stream. The stream is read in lines; a line that
//! is too long is read in windows, whose ends do not depend on how the stream was divided. Of a private key only two
//! things are known between two lines: whether it has begun, and the last lines that may be its body.

use std::collections::VecDeque;
use std::sync::Arc;

use super::PLACEHOLDER;
use super::names::SecretNames;
use super::surroundings::{END, Hit, secrets};

/// The distance of the windows of a long line.
const STEP: usize = 12 * 1024;
/// A secret across the end of a window is found completely if it is not longer than this; otherwise the rest of the
/// line is removed.
const OVERLAP: usize = 4 * 1024;
/// The maximum size of the lines that may be the body of a private key: its beginning was not printed.
const BODY_BYTES: usize = 16 * 1024;
/// The minimum length of the first of these lines.
const BODY_LINE: usize = 32;

pub(super) struct TextStream {
    names: Arc<SecretNames>,
    /// The incomplete line.
    held: Vec<u8>,
    /// How many bytes of this line are not held any more.
    passed: usize,
    /// The rest of the line is a secret.
    is_swallowing: bool,
    /// A private key has begun, and its end has not been seen.
    is_in_key: bool,
    body: VecDeque<Vec<u8>>,
    body_bytes: usize,
}

impl TextStream {
    pub(super) fn new(names: &Arc<SecretNames>, is_in_key: bool) -> Self {
        Self {
            names: names.clone(),
            held: Vec::new(),
            passed: 0,
            is_swallowing: false,
            is_in_key,
            body: VecDeque::new(),
            body_bytes: 0,
        }
    }

    pub(super) fn push(&mut self, bytes: &[u8], to: &mut Vec<u8>) {
        let mut held = std::mem::take(&mut self.held);
        let mut search = held.len();
        held.extend_from_slice(bytes);
        let mut done = 0;
        loop {
            let until = STEP - self.passed % STEP;
            let rest = &held[done..];
            let window = &rest[..rest.len().min(until + OVERLAP)];
            let from = search.saturating_sub(done).min(window.len());
            if let Some(end) = window[from..].iter().position(|byte| b"\n\r".contains(byte)) {
                let end = from + end;
                self.line(&window[..end], Some(window[end]), to);
                done += end + 1;
                search = done;
            } else if window.len() == until + OVERLAP {
                done += self.window(window, until, to);
            } else {
                break;
            }
        }
        held.drain(..done);
        self.held = held;
        // Without a space, nothing more is decided: a long word that arrives byte by byte is not searched again for each.
        if bytes.iter().any(u8::is_ascii_whitespace) {
            self.release(to);
        }
    }

    /// Ends the stream; returns whether a private key has begun and not ended.
    pub(super) fn finish(&mut self, to: &mut Vec<u8>) -> bool {
        let rest = std::mem::take(&mut self.held);
        if !rest.is_empty() {
            self.line(&rest, None, to);
        }
        self.write_body(0, to);
        self.is_in_key
    }

    #[cfg(test)]
    pub(super) fn held_bytes(&self) -> usize {
        self.held.len() + self.body_bytes
    }

    /// Writes the words of an incomplete line that belong to no secret, however it continues.
    fn release(&mut self, to: &mut Vec<u8>) {
        if self.is_in_key || self.is_swallowing || !self.body.is_empty() || self.names.may_be_in(&self.held) {
            return;
        }
        let Some(space) = self.held.iter().rposition(u8::is_ascii_whitespace) else { return };
        // A line of one word can be the body of a key.
        if self.passed > 0 || self.held.trim_ascii().iter().any(u8::is_ascii_whitespace) {
            to.extend(self.held.drain(..=space));
            self.passed += space + 1;
        }
    }

    /// A complete line, or its rest.
    fn line(&mut self, line: &[u8], end: Option<u8>, to: &mut Vec<u8>) {
        let is_whole = self.passed == 0;
        self.passed = 0;
        if std::mem::take(&mut self.is_swallowing) {
            to.extend(end);
            return;
        }
        let mut line = line;
        if self.is_in_key {
            if let Some(mark) = END.find(line) {
                line = &line[mark.end()..];
                self.is_in_key = false;
            } else if is_of_key(line) {
                return;
            } else {
                self.is_in_key = false;
                to.push(b'\n');
            }
        } else if is_whole && is_base64(line, if self.body.is_empty() { BODY_LINE } else { 0 }) {
            let mut whole = line.to_vec();
            whole.extend(end);
            self.body_bytes += whole.len();
            self.body.push_back(whole);
            self.write_body(BODY_BYTES, to);
            return;
        } else if !self.body.is_empty()
            && END.find(line).is_some_and(|mark| line[..mark.start()].trim_ascii().is_empty())
        {
            self.body.clear();
            self.body_bytes = 0;
        }
        self.write_body(0, to);
        let (hits, is_open) = secrets(line, &self.names);
        write(line, line.len(), &hits, to);
        self.is_in_key = is_open;
        if !is_open {
            to.extend(end);
        }
    }

    /// A part of a long line; returns how much of it is decided.
    fn window(&mut self, window: &[u8], until: usize, to: &mut Vec<u8>) -> usize {
        self.is_in_key = false;
        self.write_body(0, to);
        if self.is_swallowing {
            self.passed += until;
            return until;
        }
        let (hits, _) = secrets(window, &self.names);
        let done = write(window, until, &hits, to);
        self.is_swallowing = done == window.len();
        self.passed += done;
        done
    }

    /// Writes the oldest lines that may be the body of a key, until at most so many bytes are left.
    fn write_body(&mut self, most: usize, to: &mut Vec<u8>) {
        while self.body_bytes > most
            && let Some(line) = self.body.pop_front()
        {
            self.body_bytes -= line.len();
            to.extend(line);
        }
    }
}

/// Writes the line up to `until`, or up to the end of a secret whose name starts before; returns the end.
fn write(line: &[u8], until: usize, hits: &[Hit], to: &mut Vec<u8>) -> usize {
    let mut done = 0;
    for hit in hits {
        if hit.anchor >= until {
            break;
        }
        to.extend_from_slice(&line[done..hit.start]);
        to.extend_from_slice(PLACEHOLDER.as_bytes());
        done = hit.end;
    }
    if done < until {
        to.extend_from_slice(&line[done..until]);
        done = until;
    }
    done
}

/// Whether the line can be a part of a private key in PEM, after its first line. A program may print a quote or a
/// timestamp with each line.
fn is_of_key(line: &[u8]) -> bool {
    let line = line.trim_ascii().trim_ascii_end();
    let is_header =
        line.first().is_some_and(u8::is_ascii_uppercase) && line.windows(2).any(|pair| pair == b": ");
    let last = line.rsplit(u8::is_ascii_whitespace).find(|word| word.len() > 2).unwrap_or_default();
    let last = last.strip_suffix(b",").unwrap_or(last);
    let last = last.strip_prefix(b"\"").or(last.strip_prefix(b"'")).unwrap_or(last);
    let last = last.strip_suffix(b"\"").or(last.strip_suffix(b"'")).unwrap_or(last);
    let last = last.strip_suffix(b"\\n").unwrap_or(last);
    let last = last.strip_suffix(b"\\r").unwrap_or(last);
    line.is_empty()
        || is_header
        || is_base64(line, 0) && line.len().is_multiple_of(4)
        || is_base64(last, if last.ends_with(b"=") { 4 } else { 16 })
}

fn is_base64(line: &[u8], at_least: usize) -> bool {
    let line = line.trim_ascii();
    line.len() >= at_least && line.iter().all(|byte| byte.is_ascii_alphanumeric() || b"+/=".contains(byte))
}
