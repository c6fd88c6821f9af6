//! The server as its users meet it: over a socket, on a real Postgres.

mod cli;
mod health;
mod metrics;
mod support;
