//! The policies of a definition that a worker needs while it runs its jobs.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::model::job::backoff::Backoff;
use crate::model::job::settle::{OnLost, OnTimeout, RetryPolicy};
use crate::text::redact::Redaction;

/// The policies of a definition that a worker needs while it runs its jobs.
#[derive(Debug, Clone, Deserialize, Serialize)]
pub struct Policies {
    pub(crate) timeout_seconds: u64,
    pub(crate) max_lost: i16,
    pub(crate) max_snoozes: i32,
    #[serde(default, deserialize_with = "readable_backoff")]
    backoff: Backoff,
    on_timeout: OnTimeout,
    on_lost: OnLost,
    pub(crate) arg_schema: Value,
    #[serde(default)]
    pub(crate) redaction: Redaction,
}

/// The same as `default_policies` in the database.
impl Default for Policies {
    fn default() -> Self {
        Self {
            timeout_seconds: 3600,
            max_lost: 3,
            max_snoozes: 1000,
            backoff: Backoff::default(),
            on_timeout: OnTimeout::Retry,
            on_lost: OnLost::Retry,
            arg_schema: Value::Bool(true),
            redaction: Redaction::default(),
        }
    }
}

/// An invalid backoff that was stored before backoffs were checked is replaced by the default, so that its jobs can
/// still end.
fn readable_backoff<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Backoff, D::Error> {
    let stored = Value::deserialize(from)?;
    Ok(serde_json::from_value(stored).unwrap_or_default())
}

impl Policies {
    /// The policies that the definition declares, and the defaults of the others.
    #[cfg(feature = "testing")]
    pub(crate) fn declared(definition: &super::Definition) -> Self {
        let default = Self::default();
        Self {
            timeout_seconds: definition.timeout_seconds.unwrap_or(default.timeout_seconds),
            max_lost: definition.max_lost.map_or(default.max_lost, |most| most.min(1000) as i16),
            max_snoozes: definition.max_snoozes.map_or(default.max_snoozes, i32::from),
            backoff: definition.backoff.unwrap_or(default.backoff),
            on_timeout: definition.on_timeout.unwrap_or(default.on_timeout),
            on_lost: definition.on_lost.unwrap_or(default.on_lost),
            arg_schema: definition.arg_schema.clone().unwrap_or(default.arg_schema),
            redaction: definition.redaction.clone().unwrap_or_default(),
        }
    }

    /// The longest time that one attempt may run.
    pub(crate) fn timeout(&self) -> Duration {
        Duration::from_secs(self.timeout_seconds)
    }

    pub(crate) fn retry(&self) -> RetryPolicy {
        RetryPolicy { backoff: self.backoff, on_timeout: self.on_timeout, on_lost: self.on_lost }
    }
}
