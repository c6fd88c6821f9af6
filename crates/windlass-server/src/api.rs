//! The HTTP API. It contains no rules and no SQL: it parses a request, calls the library, and writes the response.
pub(crate) mod admin;
pub(crate) mod definitions;
pub(crate) mod events;
pub(crate) mod hooks;
pub(crate) mod jobs;
pub(crate) mod me;
pub(crate) mod retention;
pub(crate) mod schema;
pub(crate) mod triggers;
pub(crate) mod worker;
