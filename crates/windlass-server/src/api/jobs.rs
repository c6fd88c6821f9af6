//! A tenant's jobs: `/api/v1/jobs`.

pub(crate) mod bulk;
pub(crate) mod enqueue;
pub(crate) mod filter;
pub(crate) mod list;
pub(crate) mod one;
pub(crate) mod streams;
