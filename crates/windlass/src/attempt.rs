//! The end of one attempt: the result of a run, its meaning for the job, and how it is written, regardless of what ran
//! it. Shared by the worker, the pull protocol and the reaper.
//!
//! Each step between a handler and the database has a type of its own:
//!
//! | type | what it is | where |
//! |---|---|---|
//! | `Completion` | the result of `complete_in`: a `Done` to return from the handler, or the lease was lost | `worker::context` |
//! | [`Done`](done::Done), [`Failure`](done::Failure) | what a handler reports about one job: its output, what follows, a snooze; or an error and whether to retry | here |
//! | [`RunResult`](run_result::RunResult) | the result of a run, whatever ran it, before any decision: an `Outcome` with the output and the data of the process | here |
//! | `Outcome` | how the run ended, as the worker or the reaper saw it; the input of the rule | `model::job::settle` |
//! | `Settlement` | the decision of the rule: how the attempt ended, the next state, and the counters | `model::job::settle` |
//! | `Next` | the next state in a settlement, with the delay of a retry | `model::job::settle` |
//! | `EndReason` | why, in a settlement whose cause is not obvious from the state | `model::job::settle` |
//! | `AttemptOutcome` | how an attempt ended, as it is stored and shown | `model::job::state` |
//! | `SettleEntry` | a settlement as the parameters of the statement, with the fence | `store::settle` |
//! | `UnsettledAttempt` | an entry that the settler has not written yet, with the slot that it frees | `worker::settler` |
//! | `Settled` | which entries of a statement took effect | `store::settle` |

pub(crate) mod compiled;
pub(crate) mod done;
pub(crate) mod ending;
pub(crate) mod run_result;
pub(crate) mod secrets;
