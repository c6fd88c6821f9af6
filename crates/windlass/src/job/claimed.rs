//! A job that this worker holds, and the fence under which it may speak of it.

use std::sync::Arc;

use uuid::Uuid;

use super::settle::Budget;

/// Proof of holding one attempt of one job. Every write about the attempt carries it, and is refused once it is stale.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fence {
    pub tenant: Uuid,
    pub job: Uuid,
    pub attempt: i32,
    pub token: Uuid,
}

#[derive(Debug)]
pub(crate) struct Claimed {
    pub(crate) fence: Fence,
    pub(crate) definition_key: Arc<str>,
    pub(crate) payload: String,
    pub(crate) queued_ms: i64,
    /// `max_lost` and `max_snoozes` are the definition's and filled in when the attempt is settled.
    pub(crate) budget: Budget,
    pub(crate) extra: Extra,
}

/// What most jobs leave empty.
#[derive(Debug, Default, serde::Deserialize)]
pub(crate) struct Extra {
    pub(crate) source_ref: Option<String>,
    pub(crate) correlation_id: Option<String>,
    pub(crate) subject_type: Option<String>,
    pub(crate) subject_id: Option<String>,
    pub(crate) trace: Option<String>,
    pub(crate) tags: Option<Vec<String>>,
    pub(crate) parent_id: Option<Uuid>,
    pub(crate) created_by: Option<Uuid>,
}
