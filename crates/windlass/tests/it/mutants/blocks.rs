//! The guards of ends by position in a block.

use windlass::NewJob;
use windlass_testing::TestQueue;

use super::{Told, catches, commit_beside, holds};
use crate::blocks::{Block, Ended};
use crate::support::{Hand, count, job};

async fn three(queue: &TestQueue, hand: &Hand) -> Block {
    queue.enqueue_many(&[NewJob::new("held"), NewJob::new("held"), NewJob::new("held")]).await.unwrap();
    Block::claim(hand).await
}

/// Both ways to end attempts have the same guards.
const BOTH: [&str; 2] = ["settle_plain", "settle_blocks"];

async fn end(
    function: &str,
    block: &Block,
    hand: &Hand,
    positions: &[i16],
) -> Result<Ended, tokio_postgres::Error> {
    if function == "settle_plain" {
        block.succeed(&hand.client, positions).await
    } else {
        block.end(&hand.client, positions, None).await
    }
}

#[tokio::test]
async fn a_second_end_of_a_position_is_detected() {
    for function in BOTH {
        let story = async |queue: &TestQueue, hand: &Hand| -> Told {
            let block = three(queue, hand).await;
            end(function, &block, hand, &[1]).await.unwrap();
            let again = end(function, &block, hand, &[1]).await;
            holds(again.is_ok_and(|ended| ended.missed == [1]), "an attempt ends twice")
        };
        catches(function, "l.ended & g.mask = 0 and ", "", "an attempt ends twice", story).await;
    }
}

#[tokio::test]
async fn an_end_of_the_fast_path_that_does_not_check_the_fence_is_detected() {
    let story = async |queue: &TestQueue, hand: &Hand| -> Told {
        let right = three(queue, hand).await;
        let attempt = right.attempt + 1;
        let jobs = right.jobs.clone();
        let wrong = Block { attempt, jobs: jobs.clone(), ..right };
        let ended = end("settle_plain", &wrong, hand, &[0, 1]).await.unwrap();
        holds(ended.missed == [0, 1], "another fence's word counts")?;
        let wrong = Block { attempt: attempt - 1, token: uuid::Uuid::new_v4(), jobs, ..wrong };
        let ended = end("settle_plain", &wrong, hand, &[0, 1, 2]).await.unwrap();
        holds(ended.missed == [0, 1, 2], "another fence's word counts")
    };
    for guard in ["and l.attempt = g.attempt", "and l.token = g.token"] {
        catches("settle_plain", guard, "", "another fence's word counts", &story).await;
    }
}

#[tokio::test]
async fn the_end_of_one_job_that_ends_its_block_is_detected() {
    for function in BOTH {
        let story = async |queue: &TestQueue, hand: &Hand| -> Told {
            let block = three(queue, hand).await;
            end(function, &block, hand, &[1]).await.unwrap();
            let left = count(&hand.client, "select count(*) from windlass.running").await;
            holds(left == 2, "the others of the block are gone")
        };
        let guard = "l.ended | g.mask = windlass.all_bits(l.ids)";
        catches(function, guard, "true", "the others of the block are gone", story).await;
    }
}

#[tokio::test]
async fn an_end_of_a_position_without_a_job_is_detected() {
    for function in BOTH {
        let story = async |queue: &TestQueue, hand: &Hand| -> Told {
            let block = three(queue, hand).await;
            let ended = end(function, &block, hand, &[1, 3]).await;
            holds(ended.is_ok_and(|ended| ended.missed == [3]), "a job ends that does not exist")
        };
        let guard = "g.mask & ~windlass.all_bits(l.ids) = 0";
        catches(function, guard, "true", "a job ends that does not exist", story).await;
    }
}

#[tokio::test]
async fn an_end_of_the_fast_path_that_ignores_a_cancel_is_detected() {
    let story = async |queue: &TestQueue, hand: &Hand| -> Told {
        let block = three(queue, hand).await;
        hand.cancel(block.jobs[1]).await;
        end("settle_plain", &block, hand, &[0, 1, 2]).await.unwrap();
        holds(job(&hand.client, block.jobs[1]).await["status"] == "canceled", "the cancel is lost")
    };
    catches("settle_plain", "and l.cancel_requested_at is null", "", "the cancel is lost", story).await;
}

#[tokio::test]
async fn an_end_of_the_fast_path_that_keeps_a_key_is_detected() {
    let story = async |_: &TestQueue, hand: &Hand| -> Told {
        let id = hand.enqueue("'held', dedupe_key => 'k'").await;
        let block = Block::claim(hand).await;
        end("settle_plain", &block, hand, &[0]).await.unwrap();
        holds(hand.enqueue("'held', dedupe_key => 'k'").await != id, "its key is held after its end")
    };
    catches("settle_plain", "and not l.holds_dedupe", "", "its key is held after its end", story).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_end_of_the_fast_path_that_waits_for_a_cancel_is_detected() {
    let story = async |queue: &TestQueue, hand: &Hand| -> Told {
        let block = three(queue, hand).await;
        let open = queue.client().await;
        open.batch_execute("begin").await.unwrap();
        let cancel = "select windlass.cancel($1, $2)";
        open.execute(cancel, &[&windlass::DEFAULT_TENANT, &block.jobs[1]]).await.unwrap();
        let ended = end("settle_plain", &block, hand, &[0, 2]).await;
        holds(ended.is_ok_and(|ended| ended.busy == [0, 2]), "it waits for an open transaction")
    };
    catches("settle_plain", "and l.xmax = '0'", "", "it waits for an open transaction", story).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_of_a_position_that_has_ended_is_detected() {
    let story = async |queue: &TestQueue, hand: &Hand| -> Told {
        let block = three(queue, hand).await;
        let open = queue.client().await;
        open.batch_execute("begin").await.unwrap();
        block.succeed(&open, &[1]).await.unwrap();
        let answer = commit_beside(queue, &open, hand.cancel(block.jobs[1])).await;
        holds(answer == "finished", "an ended job is requested to stop")
    };
    let guard = "and windlass.runs_at(l.ended, array_position(l.ids, job) - 1)";
    catches("cancel_unaudited", guard, "", "an ended job is requested to stop", story).await;
}
