//! What operators and the server do: each in a transaction of its own kind ([`transaction`]), on jobs, triggers, events,
//! retention, tenants and people, and what they read.

pub(crate) mod admin;
pub(crate) mod application;
mod audit;
pub(crate) mod events;
pub(crate) mod jobs;
pub(crate) mod logs;
mod payload;
mod reports;
pub(crate) mod retention;
pub(crate) mod transaction;
mod triggers;
