//! Commands, run by real worker processes.

mod arguments;
mod census;
mod ending;
mod hostile;
mod logs;
mod reporting;
mod yard;
