//! Pure values and rules. Nothing here awaits, queries, logs, reads a clock or spawns: all input is passed as
//! arguments.

pub(crate) mod account;
pub(crate) mod actor;
pub(crate) mod audit;
pub(crate) mod cron;
pub(crate) mod definition;
pub(crate) mod doctor;
pub(crate) mod duty;
pub(crate) mod event;
pub(crate) mod filter;
pub mod instant;
pub(crate) mod job;
pub(crate) mod log;
pub(crate) mod new_job;
pub(crate) mod overview;
pub(crate) mod record;
pub(crate) mod report;
pub(crate) mod server_version;
pub(crate) mod template;
pub(crate) mod tenant;
pub(crate) mod token;
pub(crate) mod trace;
pub(crate) mod trigger;
pub(crate) mod why;
