//! Test support.

mod postgres;
mod wait;

pub use postgres::{TestDatabase, TestServer};
pub use wait::eventually;
