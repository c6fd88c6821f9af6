//! Renews this worker's lease. On a separate thread and connection, so that busy handlers or an exhausted pool cannot
//! starve it. Uses only this machine's monotonic clock, counted from the time at which a renewal was sent.
//!
//! A worker without a granted renewal for a lease minus a margin stops all of its runs, regardless of the reason: it
//! was suspended, disconnected, or its lease expired. After that it continues under its old id if the database still
//! has it, otherwise under a new one.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use super::running::{Running, Stop};
use crate::error::Result;
use crate::queue::identity;
use crate::queue::listen::Cancels;
use crate::store;
use crate::store::database::{Database, Settings};
use crate::store::worker::WorkerRegistration;
use crate::telemetry;

/// The state of the worker's lease, for the other parts of the worker.
#[derive(Debug)]
pub(crate) struct Lease {
    worker: AtomicI32,
    is_draining: AtomicBool,
    is_valid: watch::Sender<bool>,
    length: Duration,
    /// When the last granted renewal was sent.
    granted: watch::Sender<Instant>,
    beat_now: Notify,
}

impl Lease {
    pub(crate) fn new(worker: i32, length: Duration) -> Self {
        Self {
            worker: AtomicI32::new(worker),
            is_draining: AtomicBool::new(false),
            is_valid: watch::Sender::new(true),
            length,
            granted: watch::Sender::new(Instant::now()),
            beat_now: Notify::new(),
        }
    }

    /// Returns the current number of this worker in the database.
    pub(crate) fn worker(&self) -> i32 {
        self.worker.load(Ordering::Acquire)
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.is_draining.load(Ordering::Acquire)
    }

    /// Resolves once the lease is valid.
    pub(crate) async fn valid(&self) {
        // The sender belongs to this struct, so waiting cannot fail.
        let _ = self.is_valid.subscribe().wait_for(|valid| *valid).await;
    }

    /// Returns when runs must stop if no other renewal is granted, and when they must have ended.
    pub(crate) fn ends_at(&self) -> (Instant, Instant) {
        let (granted, margin) = (*self.granted.borrow(), margin(self.length));
        (granted + self.length - margin, granted + self.length - margin / 3)
    }

    /// Returns a receiver that is notified of every granted renewal.
    pub(crate) fn granted(&self) -> watch::Receiver<Instant> {
        self.granted.subscribe()
    }
}

impl Cancels for Arc<Lease> {
    fn is_own(&self, worker: i32) -> bool {
        worker == self.worker()
    }

    /// Sends a heartbeat immediately: the response names the runs to stop.
    fn on_cancel(&self) {
        self.beat_now.notify_one();
    }
}

/// The time that a run needs to notice and end before another worker may start the job.
fn margin(length: Duration) -> Duration {
    (length / 6).min(Duration::from_secs(5))
}

/// The thread that renews the lease until `stop`.
pub(crate) struct LeaseThread {
    pub(crate) settings: Settings,
    pub(crate) me: WorkerRegistration,
    pub(crate) interval: Duration,
    pub(crate) lease: Arc<Lease>,
    pub(crate) running: Arc<Running>,
    pub(crate) stop: CancellationToken,
}

impl LeaseThread {
    pub(crate) fn start(self) -> Result<thread::JoinHandle<()>> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| crate::error::Error::Thread(Arc::new(error)))?;
        thread::Builder::new()
            .name("windlass-lease".to_owned())
            .spawn(move || {
                if let Err(error) = runtime.block_on(self.keep()) {
                    tracing::error!(%error, "the lease task failed");
                }
            })
            .map_err(|error| crate::error::Error::Thread(Arc::new(error)))
    }

    async fn keep(self) -> Result<()> {
        let length = Duration::from_secs(self.me.lease_seconds.unsigned_abs().into());
        let database = Database::for_engine(&self.settings, 1, length)?;
        let margin = margin(length);
        let mut granted_at = *self.lease.granted.borrow();
        let mut next_beat = granted_at + self.interval;
        loop {
            let runs_out = granted_at + length - margin;
            let is_valid = *self.lease.is_valid.borrow();
            let wake = if is_valid { next_beat.min(runs_out) } else { next_beat };
            tokio::select! {
                () = tokio::time::sleep_until(wake.into()) => {}
                () = self.lease.beat_now.notified() => {}
                () = self.stop.cancelled() => return Ok(()),
            }
            if is_valid && Instant::now() >= runs_out {
                tracing::error!(worker_id = %self.me.worker_id, "the lease could not be renewed in time; stopping all runs");
                self.lease.is_valid.send_replace(false);
                self.running.stop_all(Stop::LeaseLost);
            }
            let sent_at = Instant::now();
            let patience = (length / 4).min(Duration::from_secs(10));
            match tokio::time::timeout(patience, self.send_heartbeat(&database)).await {
                Ok(Ok(())) => {
                    granted_at = sent_at;
                    self.lease.granted.send_replace(sent_at);
                    next_beat = sent_at + self.interval;
                    self.lease.is_valid.send_replace(true);
                }
                Ok(Err(error)) => {
                    telemetry::heartbeat("failed");
                    telemetry::database_error("lease", &error);
                    next_beat = Instant::now() + self.interval.min(Duration::from_millis(500));
                }
                Err(_) => {
                    telemetry::heartbeat("failed");
                    database.forget_connections();
                    next_beat = Instant::now();
                }
            }
        }
    }

    async fn send_heartbeat(&self, database: &Database) -> Result<()> {
        let running = i32::try_from(self.running.running()).unwrap_or(i32::MAX);
        match store::worker::heartbeat(database, self.lease.worker(), running).await? {
            Some(news) => {
                telemetry::heartbeat("granted");
                if self.lease.is_draining.swap(news.is_draining, Ordering::AcqRel) != news.is_draining {
                    let change = if news.is_draining {
                        "drained by an operator: claims no more jobs"
                    } else {
                        "resumed by an operator"
                    };
                    tracing::info!(worker_id = %self.me.worker_id, "{change}");
                }
                for (tenant, job) in news.canceled {
                    self.running.cancel(tenant, job);
                }
            }
            None => {
                // The lease expired: every job of this worker was recovered, so the results of runs that continue here
                // are ignored.
                telemetry::heartbeat("refused");
                self.running.stop_all(Stop::LeaseLost);
                let reborn = WorkerRegistration {
                    worker_id: identity::new_worker_id(&self.me.hostname),
                    ..self.me.clone()
                };
                self.lease.worker.store(store::worker::register(database, &reborn).await?, Ordering::Release);
                tracing::warn!(worker_id = %reborn.worker_id, "lease lost; registered again under a new id");
            }
        }
        Ok(())
    }
}
