//! What is read of a worker process.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A worker process as operators see it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WorkerRecord {
    pub worker_id: String,
    pub hostname: String,
    pub version: String,
    pub queues: Vec<String>,
    pub definition_keys: Vec<String>,
    pub started_at: Timestamp,
    pub last_seen_at: Timestamp,
    pub lease_expires_at: Timestamp,
    pub lease_seconds: i32,
    pub running_count: i32,
    pub is_quiet: bool,
    pub stopped_at: Option<Timestamp>,
    pub metadata: Value,
    /// `alive`, `quiet`, `stale` (its lease has run out), `lost` (and others were given its jobs) or `stopped`.
    pub status: String,
    /// It fell silent without a goodbye: it is stale or lost.
    pub is_stale: bool,
    pub seen_seconds_ago: f64,
}
