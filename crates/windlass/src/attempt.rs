//! One attempt from its end: what a run says, what that means for its job, and how it is written, whoever ran it. Shared by the
//! worker, the pull protocol and the reaper.

pub(crate) mod done;
pub(crate) mod ending;
pub(crate) mod known;
pub(crate) mod run_result;
pub(crate) mod secrets;
