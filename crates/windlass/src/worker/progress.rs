//! The progress of runs: the newest report of each is written a few times a second for all of them together. The last
//! report of a run is written with the end of its attempt, so it is not lost even if the run is short.
//!
//! It stops on its token. Reports that are left then belong to ended runs, which have taken their last report with
//! them.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
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
    /// Held while reports are being written, so that none can arrive after a later one.
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

    pub(crate) fn set(&self, report: Report) {
        self.is_used.store(true, Ordering::Release);
        let last = LastReport { report, is_written: false };
        self.said.lock().insert(last.report.fence, last);
        self.news.notify_one();
    }

    /// Takes the last report of a run that ends, to be written with that end. No report of it is in progress after
    /// this.
    pub(crate) async fn take(&self, fence: &Fence) -> Option<Report> {
        if !self.is_used.load(Ordering::Acquire) {
            return None;
        }
        let last = self.said.lock().remove(fence)?;
        // An earlier report may be in the current write.
        drop(self.writing.lock().await);
        Some(last.report)
    }

    /// Writes the last report of a run that does not end here.
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
        let mut said = self.said.lock();
        let fresh = said.values_mut().filter(|last| !last.is_written);
        fresh
            .map(|last| {
                last.is_written = true;
                last.report.clone()
            })
            .collect()
    }

    /// A report that cannot be written is lost, unless it is the last: that one is written with the end.
    async fn write(&self, reports: &[Report]) {
        if reports.is_empty() {
            return;
        }
        if let Err(error) = store::job::report_progress(&self.database, reports).await {
            telemetry::database_error("progress", &error);
        }
    }
}
