//! What a pull worker may ask for, and what is refused before anything is touched, by the field's name.

use std::time::Duration;

use uuid::Uuid;

use crate::error::{Error, Result};
use crate::model::job::claimed::Fence;
use crate::store;
use crate::store::pull::{PRESENT, Said};
use crate::text;
use crate::text::json::{self, JsonLimits};
use crate::text::redact::Redactor;

const LONGEST_WAIT: Duration = Duration::from_secs(60);
const LONGEST_LEASE: Duration = Duration::from_secs(86_400);
const MOST_JOBS: usize = 100;
const MOST_NAMES: usize = 1000;
const LONGEST_NAME: usize = 200;
const MESSAGE_BYTES: usize = 1000;
const LOG_BYTES: usize = 64 * 1024;
const MOST_LOG_BYTES: usize = 1024 * 1024;
const PIECE_BYTES: usize = 16 * 1024;

/// Whose word a call is, as its credential says.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Puller {
    /// The one tenant whose jobs it may hold; every tenant's without one.
    pub tenant: Option<Uuid>,
    /// Its worker's name where a call gives none.
    pub name: String,
}

/// What a worker says of itself.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Introduction {
    /// Its id; the name of its credential without one.
    pub worker_id: Option<String>,
    /// The host on which it runs.
    pub hostname: String,
    /// The release that the worker runs.
    pub version: String,
    /// The definitions that the worker has handlers for.
    pub definition_keys: Vec<String>,
    /// The queues that the worker takes jobs from; empty for all.
    pub queues: Vec<String>,
    /// What the worker reported about itself.
    pub metadata: serde_json::Map<String, serde_json::Value>,
}

/// Which jobs, how many, and for how long.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Claim {
    /// The id of the worker; the name of its credential without one.
    pub worker_id: Option<String>,
    /// Empty: every definition, in the queues named.
    pub definition_keys: Vec<String>,
    /// Empty: every queue.
    pub queues: Vec<String>,
    /// The most jobs to return.
    pub limit: usize,
    /// How long to wait for the first job.
    pub wait: Duration,
    /// How long a job is safe from others without a heartbeat.
    pub lease: Duration,
}

/// What a heartbeat carries besides the fence.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Beat {
    /// A new length of the lease; the one of the claim without it.
    pub lease: Option<Duration>,
    /// How much is done.
    pub percent: Option<f32>,
    /// What is being done.
    pub message: Option<String>,
    /// Lines for the attempt's log, at most 1 MiB in one call. Of more than 64 KiB the end is kept.
    pub log: Vec<String>,
}

impl Puller {
    /// A caller with this name, which may hold jobs of every tenant.
    pub fn new(name: impl Into<String>) -> Self {
        Self { tenant: None, name: name.into() }
    }

    /// Restricts it to the jobs of one tenant.
    #[must_use]
    pub fn tenant(mut self, tenant: Uuid) -> Self {
        self.tenant = Some(tenant);
        self
    }

    /// The name under which the worker's row is kept. It names the tenant, so that no tenant can take up another's row, and
    /// holds an `@`, which the name of a worker of ours never does.
    pub(crate) fn name_of(&self, own: Option<&str>) -> Result<String> {
        let own = own.unwrap_or(&self.name);
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | ':' | '-');
        if own.is_empty() || own.len() > LONGEST_NAME || !own.chars().all(is_plain) {
            let form = format!("must have 1 to {LONGEST_NAME} letters, digits or `._:-`");
            return Err(Error::refused("worker_id", form));
        }
        Ok(match self.tenant {
            Some(tenant) => format!("{own}@{tenant}"),
            None => format!("{own}@remote"),
        })
    }

    /// The fence, if it is one, of this job, and of a tenant that this caller may act for.
    pub(crate) fn holds(&self, job: Uuid, fence: &str) -> Option<Fence> {
        let fence = Fence::decode(fence)?;
        let is_own = self.tenant.is_none_or(|tenant| tenant == fence.tenant);
        (fence.job == job && is_own).then_some(fence)
    }
}

impl Claim {
    /// One job of these definitions, or of every definition if there are none, without waiting, under a lease of 30 seconds.
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

    /// Sets the most jobs to return.
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

    /// Reports how much is done.
    #[must_use]
    pub fn percent(mut self, percent: Option<f32>) -> Self {
        self.percent = percent;
        self
    }

    /// Reports what is being done.
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

impl Introduction {
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

    /// Sets what else to know of it.
    #[must_use]
    pub fn metadata(mut self, metadata: serde_json::Map<String, serde_json::Value>) -> Self {
        self.metadata = metadata;
        self
    }

    pub(crate) fn check(&self) -> Result<()> {
        check_names("definition_keys", &self.definition_keys)?;
        check_names("queues", &self.queues)?;
        for (field, text) in [("hostname", &self.hostname), ("version", &self.version)] {
            if text.len() > LONGEST_NAME || text.contains('\0') {
                return Err(Error::refused(
                    field,
                    format!("must have at most {LONGEST_NAME} bytes and no NUL"),
                ));
            }
        }
        let metadata = serde_json::to_string(&self.metadata).unwrap_or_default();
        let limits = JsonLimits { max_bytes: 16 * 1024, ..Default::default() };
        json::check(&metadata, &limits).map_err(|refused| Error::json("metadata", refused))
    }

    pub(crate) fn as_stored(&self, name: &str) -> store::worker::WorkerIntroduction {
        store::worker::WorkerIntroduction {
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
            return Err(Error::refused(
                "definition_keys",
                "name the definitions or the queues to take jobs from",
            ));
        }
        check_names("definition_keys", &self.definition_keys)?;
        check_names("queues", &self.queues)?;
        if self.limit == 0 || self.limit > MOST_JOBS {
            return Err(Error::refused("limit", format!("must be between 1 and {MOST_JOBS}")));
        }
        if self.wait > LONGEST_WAIT {
            let most = LONGEST_WAIT.as_secs();
            return Err(Error::refused("wait_seconds", format!("must be between 0 and {most}")));
        }
        check_lease(self.lease)
    }

    pub(crate) fn as_introduction(&self, name: &str) -> store::worker::WorkerIntroduction {
        store::worker::WorkerIntroduction {
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
        // Secrets are searched for in all of it, so what is sent is bounded as well as what is kept.
        let bytes = self.log_bytes();
        if bytes > MOST_LOG_BYTES {
            return Err(Error::refused(
                "log",
                format!("has {bytes} bytes; at most {MOST_LOG_BYTES} in one call"),
            ));
        }
        let bytes = self.message.as_ref().map_or(0, String::len);
        if bytes > LOG_BYTES {
            return Err(Error::refused(
                "progress/message",
                format!("has {bytes} bytes; at most {LOG_BYTES}"),
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

    /// Without secrets and fit to be stored, whatever it holds. Secrets are taken out before anything is cut off, and of
    /// the lines of one call together: one that goes over several of them is found.
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
    if lease < Duration::from_secs(1) || lease > LONGEST_LEASE {
        let most = LONGEST_LEASE.as_secs();
        return Err(Error::refused("lease_seconds", format!("must be between 1 and {most}")));
    }
    Ok(())
}

fn check_names(field: &str, names: &[String]) -> Result<()> {
    if names.len() > MOST_NAMES {
        return Err(Error::refused(field, format!("are at most {MOST_NAMES}")));
    }
    let is_bad = |name: &&String| name.is_empty() || name.len() > LONGEST_NAME || name.contains('\0');
    match names.iter().position(|name| is_bad(&name)) {
        Some(position) => {
            Err(Error::refused(format!("{field}/{position}"), format!("must have 1 to {LONGEST_NAME} bytes")))
        }
        None => Ok(()),
    }
}

/// A lease in whole seconds, never none.
pub(crate) fn whole_seconds(duration: Duration) -> i32 {
    i32::try_from(duration.as_secs().max(1)).unwrap_or(i32::MAX)
}
