//! What runs say of themselves, on its way to the database: the newest word of each, a few times a second for all of them
//! together. The last word of a run is written with the end of its attempt, so however short a run is, it is not lost.
//!
//! How it stops: on its token. What is left then belongs to runs that have ended, and they took their last words along.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::model::job::claimed::Fence;
use crate::store;
use crate::store::database::Database;
use crate::store::job::Report;
use crate::telemetry;

const EVERY: Duration = Duration::from_millis(250);

/// The progress of the runs of one worker.
#[derive(Debug)]
pub(crate) struct ProgressSink {
    database: Database,
    /// By fence, never by job: two tenants may give their jobs the same id.
    said: Mutex<HashMap<Fence, LastReport>>,
    is_used: AtomicBool,
    news: Notify,
    /// Held while words are being written, so that none can arrive after a later one.
    writing: tokio::sync::Mutex<()>,
}

#[derive(Debug)]
struct LastReport {
    report: Report,
    is_written: bool,
}

impl ProgressSink {
    pub(crate) fn new(database: Database) -> Self {
        Self {
            database,
            said: Mutex::default(),
            is_used: AtomicBool::new(false),
            news: Notify::new(),
            writing: tokio::sync::Mutex::new(()),
        }
    }

    pub(crate) fn tell(&self, report: Report) {
        self.is_used.store(true, Ordering::Release);
        let word = LastReport { report, is_written: false };
        self.said.lock().unwrap_or_else(PoisonError::into_inner).insert(word.report.fence, word);
        self.news.notify_one();
    }

    /// The last word of a run that ends, for whoever writes that end. None of its words is on its way after this.
    pub(crate) async fn take(&self, fence: &Fence) -> Option<Report> {
        if !self.is_used.load(Ordering::Acquire) {
            return None;
        }
        let word = self.said.lock().unwrap_or_else(PoisonError::into_inner).remove(fence)?;
        // An earlier word may be in the write that is under way.
        drop(self.writing.lock().await);
        Some(word.report)
    }

    /// Writes the last word of a run that is not ended here.
    pub(crate) async fn flush(&self, fence: &Fence) {
        if let Some(report) = self.take(fence).await {
            self.write(&[report]).await;
        }
    }

    pub(crate) async fn run(&self, stop: CancellationToken) {
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = self.news.notified() => {}
            }
            {
                let _turn = self.writing.lock().await;
                let fresh = self.fresh();
                self.write(&fresh).await;
            }
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(EVERY) => {}
            }
        }
    }

    fn fresh(&self) -> Vec<Report> {
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        let fresh = said.values_mut().filter(|word| !word.is_written);
        fresh
            .map(|word| {
                word.is_written = true;
                word.report.clone()
            })
            .collect()
    }

    /// A word that cannot be written is lost, unless it is the last: that one goes with the end.
    async fn write(&self, reports: &[Report]) {
        if reports.is_empty() {
            return;
        }
        if let Err(error) = store::job::report_progress(&self.database, reports).await {
            telemetry::database_error("progress", &error);
        }
    }
}
