//! The end of one attempt: the result of a run, its meaning for the job, and how it is written, regardless of what ran
//! it. Shared by the worker, the pull protocol and the reaper.

pub(crate) mod done;
pub(crate) mod ending;
pub(crate) mod known;
pub(crate) mod run_result;
pub(crate) mod secrets;
