//! What is wrong with a JSON text, and where.

use std::fmt;

use super::LONGEST_NUMBER;

/// A refusal, with the place as an RFC 6901 pointer: empty for the document itself. A fault in an object's member name
/// points to the object. Long names in the pointer are cut and control characters replaced, so that it can be shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JsonRefused {
    /// The place, as a JSON pointer.
    pub pointer: String,
    /// What is wrong there.
    pub problem: JsonProblem,
}

/// What is wrong; never repeats the text, which may be secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum JsonProblem {
    /// It has too many bytes.
    #[error("JSON of {bytes} bytes is over the limit of {limit}")]
    TooLarge {
        /// How many it has.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// It is nested too deeply.
    #[error("JSON is nested deeper than {limit} levels")]
    TooDeep {
        /// The limit.
        limit: usize,
    },
    /// It has too many values.
    #[error("JSON holds more than {limit} values")]
    TooManyValues {
        /// The limit.
        limit: usize,
    },
    /// It has a NUL character.
    #[error("text holds the NUL character, which cannot be stored")]
    Nul,
    /// It has half of a surrogate pair.
    #[error("text holds half of a surrogate pair")]
    LoneSurrogate,
    /// It has a number that Postgres cannot store.
    #[error("number is longer than {LONGEST_NUMBER} characters or outside the range of a 64-bit float")]
    Number,
    /// It is not JSON.
    #[error("not valid JSON: expected {expected} at byte {at}")]
    Syntax {
        /// The byte offset.
        at: usize,
        /// What was expected.
        expected: &'static str,
    },
}

impl std::error::Error for JsonRefused {}

impl fmt::Display for JsonRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pointer, problem } = self;
        if pointer.is_empty() { write!(f, "{problem}") } else { write!(f, "{problem} (at {pointer})") }
    }
}
