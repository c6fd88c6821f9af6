//! Events as values: a new one, one that waits to be dispatched, and the filter of a list.

use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;
use uuid::Uuid;

use crate::error::{Error, Result};
use crate::model::trace::is_traceparent;
use crate::model::trigger::check_name;
use crate::text::json::{self, JsonLimits};

/// A new event.
///
/// ```
/// use windlass::DEFAULT_TENANT;
/// use windlass::events::NewEvent;
///
/// let event = NewEvent::new("folder.updated")
///     .payload(&serde_json::json!({ "folder": 7 }))
///     .tenant(DEFAULT_TENANT)
///     .dedupe_id("folder 7 version 12")
///     .correlation_id("request 4711")
///     .created_by(uuid::Uuid::from_u128(7))
///     .trace("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01");
/// assert!(event.check().is_ok());
/// assert!(NewEvent::new("").check().is_err());
/// ```
#[derive(Debug, Clone)]
pub struct NewEvent {
    pub(crate) name: String,
    payload: Result<String>,
    pub(crate) tenant: Option<Uuid>,
    pub(crate) dedupe_id: Option<String>,
    pub(crate) correlation_id: Option<String>,
    pub(crate) trace: Option<String>,
    pub(crate) created_by: Option<Uuid>,
}

impl NewEvent {
    /// A name consists of words separated by dots: `provider.folder.updated`.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            payload: Ok("{}".to_owned()),
            tenant: None,
            dedupe_id: None,
            correlation_id: None,
            trace: None,
            created_by: None,
        }
    }

    /// Sets the payload. If it cannot be serialized or stored, the emit returns the error.
    #[must_use]
    pub fn payload(mut self, payload: &impl Serialize) -> Self {
        self.payload = serde_json::to_string(payload)
            .map_err(|error| Error::refused("payload", format!("cannot be serialized: {error}")));
        self
    }

    /// Sets the tenant (default: the current tenant of the transaction, or the default tenant).
    #[must_use]
    pub fn tenant(mut self, tenant: Uuid) -> Self {
        self.tenant = Some(tenant);
        self
    }

    /// Sets the dedupe id. An event with the same id is a duplicate: the call returns the first event and has no
    /// effect.
    #[must_use]
    pub fn dedupe_id(mut self, id: impl Into<String>) -> Self {
        self.dedupe_id = Some(id.into());
        self
    }

    /// Sets the correlation id of the jobs (default: the id of the event).
    #[must_use]
    pub fn correlation_id(mut self, id: impl Into<String>) -> Self {
        self.correlation_id = Some(id.into());
        self
    }

    /// Sets a W3C traceparent, which is passed to the jobs.
    #[must_use]
    pub fn trace(mut self, traceparent: impl Into<String>) -> Self {
        self.trace = Some(traceparent.into());
        self
    }

    /// Records the user who caused the event.
    #[must_use]
    pub fn created_by(mut self, user: Uuid) -> Self {
        self.created_by = Some(user);
        self
    }

    /// Returns the error that an emit would return, as far as it can be determined without the database.
    pub fn check(&self) -> Result<()> {
        self.checked().map(drop)
    }

    /// Returns the payload as text, after all checks that do not need the database.
    pub(crate) fn checked(&self) -> Result<&str> {
        check_name("name", &self.name)?;
        let texts = [
            ("dedupe_id", &self.dedupe_id),
            ("correlation_id", &self.correlation_id),
            ("trace", &self.trace),
        ];
        for (field, text) in texts {
            let is_fine = |text: &String| (1..=500).contains(&text.len()) && !text.contains('\0');
            if !text.as_ref().is_none_or(is_fine) {
                return Err(Error::refused(field, "must have 1 to 500 bytes, none of them NUL"));
            }
        }
        if self.trace.as_deref().is_some_and(|trace| !is_traceparent(trace)) {
            return Err(Error::refused("trace", "must be a W3C traceparent"));
        }
        let payload = self.payload.as_deref().map_err(Clone::clone)?;
        json::check(payload, &JsonLimits::default()).map_err(|refused| Error::json("payload", refused))?;
        Ok(payload)
    }

    pub(crate) fn payload_value(&self) -> Result<Value> {
        serde_json::from_str(self.checked()?).map_err(|error| Error::refused("payload", error.to_string()))
    }
}

/// The result of an emit: the id of the event, and whether it already existed.
///
/// ```no_run
/// # async fn example(queue: &windlass::Queue) -> windlass::Result<()> {
/// use windlass::events::NewEvent;
///
/// let emitted = queue.emit(&NewEvent::new("folder.updated").dedupe_id("folder 7 version 12")).await?;
/// if emitted.is_duplicate {
///     println!("{} was emitted before", emitted.id);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Emitted {
    /// The id of the event.
    pub id: Uuid,
    /// Whether an earlier event has this dedupe id; then `id` is that of the earlier event.
    pub is_duplicate: bool,
}

/// An event that waits to be dispatched.
pub(crate) struct Pending {
    pub(crate) tenant: Uuid,
    pub(crate) id: Uuid,
    pub(crate) name: String,
    pub(crate) payload: Value,
    pub(crate) emitted_at: Timestamp,
    /// The triggers up to this id have been processed.
    pub(crate) after: Option<Uuid>,
}

/// Selects events of a tenant, newest first.
///
/// ```
/// use windlass::events::EventFilter;
///
/// let failed = EventFilter::default().name("folder.updated").only_failed(true).limit(20).offset(40);
/// assert_eq!((failed.limit, failed.offset), (20, 40));
/// let next_page = failed.offset(0).older_than(uuid::Uuid::from_u128(7));
/// assert!(next_page.older_than.is_some());
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct EventFilter {
    /// Only events with this name.
    pub name: Option<String>,
    /// The last id of the previous page.
    pub older_than: Option<Uuid>,
    /// Only events for which a trigger failed.
    pub only_failed: bool,
    /// The maximum number of events.
    pub limit: u16,
    /// How many matching events to skip.
    pub offset: u32,
}

impl EventFilter {
    /// Only events with this name.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Only events before this one; the last id of the previous page.
    #[must_use]
    pub fn older_than(mut self, id: Uuid) -> Self {
        self.older_than = Some(id);
        self
    }

    /// Only events for which a trigger failed.
    #[must_use]
    pub fn only_failed(mut self, only_failed: bool) -> Self {
        self.only_failed = only_failed;
        self
    }

    /// Sets the maximum number of events (default 50).
    #[must_use]
    pub fn limit(mut self, most: u16) -> Self {
        self.limit = most;
        self
    }

    /// Sets how many matching events to skip.
    #[must_use]
    pub fn offset(mut self, events: u32) -> Self {
        self.offset = events;
        self
    }
}

impl Default for EventFilter {
    fn default() -> Self {
        Self { name: None, older_than: None, only_failed: false, limit: 50, offset: 0 }
    }
}
