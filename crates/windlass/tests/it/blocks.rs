//! Blocks of running jobs: ends in any order, at the same time, beside a cancel, and after their worker was lost.

mod leaving;
pub(crate) mod pages;

use serde_json::{Value, json};
use tokio_postgres::Client;
use tokio_postgres::types::ToSql;
use uuid::Uuid;
use windlass::keeper::Duty;
use windlass::{DEFAULT_TENANT, NewJob};
use windlass_testing::TestQueue;

use crate::mutants::commit_beside;
use crate::support::{Hand, assert_counts_are_exact, count, ending, keeper, status};

/// Jobs that one claim took together, as their worker knows them.
pub(crate) struct Block {
    pub(crate) lane: i32,
    pub(crate) seq: i64,
    pub(crate) attempt: i32,
    pub(crate) token: Uuid,
    /// By position.
    pub(crate) jobs: Vec<Uuid>,
}

/// The ends without effect, the overruled and the busy ones, by position.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Ended {
    pub(crate) missed: Vec<i16>,
    pub(crate) overruled: Vec<i16>,
    pub(crate) busy: Vec<i16>,
}

impl Block {
    /// Claims everything that is queued; it is one block.
    pub(crate) async fn claim(hand: &Hand) -> Self {
        let token = Uuid::new_v4();
        let claim = "select c.lane, c.block, c.attempt, c.at_position, c.job_id from
            (select array_agg(id) as lanes, array_agg(0::bigint) as seqs, array_agg(1000) as counts from windlass.lane) l,
            windlass.claim($1, $2, l.lanes, l.seqs, l.counts) c order by c.at_position";
        let rows = hand.client.query(claim, &[&hand.worker, &token]).await.unwrap();
        let (lane, seq, attempt) = (rows[0].get(0), rows[0].get(1), rows[0].get(2));
        for (position, row) in (0_i16..).zip(&rows) {
            assert_eq!((row.get::<_, i64>(1), row.get::<_, i16>(3)), (seq, position), "it is one block");
        }
        Self { lane, seq, attempt, token, jobs: rows.iter().map(|row| row.get(4)).collect() }
    }

    pub(crate) fn positions(&self) -> Vec<i16> {
        (0..i16::try_from(self.jobs.len()).unwrap()).collect()
    }

    /// Ends these as plain successes, by the fast path.
    pub(crate) async fn succeed(
        &self,
        client: &Client,
        positions: &[i16],
    ) -> Result<Ended, tokio_postgres::Error> {
        let settle = "select missed, overruled, busy from windlass.settle_plain(array[$1::uuid], array[$2::integer], array[$3::bigint],
            array[$4::integer], array[$5::uuid], array[cardinality($6::smallint[])], $6, array_fill(1, array[cardinality($6)]))";
        let params: [&(dyn ToSql + Sync); 6] =
            [&DEFAULT_TENANT, &self.lane, &self.seq, &self.attempt, &self.token, &positions];
        Ok(Ended::read(&client.query_one(settle, &params).await?, positions))
    }

    /// Ends these with the same details; waits for locks.
    pub(crate) async fn end(
        &self,
        client: &Client,
        positions: &[i16],
        detail: Option<Value>,
    ) -> Result<Ended, tokio_postgres::Error> {
        let settle = "select missed, overruled, busy from (select array[cardinality($6::smallint[])] as n) a,
            windlass.settle_blocks(array_fill($1::uuid, a.n), array_fill($2::integer, a.n), array_fill($3::bigint, a.n),
              array_fill($4::integer, a.n), array_fill($5::uuid, a.n), $6::smallint[], array_fill(1, a.n), array_fill($7::jsonb, a.n))";
        let params: [&(dyn ToSql + Sync); 7] =
            [&DEFAULT_TENANT, &self.lane, &self.seq, &self.attempt, &self.token, &positions, &detail];
        Ok(Ended::read(&client.query_one(settle, &params).await?, positions))
    }
}

impl Ended {
    pub(crate) fn read(row: &tokio_postgres::Row, positions: &[i16]) -> Self {
        let column = |column: usize| -> Vec<i16> {
            let ords: Option<Vec<i32>> = row.get(column);
            let ords = ords.unwrap_or_default().into_iter();
            let mut found: Vec<i16> = ords.map(|ord| positions[usize::try_from(ord - 1).unwrap()]).collect();
            found.sort_unstable();
            found
        };
        Self { missed: column(0), overruled: column(1), busy: column(2) }
    }
}

/// A queue with this many jobs in one row of the line.
pub(crate) async fn queued(jobs: usize) -> (TestQueue, Hand) {
    let queue = TestQueue::create().await;
    let hand = Hand::new(queue.client().await).await;
    hand.define(json!({"key": "held"})).await;
    let new: Vec<NewJob> = (0..jobs).map(|_| NewJob::new("held")).collect();
    queue.enqueue_many(&new).await.unwrap();
    (queue, hand)
}

const BLOCKS: &str = "select count(*) from windlass.live";

#[tokio::test]
async fn jobs_of_a_block_end_in_any_order_and_once_each() {
    for size in [1, 2, 63, 64] {
        let (_queue, hand) = queued(size).await;
        let block = Block::claim(&hand).await;
        assert_eq!(block.jobs.len(), size);
        // 37 and 64 have no common divisor, and neither have 37 and 63.
        let order: Vec<i16> =
            block.positions().iter().map(|n| n * 37 % i16::try_from(size).unwrap()).collect();
        for (turn, part) in order.chunks(5).enumerate() {
            assert_eq!(count(&hand.client, BLOCKS).await, 1);
            let ended = if turn % 2 == 0 {
                block.succeed(&hand.client, part).await.unwrap()
            } else {
                block.end(&hand.client, part, Some(ending::failed())).await.unwrap()
            };
            assert_eq!(ended, Ended::default(), "{part:?}");
            let again = block.succeed(&hand.client, part).await.unwrap();
            assert_eq!(again.missed.len(), part.len(), "they have ended");
            assert_counts_are_exact(&hand.client).await;
        }
        assert_eq!(count(&hand.client, BLOCKS).await, 0);
        let ended = "select count(distinct job_id) from windlass.history where job_status is not null";
        assert_eq!(count(&hand.client, ended).await, i64::try_from(size).unwrap());
    }
}

/// Of a batch with a position that has ended, one that is named twice and one that does not exist, the others end.
#[tokio::test]
async fn a_wrong_position_does_not_keep_others_from_ending() {
    let (_queue, hand) = queued(10).await;
    let block = Block::claim(&hand).await;
    assert_eq!(block.end(&hand.client, &[3], None).await.unwrap(), Ended::default());
    let ended = block.succeed(&hand.client, &[0, 3, 4, 4, 10, 63]).await.unwrap();
    assert_eq!(ended, Ended { missed: vec![3, 4, 10, 63], ..Ended::default() });
    let ended = block.end(&hand.client, &[1, 3, 5, 5, 10, 64, -1], Some(ending::retry())).await.unwrap();
    assert_eq!(ended, Ended { missed: vec![-1, 3, 5, 10, 64], ..Ended::default() });
    assert_eq!(status(&hand.client, block.jobs[1]).await, "scheduled");
    assert_counts_are_exact(&hand.client).await;
}

/// Arrays that do not fit together would end other jobs than meant, or fail with words of Postgres.
#[tokio::test]
async fn a_settlement_whose_arrays_do_not_fit_together_is_refused() {
    let (_queue, hand) = queued(2).await;
    let block = Block::claim(&hand).await;
    let settle = |counts: &str, positions: &str, ran_ms: &str| {
        let (tenant, lane, seq, token) = (DEFAULT_TENANT, block.lane, block.seq, block.token);
        format!("select missed from windlass.settle_plain(array['{tenant}'::uuid], array[{lane}], array[{seq}::bigint], array[1],
            array['{token}'::uuid], {counts}::integer[], {positions}::smallint[], {ran_ms}::integer[])")
    };
    let refused = [
        ("'{0}'", "'{}'", "'{}'"),
        ("'{65}'", "'{0}'", "'{1}'"),
        ("'{null}'", "'{0}'", "'{1}'"),
        ("null", "'{0}'", "'{1}'"),
        ("'{1,1}'", "'{0,1}'", "'{1,1}'"),
        ("'{1}'", "'{0,1}'", "'{1,1}'"),
        ("'{2}'", "'{0,1}'", "'{1}'"),
        ("'{1}'", "null", "'{1}'"),
        ("'{2}'", "'{0,1}'", "'{1,null}'"),
    ];
    for (counts, positions, ran_ms) in refused {
        let error = hand.client.query(&settle(counts, positions, ran_ms), &[]).await.unwrap_err();
        assert_eq!(
            error.code().map(|code| code.code()),
            Some("WL007"),
            "{counts} {positions} {ran_ms}: {error:?}"
        );
    }
    hand.client.query_one(&settle("'{2}'", "'{0,1}'", "'{1,1}'"), &[]).await.unwrap();
    assert_eq!(count(&hand.client, BLOCKS).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_settlements_of_one_block_at_once_both_count() {
    let (queue, hand) = queued(64).await;
    let block = Block::claim(&hand).await;
    let (open, other) = (queue.client().await, queue.client().await);
    open.batch_execute("begin").await.unwrap();
    let positions = block.positions();
    let (left, right) = positions.split_at(32);
    assert_eq!(block.succeed(&open, left).await.unwrap(), Ended::default());
    let busy = block.succeed(&other, right).await.unwrap();
    assert_eq!(busy.busy, right, "a worker does not wait for the other");
    let waiting = block.end(&other, right, None);
    let ended = commit_beside(&queue, &open, waiting).await;
    assert_eq!(ended.unwrap(), Ended::default());
    assert_eq!(count(&hand.client, BLOCKS).await, 0);
    assert_counts_are_exact(&hand.client).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_of_64_is_canceled_while_the_others_end() {
    let (queue, hand) = queued(64).await;
    let block = Block::claim(&hand).await;
    let (open, other) = (queue.client().await, queue.client().await);
    open.batch_execute("begin").await.unwrap();
    let victim = block.jobs[10];
    let cancel = "select windlass.cancel($1, $2)";
    let answer: String = open.query_one(cancel, &[&DEFAULT_TENANT, &victim]).await.unwrap().get(0);
    assert_eq!(answer, "requested");
    let all = block.positions();
    let busy = block.succeed(&other, &all).await.unwrap();
    assert_eq!(busy.busy, all, "a worker does not wait for the cancel");
    let waiting = block.end(&other, &all, None);
    let ended = commit_beside(&queue, &open, waiting).await;
    assert_eq!(ended.unwrap(), Ended { overruled: vec![10], ..Ended::default() });
    assert_eq!(status(&hand.client, victim).await, "canceled");
    let succeeded = "select count(*) from windlass.jobs where status = 'succeeded'";
    assert_eq!(count(&hand.client, succeeded).await, 63);
    assert_eq!(count(&hand.client, "select count(*) from windlass.cancel_request").await, 0);
    assert_counts_are_exact(&hand.client).await;
}

#[tokio::test]
async fn the_running_half_of_a_block_is_recovered() {
    let (queue, hand) = queued(64).await;
    let block = Block::claim(&hand).await;
    let (ended, lost) = block.jobs.split_at(32);
    block.succeed(&hand.client, &block.positions()[..32]).await.unwrap();
    hand.miss_heartbeats().await;
    assert_eq!(keeper(&queue).run_once(Duty::Reap).await.unwrap().moved, 32);
    for job in ended {
        assert_eq!(status(&hand.client, *job).await, "succeeded");
    }
    for job in lost {
        assert_eq!(status(&hand.client, *job).await, "scheduled");
    }
    assert_eq!(count(&hand.client, BLOCKS).await, 0);
    let late = block.succeed(&hand.client, &block.positions()).await.unwrap();
    assert_eq!(late.missed, block.positions(), "their worker comes too late");
    assert_counts_are_exact(&hand.client).await;
}

#[tokio::test]
async fn half_a_block_is_reaped_and_its_worker_ends_the_rest() {
    let (_queue, hand) = queued(64).await;
    let block = Block::claim(&hand).await;
    hand.miss_heartbeats().await;
    let reap = "select cardinality(r.settled), l.jobs from
        (select array_agg(worker) as workers, array_agg(tenant_id) as tenants, array_agg(job_id) as jobs, array_agg(attempt) as attempts,
                array_agg(token) as tokens, array_agg($1::jsonb) as details from windlass.lost_jobs(32)) l,
        windlass.reap(l.workers, l.tenants, l.jobs, l.attempts, l.tokens, l.details) r";
    let row = hand.client.query_one(reap, &[&ending::retry()]).await.unwrap();
    assert_eq!(row.get::<_, i32>(0), 32);
    let reaped: Vec<Uuid> = row.get(1);
    assert!(hand.heartbeat().await, "the worker holds the other half");
    let ended = block.succeed(&hand.client, &block.positions()).await.unwrap();
    let missed: Vec<Uuid> = ended.missed.iter().map(|n| block.jobs[usize::try_from(*n).unwrap()]).collect();
    assert_eq!((missed.len(), missed.iter().all(|job| reaped.contains(job))), (32, true));
    assert_eq!(count(&hand.client, BLOCKS).await, 0);
    assert_counts_are_exact(&hand.client).await;
}

/// A purge takes one job out of a block; its worker learns it when it ends the job.
#[tokio::test]
async fn a_running_job_of_a_block_is_deleted_alone() {
    let (queue, hand) = queued(3).await;
    let block = Block::claim(&hand).await;
    queue.purge(DEFAULT_TENANT, &[block.jobs[1]]).await.unwrap();
    assert_counts_are_exact(&hand.client).await;
    let ended = block.succeed(&hand.client, &block.positions()).await.unwrap();
    assert_eq!(ended, Ended { missed: vec![1], ..Ended::default() });
    assert_eq!(count(&hand.client, BLOCKS).await, 0);
}

/// Jobs that were enqueued one by one are put together by a claim, and each is found in its block.
#[tokio::test]
async fn single_jobs_share_a_block_and_are_found_in_it() {
    let queue = TestQueue::create().await;
    let hand = Hand::new(queue.client().await).await;
    hand.define(json!({"key": "held"})).await;
    let mut jobs = Vec::new();
    for _ in 0..150 {
        jobs.push(queue.enqueue(&NewJob::new("held")).await.unwrap().id);
    }
    let claimed = hand.claim_all().await;
    assert_eq!(claimed.iter().map(|fence| fence.job).collect::<Vec<_>>(), jobs, "in the order of the line");
    let blocks = count(&hand.client, BLOCKS).await;
    assert!(blocks <= 5, "{blocks} blocks for 150 jobs");
    for fence in claimed {
        assert_eq!(status(&hand.client, fence.job).await, "running");
        assert!(hand.progress(&fence).await, "it reports");
        assert!(hand.settle(&fence, None).await, "by its id");
        assert_eq!(status(&hand.client, fence.job).await, "succeeded");
    }
    assert_counts_are_exact(&hand.client).await;
}

/// The next claim starts after the last row that this one has taken, and before a row that it has taken in part.
#[tokio::test]
async fn the_cursor_of_a_claim_passes_rows_that_are_empty_and_no_other() {
    let claim = "select c.job_id, c.seq from windlass.lane l,
        windlass.claim($1, gen_random_uuid(), array[l.id], array[$2::bigint], array[3], 0, $3) c";
    for (apart, batch) in [(false, 1), (true, 1), (false, 10), (true, 10)] {
        let (queue, hand) = queued(batch).await;
        for _ in batch..10 {
            queue.enqueue(&NewJob::new("held")).await.unwrap();
        }
        let mut cursor = 0_i64;
        for turn in 1..=4 {
            let rows = hand.client.query(claim, &[&hand.worker, &cursor, &apart]).await.unwrap();
            assert_eq!(rows.len(), if turn == 4 { 1 } else { 3 }, "{apart} {batch}: turn {turn}");
            cursor = rows.iter().map(|row| row.get(1)).chain([cursor]).max().unwrap();
            let passed = format!("select count(*) from windlass.line where seq <= {cursor}");
            assert_eq!(count(&hand.client, &passed).await, 0);
        }
        let ends = format!("select {cursor} - last_value from windlass.line_seq");
        let beyond = count(&hand.client, &ends).await;
        assert!((0..64).contains(&beyond), "{apart} {batch}: {beyond} after the last row");
    }
}
