//! Test support.

mod postgres;
mod queue;
mod wait;

pub use postgres::{TestDatabase, TestServer};
pub use queue::{TestQueue, migrated, settings};
pub use wait::eventually;
