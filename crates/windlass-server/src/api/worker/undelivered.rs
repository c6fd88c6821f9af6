//! Jobs that were claimed for a response that is not sent yet.

use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use windlass::pull::{Pull, PulledJob, Puller};

/// The jobs of a claim. Dropping it releases them: its client has disconnected.
#[derive(Debug)]
pub(super) struct Undelivered {
    pull: Pull,
    puller: Puller,
    jobs: Vec<PulledJob>,
}

impl Undelivered {
    pub(super) fn new(pull: Pull, puller: Puller) -> Self {
        Self { pull, puller, jobs: Vec::new() }
    }

    pub(super) fn hold(&mut self, jobs: Vec<PulledJob>) {
        self.jobs.extend(jobs);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }

    /// The jobs, for the response.
    pub(super) fn deliver(mut self) -> Vec<PulledJob> {
        std::mem::take(&mut self.jobs)
    }

    /// Releases the jobs and waits for it.
    pub(super) async fn release(mut self) {
        if let Some(releasing) = self.start_release() {
            // A task that panicked has logged it.
            let _ = releasing.await;
        }
    }

    /// In a separate task, so that it also ends if the client disconnects.
    fn start_release(&mut self) -> Option<JoinHandle<()>> {
        if self.jobs.is_empty() {
            return None;
        }
        let (pull, puller, jobs) = (self.pull.clone(), self.puller.clone(), std::mem::take(&mut self.jobs));
        // Without a runtime the process ends, and the leases expire.
        let runtime = Handle::try_current().ok()?;
        Some(runtime.spawn(async move {
            for job in jobs {
                if let Err(error) = pull.release(&puller, job.id, &job.fence).await {
                    tracing::warn!(%error, job_id = %job.id, "cannot release a job; it runs again after its lease");
                }
            }
        }))
    }
}

impl Drop for Undelivered {
    fn drop(&mut self) {
        self.start_release();
    }
}
