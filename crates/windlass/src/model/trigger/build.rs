//! The builder methods of a new trigger.

use jiff::Timestamp;
use serde_json::Value;
use uuid::Uuid;

use super::{Misfire, NewTrigger, Overlap};

impl NewTrigger {
    /// Sets the name shown to people.
    #[must_use]
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.label = label.into();
        self
    }

    /// Sets the definition whose jobs it enqueues.
    #[must_use]
    pub fn definition_key(mut self, key: impl Into<String>) -> Self {
        self.definition_key = key.into();
        self
    }

    /// Sets the name or pattern of the event.
    #[must_use]
    pub fn event_name(mut self, name: impl Into<String>) -> Self {
        self.event_name = Some(name.into());
        self
    }

    /// Sets the cron expression.
    #[must_use]
    pub fn cron_expr(mut self, cron_expr: impl Into<String>) -> Self {
        self.cron_expr = Some(cron_expr.into());
        self
    }

    /// Sets the conditions on the payload of an event.
    #[must_use]
    pub fn conditions(mut self, conditions: Value) -> Self {
        self.conditions = conditions;
        self
    }

    /// Sets the time zone of the schedule.
    #[must_use]
    pub fn timezone(mut self, timezone: impl Into<String>) -> Self {
        self.timezone = Some(timezone.into());
        self
    }

    /// Sets the payload of its jobs.
    #[must_use]
    pub fn payload_template(mut self, template: Value) -> Self {
        self.payload_template = template;
        self
    }

    /// Sets how long the same payload does not enqueue another job; 0 disables it.
    #[must_use]
    pub fn dedupe_window_seconds(mut self, seconds: u32) -> Self {
        self.dedupe_window_seconds = seconds;
        self
    }

    /// Sets whether it fires (default true).
    #[must_use]
    pub fn is_enabled(mut self, is_enabled: bool) -> Self {
        self.is_enabled = is_enabled;
        self
    }

    /// Sets what happens to missed instants.
    #[must_use]
    pub fn misfire(mut self, misfire: Misfire) -> Self {
        self.misfire = misfire;
        self
    }

    /// Sets the maximum number of missed instants that fire, with [`Misfire::FireAll`].
    #[must_use]
    pub fn misfire_max(mut self, most: u32) -> Self {
        self.misfire_max = most;
        self
    }

    /// Sets the maximum age of a missed instant, with [`Misfire::FireAll`].
    #[must_use]
    pub fn misfire_window_seconds(mut self, seconds: u32) -> Self {
        self.misfire_window_seconds = seconds;
        self
    }

    /// Sets how late an instant can fire without being a misfire.
    #[must_use]
    pub fn misfire_grace_seconds(mut self, seconds: u32) -> Self {
        self.misfire_grace_seconds = seconds;
        self
    }

    /// Sets what happens if the previous job of the trigger has not ended.
    #[must_use]
    pub fn overlap(mut self, overlap: Overlap) -> Self {
        self.overlap = overlap;
        self
    }

    /// Sets the maximum random delay of each job after its instant.
    #[must_use]
    pub fn jitter_seconds(mut self, seconds: u32) -> Self {
        self.jitter_seconds = seconds;
        self
    }

    /// Sets the instant before which it does not fire.
    #[must_use]
    pub fn starts_at(mut self, at: Timestamp) -> Self {
        self.starts_at = Some(at);
        self
    }

    /// Sets the instant after which it does not fire.
    #[must_use]
    pub fn ends_at(mut self, at: Timestamp) -> Self {
        self.ends_at = Some(at);
        self
    }

    /// Records the user who created it.
    #[must_use]
    pub fn created_by(mut self, user: Uuid) -> Self {
        self.created_by = Some(user);
        self
    }
}
