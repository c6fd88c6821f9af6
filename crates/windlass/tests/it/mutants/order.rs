//! The order in which settlements lock blocks, and in which lists show the jobs of blocks.

use tokio::task::JoinHandle;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Error};
use uuid::Uuid;
use windlass::job::{Filter, State};
use windlass::{DEFAULT_TENANT, NewJob};
use windlass_testing::{TestQueue, eventually, waiting_for_locks};

use super::{Reported, catches, holds};
use crate::blocks::Block;
use crate::blocks::pages::{interleaved, listed};
use crate::support::{Hand, assert_counts_are_exact, count};

async fn two(queue: &TestQueue, hand: &Hand) -> Block {
    queue.enqueue_many(&[NewJob::new("held"), NewJob::new("held")]).await.unwrap();
    Block::claim(hand).await
}

/// Ends these positions of several blocks by one call that waits for locks, on a connection of its own.
async fn end_beside(queue: &TestQueue, ends: &[(&Block, i16)]) -> JoinHandle<Result<u64, Error>> {
    let client: Client = queue.client().await;
    let lanes: Vec<i32> = ends.iter().map(|(block, _)| block.lane).collect();
    let seqs: Vec<i64> = ends.iter().map(|(block, _)| block.seq).collect();
    let tokens: Vec<Uuid> = ends.iter().map(|(block, _)| block.token).collect();
    let positions: Vec<i16> = ends.iter().map(|(_, position)| *position).collect();
    tokio::spawn(async move {
        let settle = "select from (select array[cardinality($2::integer[])] as n) a,
            windlass.settle_blocks(array_fill($1::uuid, a.n), $2, $3, array_fill(1, a.n), $4, $5, array_fill(1, a.n),
              array_fill(null::jsonb, a.n))";
        let params: [&(dyn ToSql + Sync); 5] = [&DEFAULT_TENANT, &lanes, &seqs, &tokens, &positions];
        client.execute(settle, &params).await
    })
}

/// One call ends the last jobs of the third block and one of the first; the other ends jobs of all three, and has to wait
/// between the first and the third.
#[tokio::test(flavor = "multi_thread")]
async fn settlements_that_lock_blocks_in_different_orders_are_detected() {
    let story = async |queue: &TestQueue, hand: &Hand| -> Reported {
        let (first, second, third) = (two(queue, hand).await, two(queue, hand).await, two(queue, hand).await);
        assert!(first.seq < second.seq && second.seq < third.seq);
        let (open, probe) = (queue.client().await, queue.client().await);
        open.batch_execute("begin").await.unwrap();
        second.end(&open, &[0], None).await.unwrap();
        let through = end_beside(queue, &[(&first, 0), (&second, 1), (&third, 0)]).await;
        eventually("the first call waits", async || waiting_for_locks(&probe).await == 1).await;
        let whole = end_beside(queue, &[(&first, 1), (&third, 0), (&third, 1)]).await;
        eventually("both calls wait", async || waiting_for_locks(&probe).await == 2).await;
        open.batch_execute("commit").await.unwrap();
        for call in [through, whole] {
            let is_victim = |error: Error| error.code() == Some(&SqlState::T_R_DEADLOCK_DETECTED);
            holds(!call.await.unwrap().is_err_and(is_victim), "two settlements deadlock")?;
        }
        assert_counts_are_exact(&hand.client).await;
        holds(count(&hand.client, "select count(*) from windlass.live").await == 0, "a job did not end")
    };
    let (guard, expected) = ("if not (are_locked or skips_locked) then", "two settlements deadlock");
    catches("settle_blocks", guard, "if false then", expected, story).await;
}

#[tokio::test]
async fn positions_that_two_running_jobs_share_are_detected() {
    let story = async |queue: &TestQueue, hand: &Hand| -> Reported {
        let jobs = interleaved(queue, hand).await;
        let running = Filter::new(DEFAULT_TENANT).state(State::Running);
        let seen = listed(queue, running, 1).await;
        holds(seen.len() == jobs.len(), "a list skips a running job")
    };
    catches("claim", "and p.taken = 0", "", "a list skips a running job", story).await;
}
