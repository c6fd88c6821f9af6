//! Jobs of one ordering key that are enqueued in one batch run in the order of the batch.

use serde_json::json;
use uuid::Uuid;
use windlass::NewJob;

use super::start;
use crate::support::{Hand, assert_counts_are_exact};

/// Their order is not that of the batch.
const KEYS: [&str; 4] = ["c", "a", "d", "b"];

/// Runs all jobs and returns the order in which they started.
async fn run(hand: &Hand) -> Vec<Uuid> {
    let mut started = Vec::new();
    for _ in KEYS {
        let fence = hand.claim_one().await;
        started.push(fence.job);
        assert!(hand.settle(&fence, None).await);
    }
    started
}

///
#[tokio::test(flavor = "multi_thread")]
async fn a_batch_keeps_its_order_whatever_its_other_keys_are() {
    let (queue, hand) = start().await;
    for kind in ["dedupe_key", "idempotency_key"] {
        let each: Vec<_> = KEYS.iter().map(|key| json!({kind: format!("sql {key}")})).collect();
        let many = "select id from windlass.enqueue_many('held', array_fill('{}'::jsonb, array[4]),
            options => '{\"ordering_key\": \"k\"}', each => $1) order by ord";
        let rows = hand.client.query(many, &[&each]).await.unwrap();
        let enqueued: Vec<Uuid> = rows.iter().map(|row| row.get(0)).collect();
        assert_eq!(run(&hand).await, enqueued, "SQL with {kind}");

        let keyed = |key: &str| {
            let new = NewJob::new("held").ordering_key("k");
            if kind == "dedupe_key" { new.dedupe_key(key) } else { new.idempotency_key(key) }
        };
        let enqueued = queue.enqueue_many(&KEYS.map(keyed)).await.unwrap();
        let enqueued: Vec<Uuid> = enqueued.iter().map(|job| job.id).collect();
        assert_eq!(run(&hand).await, enqueued, "the library with {kind}");
    }
    assert_counts_are_exact(&hand.client).await;
}
