//! A durable, multi-tenant job queue on Postgres.

pub mod job;
pub mod json;
pub mod text;
pub mod worker;
