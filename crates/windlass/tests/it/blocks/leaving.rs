//! Jobs that leave a block before the others: queued again, unclaimed, completed by an application, handed over.

use tokio_postgres::types::ToSql;
use windlass::DEFAULT_TENANT;
use windlass::job::Fence;
use windlass::keeper::Duty;

use super::{BLOCKS, Block, Ended, queued};
use crate::support::{Hand, assert_counts_are_exact, count, ending, keeper, status};

/// A job that was released or that failed leaves its block, and its next attempt has a block of its own, where it is
/// found by its id. Its earlier position has ended.
#[tokio::test]
async fn a_job_that_was_queued_again_gets_its_own_block() {
    let (queue, hand) = queued(3).await;
    let block = Block::claim(&hand).await;
    block.end(&hand.client, &[1], Some(ending::release())).await.unwrap();
    block.end(&hand.client, &[2], Some(ending::retry())).await.unwrap();
    assert_eq!(keeper(&queue).run_once(Duty::Promote).await.unwrap().moved, 1);
    let again = hand.claim_all().await;
    assert_eq!(again.len(), 2);
    let own = "select count(*) from windlass.live where ids = array[job_id] and attempt = 2";
    assert_eq!((count(&hand.client, own).await, count(&hand.client, BLOCKS).await), (2, 3));
    let late = block.succeed(&hand.client, &block.positions()).await.unwrap();
    assert_eq!(late, Ended { missed: vec![1, 2], ..Ended::default() }, "their first attempts have ended");
    for fence in again {
        assert!(block.jobs[1..].contains(&fence.job));
        assert_eq!(status(&hand.client, fence.job).await, "running");
        assert!(hand.progress(&fence).await && hand.settle(&fence, None).await);
        assert_eq!(status(&hand.client, fence.job).await, "succeeded");
    }
    assert_eq!(count(&hand.client, BLOCKS).await, 0);
    assert_counts_are_exact(&hand.client).await;
}

/// A claim whose response was lost gives back what is still running, and nothing that has ended.
#[tokio::test]
async fn the_running_part_of_a_block_is_unclaimed() {
    let (_queue, hand) = queued(5).await;
    let block = Block::claim(&hand).await;
    block.succeed(&hand.client, &[0, 3]).await.unwrap();
    let unclaim = "select windlass.unclaim($1, $2, array[$3::integer], 0)";
    for _ in 0..2 {
        let left = hand.client.query_one(unclaim, &[&hand.worker, &block.token, &block.lane]).await.unwrap();
        assert_eq!(left.get::<_, i32>(0), 0);
    }
    let queued = "select count(*) from windlass.jobs where status = 'queued' and attempt_count = 1";
    assert_eq!((count(&hand.client, queued).await, count(&hand.client, BLOCKS).await), (3, 0));
    let late = block.succeed(&hand.client, &block.positions()).await.unwrap();
    assert_eq!(late.missed, block.positions());
    assert_counts_are_exact(&hand.client).await;
}

/// A transaction that completes its own job delays the others of the block, whether it commits or not.
#[tokio::test]
async fn a_completion_that_is_rolled_back_leaves_its_block_as_it_was() {
    let (queue, hand) = queued(4).await;
    let block = Block::claim(&hand).await;
    let open = Hand::new(queue.client().await).await;
    let fence =
        Fence { tenant: DEFAULT_TENANT, job: block.jobs[1], attempt: block.attempt, token: block.token };
    open.client.batch_execute("begin").await.unwrap();
    assert!(open.settle(&fence, None).await);
    let busy = block.succeed(&hand.client, &[0, 2]).await.unwrap();
    assert_eq!(busy.busy, [0, 2]);
    open.client.batch_execute("rollback").await.unwrap();
    assert_eq!(status(&hand.client, fence.job).await, "running");
    assert_eq!(block.succeed(&hand.client, &[0, 2]).await.unwrap(), Ended::default());
    assert!(open.settle(&fence, None).await);
    assert_eq!(block.succeed(&hand.client, &[1, 3]).await.unwrap().missed, [1]);
    assert_eq!(count(&hand.client, BLOCKS).await, 0);
    assert_counts_are_exact(&hand.client).await;
}

/// A job that is handed over keeps its fence, and its cancel request, outside of the block.
#[tokio::test]
async fn a_job_that_is_handed_over_leaves_its_block() {
    let (queue, hand) = queued(3).await;
    let block = Block::claim(&hand).await;
    hand.cancel(block.jobs[1]).await;
    let other = Hand::new(queue.client().await).await;
    let hand_over = "select windlass.hand_over($1, $2, $3, $4, $5, 60, 60)";
    let params: [&(dyn ToSql + Sync); 5] =
        [&DEFAULT_TENANT, &block.jobs[1], &block.attempt, &block.token, &other.worker];
    assert!(hand.client.query_one(hand_over, &params).await.unwrap().get::<_, bool>(0));
    assert_counts_are_exact(&hand.client).await;
    let ended = block.succeed(&hand.client, &block.positions()).await.unwrap();
    assert_eq!(ended, Ended { missed: vec![1], ..Ended::default() });
    assert_eq!(status(&hand.client, block.jobs[1]).await, "running");
    let fence =
        Fence { tenant: DEFAULT_TENANT, job: block.jobs[1], attempt: block.attempt, token: block.token };
    assert!(other.settle(&fence, None).await);
    assert_eq!(status(&hand.client, fence.job).await, "canceled");
    assert_eq!(count(&hand.client, BLOCKS).await, 0);
    assert_counts_are_exact(&hand.client).await;
}
