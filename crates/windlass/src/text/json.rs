//! Limits on JSON that enters from anywhere: payloads, results, definitions, events.
//!
//! What passes here can be parsed by us, read by Postgres as `jsonb` and read back without surprise. `jsonb` refuses
//! `\u0000` and lone surrogates, and it keeps numbers as decimals, so that the eight bytes `1e131071` come back as 131 072
//! digits; deep nesting and a great many small values cost every later reader far more than their bytes suggest.
//!
//! The text is scanned once and nothing is built, because this stands in the way of every enqueue: a 200-byte payload takes
//! 0.3 to 0.4 µs optimised (measured again by `a_small_payload_is_checked_quickly`). The path to a fault is put together only
//! on the way out of a failed scan. A name that occurs twice in an object is let through: the last one counts, as for
//! `serde_json` and `jsonb`. A payload is stored as text, so there the others are left out ([`checked`]): a reader who took
//! the first one would otherwise see another job than the list shows.

mod names;
mod problem;

pub use problem::{JsonProblem, JsonRefused};

use crate::error::Error;

impl Error {
    /// A field whose JSON was refused.
    pub(crate) fn json(field: &str, refused: JsonRefused) -> Self {
        Self::Refused {
            field: field.to_owned(),
            pointer: Some(refused.pointer),
            message: refused.problem.to_string(),
        }
    }
}

/// Refuses text that is not JSON or goes beyond the limits, saying where.
pub fn check(text: &str, limits: &JsonLimits) -> Result<(), JsonRefused> {
    scan(text, limits).map(drop)
}

/// The text as it was written, except that a name stands only once in an object: the last one.
pub(crate) fn checked(text: String, limits: &JsonLimits) -> Result<String, JsonRefused> {
    match scan(&text, limits)? {
        Names::Once => Ok(text),
        Names::MayRepeat => Ok(names::last_of_each(&text)),
    }
}

enum Names {
    Once,
    /// Or are written with an escape, so that telling would take more than looking.
    MayRepeat,
}

fn scan(text: &str, limits: &JsonLimits) -> Result<Names, JsonRefused> {
    if text.len() > limits.max_bytes {
        let problem = JsonProblem::TooLarge { bytes: text.len(), limit: limits.max_bytes };
        return Err(JsonRefused { pointer: String::new(), problem });
    }
    let max_depth = limits.max_depth.min(DEEPEST);
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
    /// The most bytes.
    pub max_bytes: usize,
    /// Arrays and objects inside one another; never more than 127, where our own parser stops.
    pub max_depth: usize,
    /// Values of any kind in the whole document, counting arrays and objects too.
    pub max_nodes: usize,
}

impl Default for JsonLimits {
    fn default() -> Self {
        Self { max_bytes: 1024 * 1024, max_depth: 32, max_nodes: 10_000 }
    }
}

/// `serde_json` gives up at 128; what it cannot read back is of no use, and our own recursion stays small.
pub(crate) const DEEPEST: usize = 127;
const LONGEST_NUMBER: usize = 64;
/// Larger than any exponent of a float. It bounds zeros too, which are finite under every exponent but not short in `jsonb`.
const LARGEST_EXPONENT: u32 = 400;
const LONGEST_SEGMENT: usize = 64;

struct Scan<'a> {
    text: &'a str,
    bytes: &'a [u8],
    at: usize,
    nodes: usize,
    max_depth: usize,
    max_nodes: usize,
    /// As written, of the objects that are open; a stack, so that most documents cost one allocation.
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
            if !self.goes_on(b'}', "`,` or `}`")? {
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
            if !self.goes_on(b']', "`,` or `]`")? {
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

    /// Past the comma to the next element, or past the end of the container.
    fn goes_on(&mut self, close: u8, expected: &'static str) -> Result<bool, Box<Fault>> {
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
            in_range = self.at - start <= LONGEST_NUMBER
                && self.text[exponent..self.at].parse().is_ok_and(|size: u32| size <= LARGEST_EXPONENT)
                && fits_a_float(&self.text[start..self.at], &self.text[mantissa]);
        }
        if in_range && self.at - start <= LONGEST_NUMBER { Ok(()) } else { fault(JsonProblem::Number) }
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

/// A problem on its way out, gathering the path from the inside.
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
    let mut segment: String = name.chars().take(LONGEST_SEGMENT).map(shown).collect();
    if name.chars().nth(LONGEST_SEGMENT).is_some() {
        segment.push('…');
    }
    segment
}

#[cfg(test)]
mod tests;
