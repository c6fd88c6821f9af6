//! The operations of operators and of the server: each in its own kind of transaction ([`transaction`]), on jobs,
//! triggers, events, retention, tenants and accounts; and the reports.

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
