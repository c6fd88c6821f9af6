//! Running jobs of a partition that is replaced: they share rows, of which some positions have ended.

use uuid::Uuid;
use windlass::job::Fence;
use windlass::{NewJob, Queue};

use super::{BETWEEN, aged, assert_is_over, end_old, enqueue_old, old_id, until_step};
use crate::retention::statuses;
use crate::support::{Hand, count, status};

const BLOCKS: &str = "select count(*) from windlass.live";

/// So many running jobs of the old partition, in one block.
async fn claim_block(queue: &Queue, hand: &Hand, jobs: usize) -> Vec<Fence> {
    let jobs: Vec<NewJob> = (0..jobs).map(|_| NewJob::new("held").id(old_id())).collect();
    queue.enqueue_many(&jobs).await.unwrap();
    let fences = hand.claim_all().await;
    assert_eq!((fences.len(), count(&hand.client, BLOCKS).await), (jobs.len(), 1));
    fences
}

fn ids(fences: &[&Fence]) -> Vec<Uuid> {
    fences.iter().map(|fence| fence.job).collect()
}

/// Bits of the block say which of its jobs have ended: those go, and the others stay.
#[tokio::test(flavor = "multi_thread")]
async fn the_running_half_of_a_block_stays_and_the_ended_half_goes() {
    let (queue, hand) = aged().await;
    let fences = claim_block(&queue, &hand, 64).await;
    let (ended, running): (Vec<_>, Vec<_>) =
        fences.iter().enumerate().partition(|(position, _)| position % 2 == 0);
    let [ended, running] =
        [ended, running].map(|half| half.into_iter().map(|(_, fence)| fence).collect::<Vec<_>>());
    for fence in &ended {
        assert!(hand.settle(fence, None).await);
    }
    let age = "update windlass.history set finished_at = finished_at - interval '19 days'";
    assert_eq!(hand.client.execute(age, &[]).await.unwrap(), 32);

    until_step(&hand.client, "dropped").await;
    assert_eq!(statuses(&hand, &ids(&ended)).await, ["missing"; 32]);
    assert_eq!(statuses(&hand, &ids(&running)).await, ["running"; 32]);
    assert_is_over(&hand.client).await;
    for fence in &running {
        assert!(hand.progress(fence).await && hand.settle(fence, None).await);
    }
    assert_eq!(statuses(&hand, &ids(&running)).await, ["succeeded"; 32]);
    assert_eq!(count(&hand.client, BLOCKS).await, 0);
    assert_is_over(&hand.client).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ends_and_cancels_of_a_block_whose_partition_is_replaced_take_effect() {
    for after in BETWEEN {
        let (queue, hand) = aged().await;
        let other = end_old(&hand, "", None).await;
        let fences = claim_block(&queue, &hand, 4).await;
        let queued = enqueue_old(&hand, "").await;
        until_step(&hand.client, after).await;
        assert!(hand.settle(&fences[0], None).await);
        assert_eq!(hand.cancel(fences[1].job).await, "requested");
        assert_eq!(hand.cancel(queued).await, "canceled");
        until_step(&hand.client, "dropped").await;

        let found = [fences[0].job, fences[1].job, fences[2].job, queued, other];
        let expected = ["succeeded", "running", "running", "canceled", "missing"];
        assert_eq!(statuses(&hand, &found).await, expected, "after {after}");
        let requested = "select count(*) from windlass.running where cancel_requested_at is not null";
        assert_eq!(count(&hand.client, requested).await, 1, "after {after}");
        for fence in &fences[1..] {
            assert!(hand.settle(fence, None).await, "after {after}");
        }
        assert!(!hand.settle(&fences[0], None).await, "it had ended");
        assert_is_over(&hand.client).await;
    }
}

/// It has not ended, however old its id is.
#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_is_due_in_years_survives_every_replacement() {
    let (_queue, hand) = aged().await;
    let later = enqueue_old(&hand, ", delay => '5 years'").await;
    for _ in 0..3 {
        let other = end_old(&hand, "", None).await;
        hand.client.execute("delete from windlass.partition_look", &[]).await.unwrap();
        until_step(&hand.client, "dropped").await;
        assert_eq!(statuses(&hand, &[later, other]).await, ["scheduled", "missing"]);
        assert_is_over(&hand.client).await;
    }
    let due = "update windlass.deferred set due_at = clock_timestamp() - interval '1 s' where job_id = $1";
    hand.client.execute(due, &[&later]).await.unwrap();
    hand.client.query("select windlass.promote(10)", &[]).await.unwrap();
    let fence = hand.claim_one().await;
    assert!(hand.settle(&fence, None).await);
    assert_eq!(status(&hand.client, later).await, "succeeded");
}
