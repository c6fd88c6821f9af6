//! Test support.

mod extent;
mod login;
mod place;
mod plain;
mod postgres;
mod queue;
mod running;
mod wait;

pub use extent::{is_full, sample, some_of, times};
pub use login::Login;
pub use plain::{AnyJson, Plain};
pub use postgres::{TestDatabase, TestServer};
pub use queue::{CONTENT, DEFAULTS, INSTALLER, TestQueue, migrated, settings};
/// Functions in `public` that match better than those of `pg_catalog`, and fail when they run.
pub const SHADOWS: &str = include_str!("shadows.sql");

pub use wait::{eventually, holds_in_time, until_a_session_waits, until_waits_or_ends, waiting_for_locks};
