//! Runs programs of the worker's configuration. A job specifies a key; the file specifies the program and how to run
//! it.
//!
//! Its parts are the files below: `spec` is one command of the file, `argv` and `environment` derive from it what runs
//! for one job, `pool` manages the supervising processes (`shim`), `run` follows one run, and `report`, `tail` and
//! `exit` compute the stored result.

mod argv;
mod environment;
mod exit;
mod link;
mod message;
mod pool;
mod report;
mod run;
mod scratch;
mod shim;
mod spawn;
mod spec;
mod sweep;
mod sys;
mod tail;

use std::sync::Arc;

pub use shim::run_shim_if_requested;
pub use spec::CommandSpec;

use super::context::Context;
use super::handler::{AnyHandler, RunFuture};
use crate::error::{Error, Result};
use crate::model::definition::Definition;
use pool::Pool;

/// Returns the commands as handlers that share their supervisors.
pub(crate) fn handlers(specs: impl IntoIterator<Item = CommandSpec>) -> Vec<Arc<dyn AnyHandler>> {
    let pool = Arc::new(Pool::default());
    let handler = |spec| -> Arc<dyn AnyHandler> { Arc::new(Command { spec, pool: pool.clone() }) };
    specs.into_iter().map(handler).collect()
}

/// A program that was not prepared for this would start itself again and again.
pub(crate) fn check_program() -> Result<()> {
    if shim::is_ready() { Ok(()) } else { Err(Error::NoShim) }
}

/// One command as a handler.
struct Command {
    spec: CommandSpec,
    pool: Arc<Pool>,
}

impl AnyHandler for Command {
    fn definition(&self) -> Definition {
        self.spec.definition.clone()
    }

    fn batch(&self) -> usize {
        1
    }

    /// A command that is requested to stop must have exited before another worker may start the job.
    fn ends_by_itself(&self) -> bool {
        true
    }

    fn run(&self, jobs: Vec<Context>) -> RunFuture<'_> {
        Box::pin(async move {
            let mut finishes = Vec::with_capacity(jobs.len());
            for job in &jobs {
                finishes.push(run::run(&self.spec, &self.pool, job).await);
            }
            finishes
        })
    }
}
