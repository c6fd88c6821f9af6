//! What a worker knows of each kind of job it can run: its handler, and its definition's policies as last read.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use super::handler::AnyHandler;
use super::running::Slot;
use super::settler::Ended;
use crate::attempt::finish::Finish;
use crate::attempt::known::Known;
use crate::model::job::claimed::Claimed;
use crate::telemetry::Meters;

/// One kind of job this worker can run.
pub(crate) struct Kind {
    pub(crate) handler: Arc<dyn AnyHandler>,
    pub(crate) known: RwLock<Arc<Known>>,
    pub(crate) meters: Arc<Meters>,
}

impl std::fmt::Debug for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Kind").finish_non_exhaustive()
    }
}

/// What one run takes from its kind, as it is now.
pub(crate) struct Kit {
    pub(crate) handler: Arc<dyn AnyHandler>,
    pub(crate) known: Arc<Known>,
    pub(crate) meters: Arc<Meters>,
}

impl Kit {
    pub(crate) fn end(&self, claimed: Arc<Claimed>, slot: Slot, finish: Finish, ran: Duration) -> Ended {
        Ended::new(claimed, slot, self.known.policies.clone(), self.meters.clone(), finish, ran)
    }
}

impl Kind {
    pub(crate) fn kit(&self) -> Kit {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner).clone();
        Kit { handler: self.handler.clone(), known, meters: self.meters.clone() }
    }
}
