//! The requests of a pull worker.

mod check;

use std::time::Duration;

use uuid::Uuid;

use check::MAX_NAME_LENGTH;
pub(crate) use check::whole_seconds;

use crate::error::{Error, Result};
use crate::model::job::claimed::Fence;

/// The caller, as its credential specifies.
///
/// ```
/// use windlass::pull::Puller;
///
/// let caller = Puller::new("machine-7").tenant(windlass::DEFAULT_TENANT);
/// assert_eq!(caller.name, "machine-7");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Puller {
    /// The only tenant whose jobs it may hold; `None` for every tenant.
    pub tenant: Option<Uuid>,
    /// The name of its worker if a call specifies none.
    pub name: String,
}

/// The registration of a worker.
///
/// ```
/// use windlass::pull::WorkerInfo;
///
/// let info = WorkerInfo::default()
///     .worker_id(Some("gpu-1".to_owned()))
///     .hostname("machine-7")
///     .version("1.4.0")
///     .definition_keys(vec!["resize".to_owned()])
///     .queues(vec!["images".to_owned()])
///     .metadata(serde_json::Map::from_iter([("gpu".to_owned(), true.into())]));
/// assert_eq!(info.hostname, "machine-7");
/// ```
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct WorkerInfo {
    /// Its id; the name of its credential if `None`.
    pub worker_id: Option<String>,
    /// The host on which it runs.
    pub hostname: String,
    /// The release that the worker runs.
    pub version: String,
    /// The definitions that the worker has handlers for.
    pub definition_keys: Vec<String>,
    /// The queues that the worker takes jobs from; empty for all.
    pub queues: Vec<String>,
    /// Metadata of the worker.
    pub metadata: serde_json::Map<String, serde_json::Value>,
}

/// Which jobs to claim, how many, and for how long.
///
/// ```
/// use std::time::Duration;
/// use windlass::pull::Claim;
///
/// let claim = Claim::new(["resize"])
///     .worker_id(Some("gpu-1".to_owned()))
///     .queues(vec!["images".to_owned()])
///     .limit(10)
///     .wait(Duration::from_secs(20))
///     .lease(Duration::from_secs(60));
/// assert_eq!(claim.limit, 10);
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Claim {
    /// The id of the worker; the name of its credential if `None`.
    pub worker_id: Option<String>,
    /// Empty: every definition, in the given queues.
    pub definition_keys: Vec<String>,
    /// Empty: every queue.
    pub queues: Vec<String>,
    /// The maximum number of jobs to return.
    pub limit: usize,
    /// How long to wait for the first job.
    pub wait: Duration,
    /// How long a job is held without a heartbeat.
    pub lease: Duration,
}

/// The content of a heartbeat in addition to the fence.
///
/// ```
/// use std::time::Duration;
/// use windlass::pull::Heartbeat;
///
/// let beat = Heartbeat::default()
///     .lease(Some(Duration::from_secs(120)))
///     .percent(Some(50.0))
///     .message(Some("decoded".to_owned()))
///     .log(vec!["line 1".to_owned()]);
/// assert_eq!(beat.percent, Some(50.0));
/// ```
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Heartbeat {
    /// A new length of the lease; that of the claim if `None`.
    pub lease: Option<Duration>,
    /// The progress in percent.
    pub percent: Option<f32>,
    /// The progress message.
    pub message: Option<String>,
    /// Lines for the attempt's log, at most 1 MiB per call. If there are more than 64 KiB, the end is kept.
    pub log: Vec<String>,
}

impl Puller {
    /// Creates a caller with this name, which may hold jobs of every tenant.
    pub fn new(name: impl Into<String>) -> Self {
        Self { tenant: None, name: name.into() }
    }

    /// Restricts it to the jobs of one tenant.
    #[must_use]
    pub fn tenant(mut self, tenant: Uuid) -> Self {
        self.tenant = Some(tenant);
        self
    }

    /// Returns the name of the worker's row. It contains the tenant, so that no tenant can use another's row, and an
    /// `@`, which the name of any other worker never does.
    pub(crate) fn name_of(&self, own: Option<&str>) -> Result<String> {
        let own = own.unwrap_or(&self.name);
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | ':' | '-');
        if own.is_empty() || own.len() > MAX_NAME_LENGTH || !own.chars().all(is_plain) {
            let form = format!("must have 1 to {MAX_NAME_LENGTH} letters, digits or `._:-`");
            return Err(Error::refused("worker_id", form));
        }
        Ok(match self.tenant {
            Some(tenant) => format!("{own}@{tenant}"),
            None => format!("{own}@pull"),
        })
    }

    /// Returns the fence, if it is valid, for this job, and of a tenant that this caller may act for.
    pub(crate) fn holds(&self, job: Uuid, fence: &str) -> Option<Fence> {
        let fence = Fence::decode(fence)?;
        let is_own = self.tenant.is_none_or(|tenant| tenant == fence.tenant);
        (fence.job == job && is_own).then_some(fence)
    }
}

impl Claim {
    /// Claims one job of these definitions, or of every definition if there are none, without waiting, with a lease of
    /// 30 seconds.
    pub fn new<K: Into<String>>(definition_keys: impl IntoIterator<Item = K>) -> Self {
        Self {
            worker_id: None,
            definition_keys: definition_keys.into_iter().map(Into::into).collect(),
            queues: Vec::new(),
            limit: 1,
            wait: Duration::ZERO,
            lease: Duration::from_secs(30),
        }
    }

    /// Sets the id of the worker.
    #[must_use]
    pub fn worker_id(mut self, id: Option<String>) -> Self {
        self.worker_id = id;
        self
    }

    /// Restricts it to these queues.
    #[must_use]
    pub fn queues(mut self, queues: Vec<String>) -> Self {
        self.queues = queues;
        self
    }

    /// Sets the maximum number of jobs to return.
    #[must_use]
    pub fn limit(mut self, most: usize) -> Self {
        self.limit = most;
        self
    }

    /// Sets how long to wait for the first job.
    #[must_use]
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait = wait;
        self
    }

    /// Sets how long a job is held without a heartbeat.
    #[must_use]
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }
}

impl Heartbeat {
    /// Sets a new length of the lease.
    #[must_use]
    pub fn lease(mut self, lease: Option<Duration>) -> Self {
        self.lease = lease;
        self
    }

    /// Sets the progress in percent.
    #[must_use]
    pub fn percent(mut self, percent: Option<f32>) -> Self {
        self.percent = percent;
        self
    }

    /// Sets the progress message.
    #[must_use]
    pub fn message(mut self, message: Option<String>) -> Self {
        self.message = message;
        self
    }

    /// Adds lines to the log.
    #[must_use]
    pub fn log(mut self, lines: Vec<String>) -> Self {
        self.log = lines;
        self
    }
}

impl WorkerInfo {
    /// Sets its id.
    #[must_use]
    pub fn worker_id(mut self, id: Option<String>) -> Self {
        self.worker_id = id;
        self
    }

    /// Sets the host on which it runs.
    #[must_use]
    pub fn hostname(mut self, hostname: impl Into<String>) -> Self {
        self.hostname = hostname.into();
        self
    }

    /// Sets the release that it runs.
    #[must_use]
    pub fn version(mut self, version: impl Into<String>) -> Self {
        self.version = version.into();
        self
    }

    /// Sets the definitions that it has handlers for.
    #[must_use]
    pub fn definition_keys(mut self, keys: Vec<String>) -> Self {
        self.definition_keys = keys;
        self
    }

    /// Sets the queues that it takes jobs from.
    #[must_use]
    pub fn queues(mut self, queues: Vec<String>) -> Self {
        self.queues = queues;
        self
    }

    /// Sets its metadata.
    #[must_use]
    pub fn metadata(mut self, metadata: serde_json::Map<String, serde_json::Value>) -> Self {
        self.metadata = metadata;
        self
    }
}
