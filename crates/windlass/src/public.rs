//! The public modules that gather names of several rooms by what a user does with them. Nothing is defined here. The rooms `keeper`,
//! `pull`, `setup`, `testing`, `webhook` and `worker` are public modules themselves.

pub mod admin;
pub mod events;
pub mod internals;
pub mod job;
pub mod redact;
pub mod retention;
pub mod schedule;
