//! Test support.

mod extent;
mod login;
mod plain;
mod postgres;
mod queue;
mod wait;

pub use extent::{is_full, sample, times};
pub use login::Login;
pub use plain::{AnyJson, Plain};
pub use postgres::{TestDatabase, TestServer};
pub use queue::{CONTENT, DEFAULTS, TestQueue, migrated, settings};
pub use wait::{eventually, until_somebody_waits, until_waits_or_ends, waiting_for_locks};
