//! The worker's data of each definition that it has a handler for: the handler, and the policies as last read.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::RwLock;

use super::handler::AnyHandler;
use super::running::Slot;
use super::settler::UnsettledAttempt;
use crate::attempt::compiled::CompiledDefinition;
use crate::attempt::ending;
use crate::attempt::run_result::RunResult;
use crate::model::job::claimed::Claimed;
use crate::model::job::settle::Retry;
use crate::telemetry::Meters;

/// One definition that this worker has a handler for.
pub(crate) struct HandledDefinition {
    pub(crate) handler: Arc<dyn AnyHandler>,
    pub(crate) compiled: RwLock<Arc<CompiledDefinition>>,
    pub(crate) meters: Arc<Meters>,
}

impl std::fmt::Debug for HandledDefinition {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HandledDefinition").finish_non_exhaustive()
    }
}

/// The current data of a definition that one run needs.
pub(crate) struct DefinitionSnapshot {
    pub(crate) handler: Arc<dyn AnyHandler>,
    pub(crate) compiled: Arc<CompiledDefinition>,
    pub(crate) meters: Arc<Meters>,
}

impl DefinitionSnapshot {
    /// Decides how an attempt ends; the settler writes it.
    pub(crate) fn end(
        &self,
        claimed: Arc<Claimed>,
        slot: Slot,
        result: RunResult,
        ran: Duration,
    ) -> UnsettledAttempt {
        let is_settled = result.done.is_settled;
        let result = if is_settled {
            // It was settled in its own transaction. If that was committed, this end comes too late and changes
            // nothing.
            let error = "the transaction given to complete_in was not committed";
            RunResult { progress: result.progress, ..RunResult::failed(Retry::ByPolicy, error) }
        } else {
            result
        };
        let policies = self.compiled.policies.clone();
        let (ending, outcome, next) = ending::decide(&claimed, &policies, &result, ran);
        let meters = self.meters.clone();
        UnsettledAttempt {
            claimed,
            slot,
            keeps_slot: false,
            policies,
            ending,
            outcome,
            next,
            ran,
            meters,
            is_settled,
        }
    }
}

impl HandledDefinition {
    pub(crate) fn snapshot(&self) -> DefinitionSnapshot {
        let compiled = self.compiled.read().clone();
        DefinitionSnapshot { handler: self.handler.clone(), compiled, meters: self.meters.clone() }
    }
}
