//! The pure rules of the life of a job. Nothing here awaits, queries, logs or reads a clock: the time and random
//! numbers are passed as arguments, so that every rule can be tested completely and is the same everywhere.

pub mod state;

pub mod settle;

pub(crate) mod backoff;
pub(crate) mod claimed;

pub(crate) mod unique;
