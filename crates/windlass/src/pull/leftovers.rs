//! Claimed jobs that reach no worker: their caller has disconnected, or their payload does not match their definition.
//! A separate task writes how they end, so that the leftovers of one tenant do not keep the dispatcher from serving the
//! others.
//!
//! It stops when the dispatcher was dropped and everything is written.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::{Notify, mpsc};

use super::ending::{BRIEFLY, PullSettler};
use crate::attempt::compiled::CompiledDefinition;
use crate::attempt::ending::released;
use crate::attempt::run_result::RunResult;
use crate::model::job::claimed::{Claimed, Fence};
use crate::store::database::Database;
use crate::telemetry::{self, Meters};

/// A group with this many leftovers gets no more jobs until some are written.
const MAX: usize = 200;

pub(super) enum Leftover {
    /// No claim waits for it: it is queued again, not counted as a failure.
    Unclaimed(Fence),
    Refused(Box<Refused>),
}

/// A job whose payload does not match its definition, and how it ends.
pub(super) struct Refused {
    pub(super) claimed: Claimed,
    pub(super) compiled: Arc<CompiledDefinition>,
    pub(super) meters: Arc<Meters>,
    pub(super) refusal: RunResult,
}

/// The number of leftovers of one group that are not written yet.
#[derive(Debug, Clone, Default)]
pub(super) struct Backlog(Arc<AtomicUsize>);

impl Backlog {
    pub(super) fn is_full(&self) -> bool {
        self.0.load(Ordering::Acquire) >= MAX
    }
}

/// The sending side, for the dispatcher.
pub(super) struct Leftovers {
    sender: mpsc::UnboundedSender<(Leftover, Backlog)>,
    written: Arc<Notify>,
}

/// The task that writes them.
pub(super) struct Writer {
    database: Database,
    arriving: mpsc::UnboundedReceiver<(Leftover, Backlog)>,
    written: Arc<Notify>,
}

pub(super) fn leftovers(database: Database) -> (Leftovers, Writer) {
    let (sender, arriving) = mpsc::unbounded_channel();
    let written = Arc::new(Notify::new());
    (Leftovers { sender, written: written.clone() }, Writer { database, arriving, written })
}

impl Leftovers {
    pub(super) fn leave(&self, leftover: Leftover, backlog: &Backlog) {
        backlog.0.fetch_add(1, Ordering::AcqRel);
        // The writer outlives the dispatcher.
        let _ = self.sender.send((leftover, backlog.clone()));
    }

    /// Waits until a group whose backlog was full may be served again.
    pub(super) async fn made_room(&self) {
        self.written.notified().await;
    }
}

impl Writer {
    pub(super) async fn run(mut self) {
        while let Some((leftover, backlog)) = self.arriving.recv().await {
            self.write(leftover).await;
            if backlog.0.fetch_sub(1, Ordering::AcqRel) == MAX {
                self.written.notify_one();
            }
        }
    }

    /// If a write fails, the lease of the job expires and the keeper recovers it.
    async fn write(&self, leftover: Leftover) {
        let settler = PullSettler { database: &self.database, settling: None, patience: BRIEFLY };
        let result = match leftover {
            Leftover::Unclaimed(fence) => {
                let detail = released("the pull worker disconnected before it received the job");
                settler.settle(&fence, Some(&detail)).await.map(drop)
            }
            Leftover::Refused(refused) => {
                let Refused { claimed, compiled, meters, refusal } = *refused;
                let none = std::time::Duration::ZERO;
                settler.write(&claimed, &compiled, &meters, &refusal, none).await.map(drop)
            }
        };
        if let Err(error) = result {
            telemetry::database_error("dispatcher", &error);
        }
    }
}
