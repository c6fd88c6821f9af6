#![expect(clippy::unwrap_used, reason = "a panic in a test, or in what it is built from, is the report")]

mod access;
mod demo;
mod documents;
mod embedded;
mod hot_tables;
mod late_claim;
mod list;
mod partitions;
mod plans;
mod smoke;
mod sqlx;
mod statements;
