//! The pure rules of a job's life. Nothing here awaits, queries, logs or reads a clock: what time it is and what was drawn
//! at random come in as arguments, so every rule can be tested to the corners and means the same wherever it is asked.

pub mod state;

pub mod settle;

pub(crate) mod backoff;
pub(crate) mod claimed;

pub(crate) mod unique;
