//! The jobs of a claim until its caller has received them: those of a claim that is dropped before are released.

use std::ops::Deref;
use std::sync::Arc;

use tokio::runtime::Handle;
use tokio::task::JoinHandle;

use super::ending::{BRIEFLY, PullSettler};
use super::{PulledJob, Service};
use crate::attempt::ending::released;
use crate::model::job::claimed::Fence;
use crate::telemetry;

/// The jobs of a claim. Dropping them releases them, so that a job whose caller has disconnected runs elsewhere at once;
/// [`PulledJobs::deliver`] and the iterator hand them over.
///
/// ```no_run
/// # async fn example(pull: &windlass::pull::Pull, caller: &windlass::pull::Puller, is_connected: bool) -> windlass::Result<()> {
/// use windlass::pull::Claim;
///
/// let jobs = pull.claim(caller, Claim::new(["resize"]).limit(10)).await?;
/// if is_connected {
///     for job in jobs.deliver() {
///         println!("{}", job.id);
///     }
/// } else {
///     jobs.release().await;
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "dropping the jobs releases them"]
pub struct PulledJobs {
    service: Arc<Service>,
    jobs: Vec<PulledJob>,
}

impl PulledJobs {
    pub(super) fn new(service: Arc<Service>, jobs: Vec<PulledJob>) -> Self {
        Self { service, jobs }
    }

    /// Hands the jobs over: from now on the caller completes or releases each of them.
    pub fn deliver(mut self) -> Vec<PulledJob> {
        std::mem::take(&mut self.jobs)
    }

    /// Releases the jobs and waits for it.
    pub async fn release(mut self) {
        if let Some(releasing) = self.start_release() {
            // A task that panicked has logged it.
            let _ = releasing.await;
        }
    }

    /// In a task of the service, which outlives the caller. If a write fails, the lease of the job expires and the
    /// keeper recovers it.
    fn start_release(&mut self) -> Option<JoinHandle<()>> {
        let jobs = std::mem::take(&mut self.jobs);
        if jobs.is_empty() {
            return None;
        }
        // Without a runtime the process ends.
        let runtime = Handle::try_current().ok()?;
        let database = self.service.database.clone();
        let releasing = async move {
            for fence in jobs.iter().filter_map(|job| Fence::decode(&job.fence)) {
                let database = database.of_tenant(Some(fence.tenant));
                let detail = released("the pull worker disconnected before it received the job");
                let settler = PullSettler { database: &database, settling: None, patience: BRIEFLY };
                if let Err(error) = settler.settle(&fence, Some(&detail)).await {
                    telemetry::database_error("pull", &error);
                }
            }
        };
        Some(self.service.releases.spawn_on(releasing, &runtime))
    }
}

impl Drop for PulledJobs {
    fn drop(&mut self) {
        self.start_release();
    }
}

impl Deref for PulledJobs {
    type Target = [PulledJob];

    fn deref(&self) -> &[PulledJob] {
        &self.jobs
    }
}

impl IntoIterator for PulledJobs {
    type Item = PulledJob;
    type IntoIter = std::vec::IntoIter<PulledJob>;

    fn into_iter(self) -> Self::IntoIter {
        self.deliver().into_iter()
    }
}
