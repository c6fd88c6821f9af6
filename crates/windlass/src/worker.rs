//! What a worker does with its free slots.

pub mod fair;
