//! Everything the `windlass` binary is made of.
