//! Everything the `windlass` binary is made of.

#![allow(unused_qualifications, reason = "the expansion of utoipa's macros trips it at our own types")]

pub mod api;
pub mod auth;
pub mod http;
pub mod server;
