//! Keeps this worker's lease. On a thread and a connection of its own, so that busy handlers or an exhausted pool cannot
//! starve it; by this machine's monotonic clock only, counted from when a renewal was sent.
//!
//! A worker that has had no renewal granted for a lease less a margin stops all of its runs, whatever the reason: frozen,
//! cut off, or declared dead. After that it goes on under its old name if the database still knows it, else a new one.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use super::running::{Running, Stop};
use crate::error::Result;
use crate::queue::identity;
use crate::store;
use crate::store::database::{Database, Settings};
use crate::store::worker::WorkerIntroduction;
use crate::telemetry;

/// The worker's standing with the database, as the rest of the worker sees it.
#[derive(Debug)]
pub(crate) struct Lease {
    worker: AtomicI32,
    is_quiet: AtomicBool,
    is_valid: watch::Sender<bool>,
    length: Duration,
    /// When the renewal was sent that was granted last.
    granted: watch::Sender<Instant>,
    beat_now: Notify,
}

impl Lease {
    pub(crate) fn new(worker: i32, length: Duration) -> Self {
        Self {
            worker: AtomicI32::new(worker),
            is_quiet: AtomicBool::new(false),
            is_valid: watch::Sender::new(true),
            length,
            granted: watch::Sender::new(Instant::now()),
            beat_now: Notify::new(),
        }
    }

    /// The number by which the database knows this worker now.
    pub(crate) fn worker(&self) -> i32 {
        self.worker.load(Ordering::Acquire)
    }

    pub(crate) fn is_quiet(&self) -> bool {
        self.is_quiet.load(Ordering::Acquire)
    }

    /// Resolves once the lease is valid.
    pub(crate) async fn valid(&self) {
        // The sender is ours, so waiting cannot fail.
        let _ = self.is_valid.subscribe().wait_for(|valid| *valid).await;
    }

    /// When runs must stop if no other renewal is granted, and when nothing of them may be left.
    pub(crate) fn ends_at(&self) -> (Instant, Instant) {
        let (granted, margin) = (*self.granted.borrow(), margin(self.length));
        (granted + self.length - margin, granted + self.length - margin / 3)
    }

    /// Tells of every renewal that is granted.
    pub(crate) fn granted(&self) -> watch::Receiver<Instant> {
        self.granted.subscribe()
    }

    /// Asks for a heartbeat at once: there is news for this worker.
    pub(crate) fn beat_now(&self) {
        self.beat_now.notify_one();
    }
}

/// What a run needs to notice and end before somebody else may start the job.
fn margin(length: Duration) -> Duration {
    (length / 6).min(Duration::from_secs(5))
}

/// The thread that keeps the lease until `stop`.
pub(crate) struct LeaseThread {
    pub(crate) settings: Settings,
    pub(crate) me: WorkerIntroduction,
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
                    tracing::error!(%error, "the lease cannot be kept");
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
                tracing::error!(worker_id = %self.me.worker_id, "no renewal was granted in time: stopping every run");
                self.lease.is_valid.send_replace(false);
                self.running.stop_all(Stop::LeaseLost);
            }
            let sent_at = Instant::now();
            let patience = (length / 4).min(Duration::from_secs(10));
            match tokio::time::timeout(patience, self.beat(&database)).await {
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

    async fn beat(&self, database: &Database) -> Result<()> {
        let running = i32::try_from(self.running.running()).unwrap_or(i32::MAX);
        match store::worker::heartbeat(database, self.lease.worker(), running).await? {
            Some(news) => {
                telemetry::heartbeat("granted");
                if self.lease.is_quiet.swap(news.is_quiet, Ordering::AcqRel) != news.is_quiet {
                    let words = if news.is_quiet { "to take nothing new" } else { "to take jobs again" };
                    tracing::info!(worker_id = %self.me.worker_id, "an operator asked this worker {words}");
                }
                for (tenant, job) in news.canceled {
                    self.running.cancel(tenant, job);
                }
            }
            None => {
                // Declared dead: every job we held was taken, so whatever still runs here runs for nothing.
                telemetry::heartbeat("refused");
                self.running.stop_all(Stop::LeaseLost);
                let reborn = WorkerIntroduction {
                    worker_id: identity::new_worker_id(&self.me.hostname),
                    ..self.me.clone()
                };
                self.lease.worker.store(store::worker::register(database, &reborn).await?, Ordering::Release);
                tracing::warn!(worker_id = %reborn.worker_id, "declared dead; going on under a new name");
            }
        }
        Ok(())
    }
}
