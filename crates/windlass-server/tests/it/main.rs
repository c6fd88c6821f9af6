//! The server as its users meet it: over a socket, on a real Postgres.

#![expect(clippy::unwrap_used, reason = "a panic in a test, or in what it is built from, is the report")]

mod admin;
mod audit;
mod audit_doors;
mod cli;
mod clients;
mod connections;
mod cookies;
mod credentials;
mod documents;
mod examples;
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
mod passwords;
mod pool;
mod process;
mod requests;
mod retention;
mod revoked;
mod search;
mod secrets;
mod seeds;
mod set_aside;
mod sign_in;
mod streams;
mod support;
#[cfg(feature = "otel")]
mod traces;
mod triggers;
mod why;
mod worker;
