//! A new job: the key of its definition, its payload, and options that override the policies of the definition.

mod args;
mod chain;
mod check;
mod options;
mod policy;
pub(crate) mod read;

pub use args::{AsJob, JobArgs};
pub(crate) use chain::ChainedJob;
pub(crate) use options::JobOptions;
pub use policy::{IfUnmet, Source};

use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;
use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::error::{Error, Result};
use crate::model::job::state::State;
use crate::model::job::unique::Unique;
use crate::text::hex;
use crate::text::json::{self, JsonLimits};

/// The result of an enqueue: the id of the job, and whether it already existed.
///
/// ```no_run
/// # async fn example(queue: &windlass::Queue) -> windlass::Result<()> {
/// use windlass::NewJob;
///
/// let enqueued = queue.enqueue(NewJob::new("resize").dedupe_key("image 7")).await?;
/// if enqueued.is_duplicate {
///     println!("job {} is already {:?}", enqueued.id, enqueued.state);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Enqueued {
    /// The id of the job.
    pub id: Uuid,
    /// None if the job that holds the key was purged: the key outlives it, and no new job is created.
    pub state: Option<State>,
    /// Another job already holds this dedupe or idempotency key; then `id` is that of the other job.
    pub is_duplicate: bool,
}

/// A job to enqueue: the key of its definition, its payload, and options that override the policies of the definition.
///
/// [`JobArgs::job`] creates one from a typed payload. [`NewJob::new`] is for keys that are only known at run time.
///
/// ```
/// use std::time::Duration;
/// use windlass::{DEFAULT_TENANT, NewJob};
/// use windlass::job::{IfUnmet, Source, Unique};
///
/// let upload = uuid::Uuid::now_v7();
/// let job = NewJob::new("resize")
///     .payload(&serde_json::json!({ "image": 7, "width": 640 }))
///     .tenant(DEFAULT_TENANT)
///     .queue("images")
///     .priority(10)
///     .delay(Duration::from_secs(60))
///     .dedupe_key("image 7")
///     .unique(Unique::Active)
///     .ordering_key("album 3")
///     .depends_on(upload)
///     .if_unmet(IfUnmet::Cancel)
///     .subject("image", "7")
///     .tag("upload")
///     .correlation_id("request 4711")
///     .max_attempts(5);
///
/// let report = NewJob::new("report")
///     .payload_json(r#"{ "month": "2026-01" }"#)
///     .id(uuid::Uuid::now_v7())
///     .scheduled_for("2026-02-01T00:00:00Z".parse()?)
///     .deadline("2026-02-02T00:00:00Z".parse()?)
///     .idempotency_key("report 2026-01")
///     .source(Source::System, Some("billing".to_owned()))
///     .created_by(uuid::Uuid::from_u128(7))
///     .trace("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01");
/// # let _ = (job, report);
/// # Ok::<(), jiff::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct NewJob {
    pub(crate) definition_key: String,
    payload: Result<String>,
    pub(crate) options: JobOptions,
}

impl NewJob {
    /// The maximum of every delay, window and start deadline: ten years. In SQL it is written as 315360000 seconds or 3650 days.
    pub const MAX_DELAY: Duration = Duration::from_secs(10 * 365 * 86_400);

    /// A job of the definition with this key, with an empty object as its payload.
    pub fn new(definition_key: impl Into<String>) -> Self {
        Self {
            definition_key: definition_key.into(),
            payload: Ok("{}".to_owned()),
            options: JobOptions::default(),
        }
    }

    /// Sets the payload. If it cannot be serialized or stored, the enqueue returns the error.
    #[must_use]
    pub fn payload(mut self, payload: &impl Serialize) -> Self {
        self.payload = serde_json::to_string(payload)
            .map_err(|error| Error::refused("payload", format!("cannot be serialized: {error}")))
            .and_then(checked);
        self.derive_dedupe_key();
        self
    }

    /// Sets the payload as JSON text.
    #[must_use]
    pub fn payload_json(mut self, payload: impl Into<String>) -> Self {
        self.payload = checked(payload.into());
        self.derive_dedupe_key();
        self
    }

    pub(crate) fn payload_text(&self) -> Result<&str> {
        self.payload.as_deref().map_err(Clone::clone)
    }
}

/// The options.
impl NewJob {
    /// Sets the tenant (default: the current tenant of the transaction, else the default tenant).
    #[must_use]
    pub fn tenant(mut self, tenant: Uuid) -> Self {
        self.options.tenant = Some(tenant);
        self
    }

    /// Sets the queue (default: that of the definition).
    #[must_use]
    pub fn queue(mut self, queue: impl Into<String>) -> Self {
        self.options.queue = Some(queue.into());
        self
    }

    /// Sets the priority. Lower numbers run first among the jobs of the tenant; limited to the bounds of the
    /// definition.
    #[must_use]
    pub fn priority(mut self, priority: i32) -> Self {
        self.options.priority = Some(priority);
        self
    }

    /// Sets the earliest start.
    #[must_use]
    pub fn scheduled_for(mut self, at: Timestamp) -> Self {
        self.options.scheduled_for = Some(at);
        self
    }

    /// Sets the earliest start, relative to the time of the database.
    #[must_use]
    pub fn delay(mut self, delay: Duration) -> Self {
        self.options.delay = Some(delay);
        self
    }

    /// Sets the dedupe key. At most one job may hold it, depending on the uniqueness of the definition; enqueueing a
    /// duplicate returns the job that holds the key.
    #[must_use]
    pub fn dedupe_key(mut self, key: impl Into<String>) -> Self {
        self.options.dedupe_key = Some(key.into());
        self.options.is_keyed_by_payload = false;
        self
    }

    /// Sets how long the dedupe key is held; overrides the definition.
    #[must_use]
    pub fn unique(mut self, unique: Unique) -> Self {
        self.options.unique = Some(unique);
        self
    }

    /// At most one job with this definition and this payload is accepted within this time; a duplicate returns the first job.
    ///
    /// The dedupe key is a digest of the definition's key and the payload, unless [`Self::dedupe_key`] sets one.
    ///
    /// ```
    /// # use windlass::NewJob;
    /// use std::time::Duration;
    ///
    /// let reminder = NewJob::new("remind").unique_for(Duration::from_secs(60));
    /// # let _ = reminder;
    /// ```
    #[must_use]
    pub fn unique_for(mut self, window: Duration) -> Self {
        self.options.unique = Some(Unique::Window(window));
        self.options.is_keyed_by_payload |= self.options.dedupe_key.is_none();
        self.derive_dedupe_key();
        self
    }

    fn derive_dedupe_key(&mut self) {
        if let (true, Ok(payload)) = (self.options.is_keyed_by_payload, &self.payload) {
            let mut digest = Sha256::new();
            digest.update(self.definition_key.as_bytes());
            digest.update([0]);
            digest.update(payload.as_bytes());
            self.options.dedupe_key = Some(format!("payload:{}", hex(&digest.finalize())));
        }
    }

    /// Sets the idempotency key. Repeating the same request returns the same job; a different job with the same key is
    /// rejected.
    #[must_use]
    pub fn idempotency_key(mut self, key: impl Into<String>) -> Self {
        self.options.idempotency_key = Some(key.into());
        self
    }

    /// Sets the ordering key. Jobs with the same key run one at a time, in the order in which they were enqueued.
    #[must_use]
    pub fn ordering_key(mut self, key: impl Into<String>) -> Self {
        self.options.ordering_key = Some(key.into());
        self
    }

    /// Adds a job that must end first; can be called several times.
    #[must_use]
    pub fn depends_on(mut self, job: Uuid) -> Self {
        self.options.depends_on.push(job);
        self
    }

    /// Sets what happens to this job if a dependency does not succeed.
    #[must_use]
    pub fn if_unmet(mut self, policy: IfUnmet) -> Self {
        self.options.if_unmet = Some(policy);
        self
    }

    /// Sets the entity that the job is about; jobs are listed and purged by it.
    #[must_use]
    pub fn subject(mut self, kind: impl Into<String>, id: impl Into<String>) -> Self {
        self.options.subject_type = Some(kind.into());
        self.options.subject_id = Some(id.into());
        self
    }

    /// The same for a request whose fields are validated with the others: both or none must be set.
    #[doc(hidden)]
    #[must_use]
    pub fn subject_fields(mut self, kind: Option<String>, id: Option<String>) -> Self {
        self.options.subject_type = kind;
        self.options.subject_id = id;
        self
    }

    /// Adds a tag; can be called several times.
    #[must_use]
    pub fn tag(mut self, tag: impl Into<String>) -> Self {
        self.options.tags.push(tag.into());
        self
    }

    /// Sets the id that groups the jobs of one request or event.
    #[must_use]
    pub fn correlation_id(mut self, id: impl Into<String>) -> Self {
        self.options.correlation_id = Some(id.into());
        self
    }

    /// Sets the source of the job, and a reference such as the id of a trigger.
    #[must_use]
    pub fn source(mut self, source: Source, reference: Option<String>) -> Self {
        self.options.source = source;
        self.options.source_ref = reference;
        self
    }

    /// Sets the maximum number of failures; then the job is a dead letter.
    #[must_use]
    pub fn max_attempts(mut self, most: u16) -> Self {
        self.options.max_attempts = Some(i32::from(most));
        self
    }

    /// Sets the instant by which the job must have ended: after it no attempt starts, and a running one times out.
    #[must_use]
    pub fn deadline(mut self, at: Timestamp) -> Self {
        self.options.deadline = Some(at);
        self
    }

    /// Records the user who enqueued the job.
    #[must_use]
    pub fn created_by(mut self, user: Uuid) -> Self {
        self.options.created_by = Some(user);
        self
    }

    /// Sets a W3C traceparent, which is passed to the handler.
    #[must_use]
    pub fn trace(mut self, traceparent: impl Into<String>) -> Self {
        self.options.trace = Some(traceparent.into());
        self
    }

    /// Sets the id of the job (default: a new UUIDv7).
    #[must_use]
    pub fn id(mut self, id: Uuid) -> Self {
        self.options.id = Some(id);
        self
    }
}

fn checked(text: String) -> Result<String> {
    json::checked(text, &JsonLimits::default()).map_err(|refused| Error::json("payload", refused))
}
