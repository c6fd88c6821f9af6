//! Chains the audit rows that have been committed since the last time.

use super::Round;
use crate::audit::SEALED_AT_ONCE;
use crate::error::Result;
use crate::queue::Queue;

pub(super) async fn run_once(queue: &Queue) -> Result<Round> {
    let moved = queue.seal_audit().await?;
    Ok(Round { moved, is_full: moved >= SEALED_AT_ONCE, next: None })
}
