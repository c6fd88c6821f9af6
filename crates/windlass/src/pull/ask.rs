//! The requests of a pull worker, validated before anything is changed, with the field's name.

use std::time::Duration;

use uuid::Uuid;

use crate::error::{Error, Result};
use crate::model::job::claimed::Fence;
use crate::store;
use crate::store::pull::{PRESENT, Said};
use crate::text;
use crate::text::json::{self, JsonLimits};
use crate::text::redact::Redactor;

const MAX_WAIT: Duration = Duration::from_secs(60);
const MAX_LEASE: Duration = Duration::from_secs(86_400);
const MAX_JOBS: usize = 100;
const MAX_NAMES: usize = 1000;
const MAX_NAME_LENGTH: usize = 200;
const MAX_NAME_BYTES: usize = 64 * 1024;
const MESSAGE_BYTES: usize = 1000;
const LOG_BYTES: usize = 64 * 1024;
const MAX_LOG_BYTES: usize = 1024 * 1024;
const PIECE_BYTES: usize = 16 * 1024;

/// The caller, as its credential specifies.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Puller {
    /// The only tenant whose jobs it may hold; `None` for every tenant.
    pub tenant: Option<Uuid>,
    /// The name of its worker if a call specifies none.
    pub name: String,
}

/// The registration of a worker.
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
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Beat {
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

impl Beat {
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

    pub(crate) fn check(&self) -> Result<()> {
        check_names("definition_keys", &self.definition_keys)?;
        check_names("queues", &self.queues)?;
        for (field, text) in [("hostname", &self.hostname), ("version", &self.version)] {
            if text.len() > MAX_NAME_LENGTH || text.contains('\0') {
                return Err(Error::refused(
                    field,
                    format!("must have at most {MAX_NAME_LENGTH} bytes and no NUL"),
                ));
            }
        }
        let metadata = serde_json::to_string(&self.metadata).unwrap_or_default();
        let limits = JsonLimits { max_bytes: 16 * 1024, ..Default::default() };
        json::check(&metadata, &limits).map_err(|refused| Error::json("metadata", refused))
    }

    pub(crate) fn as_stored(&self, name: &str) -> store::worker::WorkerRegistration {
        store::worker::WorkerRegistration {
            worker_id: name.to_owned(),
            hostname: self.hostname.clone(),
            queues: Some(self.queues.clone()),
            definition_keys: self.definition_keys.clone(),
            lease_seconds: PRESENT,
            metadata: serde_json::to_string(&self.metadata).unwrap_or_else(|_| "{}".to_owned()),
        }
    }
}

impl Claim {
    pub(crate) fn check(&self) -> Result<()> {
        if self.definition_keys.is_empty() && self.queues.is_empty() {
            return Err(Error::refused("definition_keys", "is required, or queues"));
        }
        check_names("definition_keys", &self.definition_keys)?;
        check_names("queues", &self.queues)?;
        if self.limit == 0 || self.limit > MAX_JOBS {
            return Err(Error::refused("limit", format!("must be between 1 and {MAX_JOBS}")));
        }
        if self.wait > MAX_WAIT {
            let most = MAX_WAIT.as_secs();
            return Err(Error::refused("wait_seconds", format!("must be between 0 and {most}")));
        }
        check_lease(self.lease)
    }

    /// Whether a worker is registered with the definitions and queues of this claim.
    pub(crate) fn is_registered(&self, as_what: &store::worker::WorkerRegistration) -> bool {
        as_what.definition_keys == self.definition_keys && as_what.queues.as_ref() == Some(&self.queues)
    }

    pub(crate) fn as_introduction(&self, name: &str) -> store::worker::WorkerRegistration {
        store::worker::WorkerRegistration {
            worker_id: name.to_owned(),
            hostname: String::new(),
            queues: Some(self.queues.clone()),
            definition_keys: self.definition_keys.clone(),
            lease_seconds: PRESENT,
            metadata: "{}".to_owned(),
        }
    }
}

impl Beat {
    pub(crate) fn check(&self) -> Result<()> {
        if self.percent.is_some_and(|percent| !percent.is_finite()) {
            return Err(Error::refused("progress/percent", "must be a number"));
        }
        // All of it is searched for secrets, so the size of the request is bounded, not only what is stored.
        let bytes = self.log_bytes();
        if bytes > MAX_LOG_BYTES {
            return Err(Error::refused(
                "log",
                format!("has {bytes} bytes; at most {MAX_LOG_BYTES} are allowed per call"),
            ));
        }
        let bytes = self.message.as_ref().map_or(0, String::len);
        if bytes > LOG_BYTES {
            return Err(Error::refused(
                "progress/message",
                format!("has {bytes} bytes; at most {LOG_BYTES} are allowed"),
            ));
        }
        self.lease.map_or(Ok(()), check_lease)
    }

    fn log_bytes(&self) -> usize {
        self.log.iter().map(String::len).sum()
    }

    pub(crate) fn text_bytes(&self) -> usize {
        self.log_bytes() + self.message.as_ref().map_or(0, String::len)
    }

    pub(crate) fn has_texts(&self) -> bool {
        self.message.is_some() || !self.log.is_empty()
    }

    /// Returns the reports without secrets and in a form that can be stored. Secrets are redacted before anything is
    /// truncated, and in all lines of one call together: a secret that spans several lines is found.
    pub(crate) fn said(&self, redactor: &Redactor) -> Said {
        let message = self.message.as_deref().map(|text| redactor.text(text));
        let message = message.map(|text| text::storable(text.as_bytes(), MESSAGE_BYTES));
        let mut lines = self.log.join("\n");
        if !lines.is_empty() {
            lines.push('\n');
        }
        let mut rest = &text::tail(redactor.text(&lines).as_bytes(), LOG_BYTES)[..];
        let mut log = Vec::new();
        while !rest.is_empty() {
            let cut = (0..=PIECE_BYTES.min(rest.len())).rev().find(|&at| rest.is_char_boundary(at));
            let (piece, more) = rest.split_at(cut.unwrap_or(rest.len()));
            log.push(piece.to_owned());
            rest = more;
        }
        Said {
            lease_seconds: self.lease.map(whole_seconds),
            percent: self.percent.map(|percent| percent.clamp(0.0, 100.0)),
            message,
            log,
        }
    }
}

fn check_lease(lease: Duration) -> Result<()> {
    if lease < Duration::from_secs(1) || lease > MAX_LEASE {
        let most = MAX_LEASE.as_secs();
        return Err(Error::refused("lease_seconds", format!("must be between 1 and {most}")));
    }
    Ok(())
}

fn check_names(field: &str, names: &[String]) -> Result<()> {
    if names.len() > MAX_NAMES {
        return Err(Error::refused(field, format!("must have at most {MAX_NAMES} items")));
    }
    if names.iter().map(String::len).sum::<usize>() > MAX_NAME_BYTES {
        return Err(Error::refused(field, format!("must have at most {MAX_NAME_BYTES} bytes in total")));
    }
    let is_bad = |name: &&String| name.is_empty() || name.len() > MAX_NAME_LENGTH || name.contains('\0');
    match names.iter().position(|name| is_bad(&name)) {
        Some(position) => Err(Error::refused(
            format!("{field}/{position}"),
            format!("must have 1 to {MAX_NAME_LENGTH} bytes"),
        )),
        None => Ok(()),
    }
}

/// Returns a lease in whole seconds, at least one.
pub(crate) fn whole_seconds(duration: Duration) -> i32 {
    i32::try_from(duration.as_secs().max(1)).unwrap_or(i32::MAX)
}
