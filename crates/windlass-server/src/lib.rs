//! The server, the web UI and the command line of the `windlass` binary.
//!
//! The binary is the product. What is public here serves it and its tests, and any release may change it; applications use
//! the crate `windlass`, and other programs the HTTP API.

#![deny(missing_docs)]
#![allow(unused_qualifications, reason = "the expansion of utoipa's macros trips it at our own types")]

mod api;
pub mod auth;
pub mod cli;
pub mod config;
pub mod hooks;
pub mod http;
mod logs;
pub mod metrics;
mod parser_messages;
pub mod server;
mod strict_json;
#[cfg(feature = "otel")]
pub mod traces;
mod web;
