//! The server as its users see it: over a socket, on a real Postgres.

#![expect(clippy::unwrap_used, reason = "a panic in a test or its helpers is the report")]

mod admin;
mod anonymous;
mod audit;
mod audit_entry_points;
mod bulk;
mod cli;
mod clients;
mod connections;
mod contention;
mod cookies;
mod creators;
mod credentials;
mod documents;
mod ended;
mod examples;
mod forms;
mod grants;
mod health;
mod hooks;
mod identity;
mod invitations;
mod jobs;
mod limits;
mod matrix;
mod metrics;
mod neighbour;
mod openapi;
mod pages;
mod parameters;
mod passwords;
mod pool;
mod process;
mod requests;
mod retention;
mod revoked;
mod search;
mod secrets;
mod set_aside;
mod sign_in;
mod slow;
mod streams;
mod support;
mod systems;
#[cfg(feature = "otel")]
mod traces;
mod triggers;
mod unmatched;
mod waiting;
mod why;
mod words;
mod worker;
