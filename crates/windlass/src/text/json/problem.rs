//! Faults in JSON text, with their location.

use std::fmt;

use super::MAX_NUMBER_LENGTH;

/// A fault with its location as an RFC 6901 pointer: empty for the document itself. For a fault in a name of an object,
/// the pointer is that of the object. Long names in the pointer are truncated and control characters replaced, so that
/// it can be shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JsonRefused {
    /// The location, as a JSON pointer.
    pub pointer: String,
    /// The fault.
    pub problem: JsonProblem,
}

/// The fault; it never contains the text, which may be secret.
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
    #[error("JSON is nested more than {limit} levels")]
    TooDeep {
        /// The limit.
        limit: usize,
    },
    /// It has too many values.
    #[error("JSON has more than {limit} values")]
    TooManyValues {
        /// The limit.
        limit: usize,
    },
    /// It has a NUL character.
    #[error("text must not contain the NUL character")]
    Nul,
    /// It has half of a surrogate pair.
    #[error("string contains an unpaired surrogate")]
    LoneSurrogate,
    /// It has a number that Postgres cannot store.
    #[error("number is longer than {MAX_NUMBER_LENGTH} characters or outside the range of a 64-bit float")]
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
