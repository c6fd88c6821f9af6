//! The pages of `docs/` that people follow with their fingers: every block is run, in the page's order.

mod process;
