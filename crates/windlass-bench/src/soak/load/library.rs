//! Callers of the Rust library: one job at a time, and batches.

use windlass::Error;

use super::intent::Author;
use super::{CALL_LIMIT, Callers};

pub(super) async fn single(callers: Callers, mut author: Author) {
    while !callers.is_stopped() {
        if callers.pace.turn(1).await == 0 {
            continue;
        }
        let _running = callers.site.gate.read().await;
        let intent = author.intent();
        author.note_sent(&intent, "library");
        let job = intent.new_job();
        match tokio::time::timeout(CALL_LIMIT, callers.queue.enqueue(job)).await {
            Ok(Ok(enqueued)) => author.note_acked(&intent, enqueued.id, enqueued.is_duplicate),
            Ok(Err(error)) if is_rejection(&error) => author.note_refused(&intent, &error),
            Ok(Err(_)) | Err(_) => {}
        }
    }
}

pub(super) async fn bulk(callers: Callers, mut author: Author) {
    while !callers.is_stopped() {
        let count = callers.pace.turn(u64::MAX).await;
        if count == 0 {
            continue;
        }
        let _running = callers.site.gate.read().await;
        let intents: Vec<_> = (0..count).map(|_| author.plain()).collect();
        for intent in &intents {
            author.note_sent(intent, "library bulk");
        }
        let jobs: Vec<_> = intents.iter().map(super::intent::Intent::new_job).collect();
        match tokio::time::timeout(CALL_LIMIT, callers.queue.enqueue_many(&jobs)).await {
            Ok(Ok(all)) => {
                for (intent, enqueued) in intents.iter().zip(all) {
                    author.note_acked(intent, enqueued.id, enqueued.is_duplicate);
                }
            }
            Ok(Err(error)) if is_rejection(&error) => {
                intents.iter().for_each(|intent| author.note_refused(intent, &error));
            }
            Ok(Err(_)) | Err(_) => {}
        }
    }
}

/// Whether nothing was enqueued for certain. Everything else has an unknown result.
pub(super) fn is_rejection(error: &Error) -> bool {
    matches!(
        error,
        Error::QuotaReached { .. }
            | Error::TenantRefused { .. }
            | Error::Refused { .. }
            | Error::PayloadRefused { .. }
            | Error::UnknownDefinition { .. }
            | Error::InactiveDefinition { .. }
            | Error::Unknown { .. }
            | Error::Taken { .. }
    )
}
