//! Workers as they are read.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A worker process as shown to operators.
///
/// ```no_run
/// # async fn example(reading: &windlass::admin::Reading) -> windlass::Result<()> {
/// for worker in reading.workers().await?.iter().filter(|worker| worker.is_stale) {
///     println!("{} was last seen {} s ago", worker.worker_id, worker.seen_seconds_ago);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct WorkerRecord {
    /// The id of the worker.
    pub worker_id: String,
    /// The host on which the worker runs.
    pub hostname: String,
    /// The release that the worker runs.
    pub version: String,
    /// The queues that the worker claims jobs from; empty for all.
    pub queues: Vec<String>,
    /// The definitions that the worker has handlers for.
    pub definition_keys: Vec<String>,
    /// When it registered.
    pub started_at: Timestamp,
    /// When it last sent a heartbeat.
    pub last_seen_at: Timestamp,
    /// When the lease expires without a further heartbeat.
    pub lease_expires_at: Timestamp,
    /// The length of the lease in seconds.
    pub lease_seconds: i32,
    /// How many jobs it runs.
    pub running_count: i32,
    /// Whether the worker drains: it claims no more jobs.
    pub is_draining: bool,
    /// When it stopped.
    pub stopped_at: Option<Timestamp>,
    /// The metadata that the worker reported.
    pub metadata: Value,
    /// `active`, `draining`, `stale` (its lease has expired), `lost` (its jobs were given to other workers) or
    /// `stopped`.
    pub status: String,
    /// It missed its heartbeats and did not unregister: it is stale or lost.
    pub is_stale: bool,
    /// How long ago it last sent a heartbeat, in seconds.
    pub seen_seconds_ago: f64,
}
