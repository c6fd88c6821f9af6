#![expect(clippy::unwrap_used, reason = "a panic in a test, or in what it is built from, is the report")]

mod claim;
mod copy;
mod embedded;
mod enqueue;
mod hostile;
mod keep;
mod lease;
mod migrations;
mod model;
mod operator;
mod order;
mod process;
mod run;
mod settle;
mod states;
mod support;
mod unique;
