//! The server as its users meet it: over a socket, on a real Postgres.

#![expect(clippy::unwrap_used, reason = "a panic in a test, or in what it is built from, is the report")]

mod admin;
mod audit;
mod cli;
mod clients;
mod documents;
mod examples;
mod health;
mod hooks;
mod identity;
mod jobs;
mod limits;
mod matrix;
mod metrics;
mod openapi;
mod process;
mod retention;
mod secrets;
mod seeds;
mod support;
#[cfg(feature = "otel")]
mod traces;
mod triggers;
mod why;
mod worker;
