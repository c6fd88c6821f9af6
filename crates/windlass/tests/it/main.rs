#![expect(clippy::unwrap_used, reason = "a panic in a test, or in what it is built from, is the report")]

mod access;
mod claim;
mod copy;
mod doctor;
mod documents;
mod embedded;
mod enqueue;
mod event;
mod hostile;
mod hot_tables;
#[cfg(feature = "http-jobs")]
mod http;
mod keep;
mod lease;
mod line;
mod list;
mod log;
mod migrations;
mod model;
mod operator;
mod order;
mod partitions;
mod plans;
mod process;
mod pull;
mod quota;
mod retention;
mod run;
mod schedule;
mod seeds;
mod settle;
mod sqlx;
mod statements;
mod states;
mod support;
mod unique;
