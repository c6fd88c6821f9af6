//! The HTTP API: what programs ask for. It holds no rules and no SQL; it reads a request, calls the library, and writes down
//! what it answered.
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
