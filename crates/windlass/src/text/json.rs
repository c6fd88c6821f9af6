//! Limits of JSON from outside: payloads, results, definitions, events.
//!
//! Text that passes these checks can be parsed by us, stored by Postgres as `jsonb` and read back. `jsonb` rejects
//! `\u0000` and lone surrogates, and stores numbers as decimals, so that the eight bytes `1e131071` are read back as
//! 131 072 digits; deep nesting and very many small values cost every reader far more than their size suggests.
//!
//! The text is scanned once and nothing is built, because every enqueue does this: a 200-byte payload takes 0.3 to 0.4
//! µs optimized (measured by `a_small_payload_is_checked_quickly`). The path of a fault is built only when a scan
//! fails. A duplicate name in an object is accepted: the last one counts, as in `serde_json` and `jsonb`. A payload is
//! stored as text, so there the others are removed ([`checked`]): otherwise a reader that uses the first one would see
//! another job than the list shows.

mod names;
mod problem;

pub use problem::{JsonProblem, JsonRefused};

use crate::error::Error;

impl Error {
    /// An error for a field with invalid JSON.
    pub(crate) fn json(field: &str, refused: JsonRefused) -> Self {
        Self::Refused {
            field: field.to_owned(),
            pointer: Some(refused.pointer),
            message: refused.problem.to_string(),
        }
    }
}

/// Rejects text that is not JSON or exceeds the limits, with the location.
pub fn check(text: &str, limits: &JsonLimits) -> Result<(), JsonRefused> {
    scan(text, limits).map(drop)
}

/// The text unchanged, except that duplicate names in an object are removed: the last one is kept.
pub(crate) fn checked(text: String, limits: &JsonLimits) -> Result<String, JsonRefused> {
    match scan(&text, limits)? {
        Names::Once => Ok(text),
        Names::MayRepeat => Ok(names::last_of_each(&text)),
    }
}

enum Names {
    Once,
    /// Or contain an escape, which would have to be decoded to compare them.
    MayRepeat,
}

fn scan(text: &str, limits: &JsonLimits) -> Result<Names, JsonRefused> {
    if text.len() > limits.max_bytes {
        let problem = JsonProblem::TooLarge { bytes: text.len(), limit: limits.max_bytes };
        return Err(JsonRefused { pointer: String::new(), problem });
    }
    let max_depth = limits.max_depth.min(MAX_DEPTH);
    let mut scan = Scan {
        text,
        bytes: text.as_bytes(),
        at: 0,
        nodes: 0,
        max_depth,
        max_nodes: limits.max_nodes,
        names: Vec::new(),
        may_repeat: false,
    };
    scan.document().map_err(|fault| fault.refused())?;
    Ok(if scan.may_repeat { Names::MayRepeat } else { Names::Once })
}

/// The limits of a JSON text that is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JsonLimits {
    /// The maximum size in bytes.
    pub max_bytes: usize,
    /// The maximum nesting of arrays and objects; at most 127, the limit of our own parser.
    pub max_depth: usize,
    /// The maximum number of values of any kind in the whole document, including arrays and objects.
    pub max_nodes: usize,
}

impl Default for JsonLimits {
    fn default() -> Self {
        Self { max_bytes: 1024 * 1024, max_depth: 32, max_nodes: 10_000 }
    }
}

/// The limit of `serde_json` is 128; text that it cannot parse is useless, and our own recursion stays small.
pub(crate) const MAX_DEPTH: usize = 127;
const MAX_NUMBER_LENGTH: usize = 64;
/// Larger than any exponent of a float. It limits zeros too, which are finite with any exponent but not short in
/// `jsonb`.
const LARGEST_EXPONENT: u32 = 400;
const MAX_SEGMENT_LENGTH: usize = 64;

struct Scan<'a> {
    text: &'a str,
    bytes: &'a [u8],
    at: usize,
    nodes: usize,
    max_depth: usize,
    max_nodes: usize,
    /// The names of the open objects, as written; a stack, so that most documents need one allocation.
    names: Vec<&'a str>,
    may_repeat: bool,
}

type Scanned = Result<(), Box<Fault>>;

impl<'a> Scan<'a> {
    fn document(&mut self) -> Scanned {
        self.skip_space();
        self.value(0)?;
        self.skip_space();
        if self.at == self.bytes.len() { Ok(()) } else { self.expected("the end") }
    }

    fn value(&mut self, depth: usize) -> Scanned {
        self.nodes += 1;
        if self.nodes > self.max_nodes {
            return fault(JsonProblem::TooManyValues { limit: self.max_nodes });
        }
        match self.peek() {
            Some(b'"') => self.string(),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b'{') => self.object(depth + 1),
            Some(b'[') => self.array(depth + 1),
            Some(b't') => self.word("true"),
            Some(b'f') => self.word("false"),
            Some(b'n') => self.word("null"),
            Some(_) | None => self.expected("a value"),
        }
    }

    fn object(&mut self, depth: usize) -> Scanned {
        if self.opens_empty(depth, b'}')? {
            return Ok(());
        }
        let outer_names = self.names.len();
        loop {
            let name = self.at;
            if self.peek() != Some(b'"') {
                return self.expected("a member's name");
            }
            self.string()?;
            let text: &'a str = self.text;
            let name = &text[name..self.at];
            self.names.push(name);
            self.skip_space();
            if self.peek() != Some(b':') {
                return self.expected("`:`");
            }
            self.at += 1;
            self.skip_space();
            self.value(depth).map_err(|fault| fault.inside(name_segment(name)))?;
            if !self.continues(b'}', "`,` or `}`")? {
                self.may_repeat |= names::may_repeat(&mut self.names[outer_names..]);
                self.names.truncate(outer_names);
                return Ok(());
            }
        }
    }

    fn array(&mut self, depth: usize) -> Scanned {
        if self.opens_empty(depth, b']')? {
            return Ok(());
        }
        for index in 0_usize.. {
            self.value(depth).map_err(|fault| fault.inside(index.to_string()))?;
            if !self.continues(b']', "`,` or `]`")? {
                break;
            }
        }
        Ok(())
    }

    fn opens_empty(&mut self, depth: usize, close: u8) -> Result<bool, Box<Fault>> {
        if depth > self.max_depth {
            fault(JsonProblem::TooDeep { limit: self.max_depth })?;
        }
        self.at += 1;
        self.skip_space();
        let empty = self.peek() == Some(close);
        self.at += usize::from(empty);
        Ok(empty)
    }

    /// Skips the comma before the next element, or the end of the container.
    fn continues(&mut self, close: u8, expected: &'static str) -> Result<bool, Box<Fault>> {
        self.skip_space();
        let found = self.peek();
        if found != Some(b',') && found != Some(close) {
            self.expected(expected)?;
        }
        self.at += 1;
        self.skip_space();
        Ok(found == Some(b','))
    }

    fn string(&mut self) -> Scanned {
        self.at += 1;
        loop {
            let rest = &self.bytes[self.at..];
            self.at += rest.iter().position(|&byte| ENDS_PLAIN_TEXT[usize::from(byte)]).unwrap_or(rest.len());
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(());
                }
                Some(b'\\') => self.escape()?,
                Some(_) => return self.expected("an escape in place of a control character"),
                None => return self.expected("the end of a string"),
            }
        }
    }

    fn escape(&mut self) -> Scanned {
        match self.bytes.get(self.at + 1) {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => {
                self.at += 2;
                Ok(())
            }
            Some(b'u') => match self.unit()? {
                0 => fault(JsonProblem::Nul),
                0xD800..=0xDBFF => {
                    let follows = self.bytes[self.at..].starts_with(b"\\u");
                    let low = if follows { self.unit()? } else { 0 };
                    if matches!(low, 0xDC00..=0xDFFF) { Ok(()) } else { fault(JsonProblem::LoneSurrogate) }
                }
                0xDC00..=0xDFFF => fault(JsonProblem::LoneSurrogate),
                1..=0xD7FF | 0xE000..=0xFFFF => Ok(()),
            },
            Some(_) | None => self.expected("a known escape"),
        }
    }

    /// The UTF-16 unit of the `\uXXXX` that starts here.
    fn unit(&mut self) -> Result<u16, Box<Fault>> {
        let mut unit = 0;
        for offset in 2..6 {
            let Some(digit) =
                self.bytes.get(self.at + offset).and_then(|&byte| char::from(byte).to_digit(16))
            else {
                self.expected("four hexadecimal digits")?;
                break;
            };
            unit = unit << 4 | digit as u16;
        }
        self.at += 6;
        Ok(unit)
    }

    fn number(&mut self) -> Scanned {
        let start = self.at;
        self.at += usize::from(self.peek() == Some(b'-'));
        match self.peek() {
            Some(b'0') => self.at += 1,
            Some(_) | None => self.digits()?,
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        let mut in_range = true;
        if matches!(self.peek(), Some(b'e' | b'E')) {
            let mantissa = start..self.at;
            self.at += 1;
            self.at += usize::from(matches!(self.peek(), Some(b'+' | b'-')));
            let exponent = self.at;
            self.digits()?;
            in_range = self.at - start <= MAX_NUMBER_LENGTH
                && self.text[exponent..self.at].parse().is_ok_and(|size: u32| size <= LARGEST_EXPONENT)
                && fits_a_float(&self.text[start..self.at], &self.text[mantissa]);
        }
        if in_range && self.at - start <= MAX_NUMBER_LENGTH { Ok(()) } else { fault(JsonProblem::Number) }
    }

    fn digits(&mut self) -> Scanned {
        let count = self.bytes[self.at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        self.at += count;
        if count > 0 { Ok(()) } else { self.expected("a digit") }
    }

    fn word(&mut self, word: &'static str) -> Scanned {
        if !self.bytes[self.at..].starts_with(word.as_bytes()) {
            return self.expected("a value");
        }
        self.at += word.len();
        Ok(())
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn skip_space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\n' | b'\r' | b'\t')) {
            self.at += 1;
        }
    }

    #[cold]
    fn expected(&self, expected: &'static str) -> Scanned {
        fault(JsonProblem::Syntax { at: self.at, expected })
    }
}

const ENDS_PLAIN_TEXT: [bool; 256] = {
    let mut ends = [false; 256];
    let mut control = 0;
    while control < 0x20 {
        ends[control] = true;
        control += 1;
    }
    ends[b'"' as usize] = true;
    ends[b'\\' as usize] = true;
    ends
};

/// Neither infinite nor so small that it becomes zero.
fn fits_a_float(number: &str, mantissa: &str) -> bool {
    let is_zero = !mantissa.bytes().any(|byte| matches!(byte, b'1'..=b'9'));
    number.parse().is_ok_and(|value: f64| value.is_finite() && (value != 0.0 || is_zero))
}

/// A fault while it is returned; it collects the path from the inside.
#[derive(Debug)]
struct Fault {
    problem: JsonProblem,
    segments: Vec<String>,
}

#[cold]
fn fault(problem: JsonProblem) -> Scanned {
    Err(Box::new(Fault { problem, segments: Vec::new() }))
}

impl Fault {
    fn inside(mut self: Box<Self>, segment: String) -> Box<Self> {
        self.segments.push(segment);
        self
    }

    fn refused(&self) -> JsonRefused {
        let mut pointer = String::new();
        for segment in self.segments.iter().rev() {
            pointer.push('/');
            pointer.push_str(&segment.replace('~', "~0").replace('/', "~1"));
        }
        JsonRefused { pointer, problem: self.problem }
    }
}

#[cold]
fn name_segment(quoted: &str) -> String {
    let name: String = serde_json::from_str(quoted).unwrap_or_default();
    let shown = |c: char| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c };
    let mut segment: String = name.chars().take(MAX_SEGMENT_LENGTH).map(shown).collect();
    if name.chars().nth(MAX_SEGMENT_LENGTH).is_some() {
        segment.push('…');
    }
    segment
}

#[cfg(test)]
mod tests;
