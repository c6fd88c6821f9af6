//! A durable, multi-tenant job queue on Postgres.

pub mod embedded;
