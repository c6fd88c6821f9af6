//! Runs programs of the worker's own configuration. A job names a key; what runs for it, and how, is in the file.
//!
//! Its parts, each a file below: `spec` is one command as the file describes it, `argv` and `environment` make from it
//! what runs for one job, `pool` keeps the supervising processes (`shim`), `run` follows one run and `report`, `tail` and
//! `exit` make of it what is kept.

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

pub use shim::run_shim_if_asked;
pub use spec::CommandSpec;

use super::context::Context;
use super::handler::{AnyHandler, Run};
use crate::error::{Error, Result};
use crate::model::definition::Definition;
use pool::Pool;

/// The commands as handlers, sharing their supervisors.
pub(crate) fn handlers(specs: impl IntoIterator<Item = CommandSpec>) -> Vec<Arc<dyn AnyHandler>> {
    let pool = Arc::new(Pool::default());
    let handler = |spec| -> Arc<dyn AnyHandler> { Arc::new(Command { spec, pool: pool.clone() }) };
    specs.into_iter().map(handler).collect()
}

/// A program that was not prepared for it would start itself again and again.
pub(crate) fn check_program() -> Result<()> {
    if shim::is_ready() { Ok(()) } else { Err(Error::NoShim) }
}

/// One command as a kind of job.
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

    /// A command that is told to stop has to be seen dead before anybody else may start the job.
    fn ends_by_itself(&self) -> bool {
        true
    }

    fn run(&self, jobs: Vec<Context>) -> Run<'_> {
        Box::pin(async move {
            let mut finishes = Vec::with_capacity(jobs.len());
            for job in &jobs {
                finishes.push(run::run(&self.spec, &self.pool, job).await);
            }
            finishes
        })
    }
}
