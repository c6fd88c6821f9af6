//! Test support.

mod extent;
mod plain;
mod postgres;
mod queue;
mod wait;

pub use extent::{is_full, sample, times};
pub use plain::Plain;
pub use postgres::{TestDatabase, TestServer};
pub use queue::{TestQueue, migrated, settings};
pub use wait::eventually;
