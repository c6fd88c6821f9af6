//! The server, the web UI and the command line of the `windlass` binary.

#![allow(unused_qualifications, reason = "the expansion of utoipa's macros trips it at our own types")]

pub mod api;
pub mod auth;
pub mod cli;
pub mod config;
pub mod hooks;
pub mod http;
mod logs;
pub mod metrics;
mod plain;
pub mod server;
#[cfg(feature = "otel")]
pub mod traces;
mod unique;
mod web;
