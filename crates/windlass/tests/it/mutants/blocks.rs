//! The guards of ends by position in a block.

use tokio_postgres::types::ToSql;
use uuid::Uuid;
use windlass::keeper::Duty;
use windlass::{DEFAULT_TENANT, NewJob};
use windlass_testing::TestQueue;

use super::{Reported, catches, commit_beside, holds};
use crate::blocks::{Block, Ended};
use crate::support::{Hand, count, ending, job, keeper};

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
        let story = async |queue: &TestQueue, hand: &Hand| -> Reported {
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
    let story = async |queue: &TestQueue, hand: &Hand| -> Reported {
        let right = three(queue, hand).await;
        let attempt = right.attempt + 1;
        let jobs = right.jobs.clone();
        let wrong = Block { attempt, jobs: jobs.clone(), ..right };
        let ended = end("settle_plain", &wrong, hand, &[0, 1]).await.unwrap();
        holds(ended.missed == [0, 1], "another fence's word counts")?;
        let wrong = Block { attempt: attempt - 1, token: Uuid::new_v4(), jobs, ..wrong };
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
        let story = async |queue: &TestQueue, hand: &Hand| -> Reported {
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
        let story = async |queue: &TestQueue, hand: &Hand| -> Reported {
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
    let story = async |queue: &TestQueue, hand: &Hand| -> Reported {
        let block = three(queue, hand).await;
        hand.cancel(block.jobs[1]).await;
        end("settle_plain", &block, hand, &[0, 1, 2]).await.unwrap();
        holds(job(&hand.client, block.jobs[1]).await["status"] == "canceled", "the cancel is lost")
    };
    catches("settle_plain", "and l.cancel_requested_at is null", "", "the cancel is lost", story).await;
}

#[tokio::test]
async fn an_end_of_the_fast_path_that_keeps_a_key_is_detected() {
    let story = async |_: &TestQueue, hand: &Hand| -> Reported {
        let id = hand.enqueue("'held', dedupe_key => 'k'").await;
        let block = Block::claim(hand).await;
        end("settle_plain", &block, hand, &[0]).await.unwrap();
        holds(hand.enqueue("'held', dedupe_key => 'k'").await != id, "its key is held after its end")
    };
    catches("settle_plain", "and not l.holds_dedupe", "", "its key is held after its end", story).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_end_of_the_fast_path_that_waits_for_a_cancel_is_detected() {
    let story = async |queue: &TestQueue, hand: &Hand| -> Reported {
        let block = three(queue, hand).await;
        let open = queue.client().await;
        open.batch_execute("begin").await.unwrap();
        let cancel = "select windlass.cancel($1, $2)";
        open.execute(cancel, &[&DEFAULT_TENANT, &block.jobs[1]]).await.unwrap();
        let ended = end("settle_plain", &block, hand, &[0, 2]).await;
        holds(ended.is_ok_and(|ended| ended.busy == [0, 2]), "it waits for an open transaction")
    };
    catches("settle_plain", "and l.xmax = '0'", "", "it waits for an open transaction", story).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_of_a_position_that_has_ended_is_detected() {
    let story = async |queue: &TestQueue, hand: &Hand| -> Reported {
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

#[tokio::test]
async fn an_end_of_a_position_that_is_named_twice_is_detected() {
    let guards = ["where bit_count(m.mask::bit(64)) = g.n", "and bit_count(g.mask::bit(64)) = g.n"];
    for (function, guard) in BOTH.into_iter().zip(guards) {
        let story = async |queue: &TestQueue, hand: &Hand| -> Reported {
            let block = three(queue, hand).await;
            let ended = end(function, &block, hand, &[1, 1]).await;
            holds(ended.is_ok_and(|ended| ended.missed == [1]), "an attempt ends twice")
        };
        catches(function, guard, "", "an attempt ends twice", story).await;
    }
}

/// With the arguments that a worker or a reap adds.
async fn end_with(
    hand: &Hand,
    block: &Block,
    position: i16,
    more: &str,
) -> Result<Ended, tokio_postgres::Error> {
    let settle = format!(
        "select missed, overruled, busy from windlass.settle_blocks(array[$1::uuid], array[$2::integer], array[$3::bigint],
            array[$4::integer], array[$5::uuid], array[$6::smallint], array[1], array[null::jsonb], {more})"
    );
    let params: [&(dyn ToSql + Sync); 6] =
        [&DEFAULT_TENANT, &block.lane, &block.seq, &block.attempt, &block.token, &position];
    Ok(Ended::read(&hand.client.query_one(&settle, &params).await?, &[position]))
}

#[tokio::test]
async fn a_reap_of_a_job_of_another_worker_is_detected() {
    let story = async |queue: &TestQueue, hand: &Hand| -> Reported {
        let block = three(queue, hand).await;
        let ended = end_with(hand, &block, 1, "only_workers => array[-1]").await.unwrap();
        holds(ended.missed == [1], "a reap ends a job of another worker")
    };
    let guard = "and (only_workers is null or l.worker = any (only_workers))";
    catches("settle_blocks", guard, "", "a reap ends a job of another worker", story).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_end_that_waits_for_a_cancel_is_detected() {
    let story = async |queue: &TestQueue, hand: &Hand| -> Reported {
        let block = three(queue, hand).await;
        let open = queue.client().await;
        open.batch_execute("begin").await.unwrap();
        let cancel = "select windlass.cancel($1, $2)";
        open.execute(cancel, &[&DEFAULT_TENANT, &block.jobs[1]]).await.unwrap();
        let ended = end_with(hand, &block, 0, "skips_locked => true").await;
        holds(ended.is_ok_and(|ended| ended.busy == [0]), "it waits for an open transaction")
    };
    let expected = "it waits for an open transaction";
    catches("settle_blocks", "and (not skips_locked or l.xmax = '0')", "", expected, &story).await;
    catches("settle_touched", "for update skip locked", "", expected, &story).await;
}

#[tokio::test]
async fn an_end_that_ignores_a_cancel_is_detected() {
    let story = async |queue: &TestQueue, hand: &Hand| -> Reported {
        let block = three(queue, hand).await;
        hand.cancel(block.jobs[1]).await;
        end("settle_blocks", &block, hand, &[0, 1, 2]).await.unwrap();
        holds(job(&hand.client, block.jobs[1]).await["status"] == "canceled", "the cancel is lost")
    };
    let guard = "case when c.cancel_requested_at[i.at_position + 1] is not null then";
    catches("settle_blocks", guard, "case when false then", "the cancel is lost", story).await;
}

#[tokio::test]
async fn a_retry_that_frees_a_key_is_detected() {
    let story = async |_: &TestQueue, hand: &Hand| -> Reported {
        let id = hand.enqueue("'held', dedupe_key => 'k'").await;
        let fence = hand.claim_one().await;
        hand.settle(&fence, Some(ending::retry())).await;
        let again = hand.enqueue("'held', dedupe_key => 'k'").await;
        holds(again == id, "its key is free before its next attempt")
    };
    let expected = "its key is free before its next attempt";
    catches(
        "settle_blocks",
        "e.holds_dedupe and windlass.has_ended(e.next)",
        "e.holds_dedupe",
        expected,
        story,
    )
    .await;
}

#[tokio::test]
async fn an_ended_position_that_keeps_others_from_ending_is_detected() {
    let story = async |queue: &TestQueue, hand: &Hand| -> Reported {
        let block = three(queue, hand).await;
        block.end(&hand.client, &[1], None).await.unwrap();
        let ended = block.end(&hand.client, &[0, 1], None).await.unwrap();
        holds(ended.missed == [1], "an attempt that ended keeps another from ending")
    };
    let guard = "and windlass.runs_at(l.ended, positions[m.o])";
    let expected = "an attempt that ended keeps another from ending";
    catches("settle_touched", guard, "", expected, story).await;
}

#[tokio::test]
async fn an_end_that_does_not_check_its_next_state_is_detected() {
    let story = async |_: &TestQueue, hand: &Hand| -> Reported {
        hand.enqueue("'held'").await;
        let block = Block::claim(hand).await;
        let unknown = serde_json::json!({"outcome": 1, "next": 6, "failures": 0, "lost": 0, "snoozes": 0});
        let ended = block.end(&hand.client, &[0], Some(unknown)).await;
        holds(ended.is_err(), "a job is in no place")
    };
    let (guard, instead) = ("windlass.next_state(i.detail)", "(i.detail -> 'next')::smallint");
    catches("settle_blocks", guard, instead, "a job is in no place", story).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_is_closed_while_it_holds_a_job_is_detected() {
    let story = async |queue: &TestQueue, hand: &Hand| -> Reported {
        let block = three(queue, hand).await;
        hand.miss_heartbeats().await;
        let open = queue.client().await;
        open.batch_execute("begin").await.unwrap();
        let cancel = "select windlass.cancel($1, $2)";
        open.execute(cancel, &[&DEFAULT_TENANT, &block.jobs[1]]).await.unwrap();
        keeper(queue).run_once(Duty::Reap).await.unwrap();
        open.batch_execute("commit").await.unwrap();
        keeper(queue).run_once(Duty::Reap).await.unwrap();
        let left = count(&hand.client, "select count(*) from windlass.running").await;
        holds(left == 0, "the jobs of a closed worker are never recovered")
    };
    let guard = "overdue := array(select o from unnest(overdue) o where o <> all (holding));";
    let expected = "the jobs of a closed worker are never recovered";
    catches("lost_jobs", guard, "", expected, story).await;
}

#[tokio::test]
async fn a_job_that_is_handed_over_by_another_claim_is_detected() {
    let story = async |queue: &TestQueue, hand: &Hand| -> Reported {
        let block = three(queue, hand).await;
        let hand_over = "select windlass.hand_over($1, $2, $3, $4, $5, 60, 60)";
        for (attempt, token) in [(block.attempt + 1, block.token), (block.attempt, Uuid::new_v4())] {
            let params: [&(dyn ToSql + Sync); 5] =
                [&DEFAULT_TENANT, &block.jobs[1], &attempt, &token, &hand.worker];
            let is_handed_over: bool = hand.client.query_one(hand_over, &params).await.unwrap().get(0);
            holds(!is_handed_over, "another claim's word counts")?;
        }
        Ok(())
    };
    for guard in ["and l.attempt = with_attempt", "and l.token = with_token"] {
        catches("hand_over", guard, "", "another claim's word counts", &story).await;
    }
}

/// A block that another settlement has changed meanwhile is deleted by the last one.
#[tokio::test(flavor = "multi_thread")]
async fn a_block_that_stays_after_its_last_end_is_detected() {
    let story = async |queue: &TestQueue, hand: &Hand| -> Reported {
        let block = three(queue, hand).await;
        let open = queue.client().await;
        open.batch_execute("begin").await.unwrap();
        block.succeed(&open, &[0, 1]).await.unwrap();
        let ended = commit_beside(queue, &open, block.end(&hand.client, &[2], None)).await;
        let left = count(&hand.client, "select count(*) from windlass.live").await;
        holds(
            ended.is_ok_and(|ended| ended.missed.is_empty()) && left == 0,
            "a block without running jobs stays",
        )
    };
    let guard = "and l.ended | g.mask = windlass.all_bits(l.ids)";
    catches("settle_blocks", guard, "and false", "a block without running jobs stays", story).await;
}

/// The request is a part of the block: a lock ends with its transaction.
#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_that_only_locks_the_block_is_detected() {
    let story = async |queue: &TestQueue, hand: &Hand| -> Reported {
        let block = three(queue, hand).await;
        let open = queue.client().await;
        open.batch_execute("begin").await.unwrap();
        let cancel = "select windlass.cancel($1, $2)";
        open.execute(cancel, &[&DEFAULT_TENANT, &block.jobs[1]]).await.unwrap();
        let ended = commit_beside(queue, &open, block.end(&hand.client, &[0, 1, 2], None)).await;
        holds(ended.is_ok_and(|ended| ended.overruled == [1]), "the cancel is lost")?;
        holds(job(&hand.client, block.jobs[1]).await["status"] == "canceled", "the cancel is lost")
    };
    let guard = "update windlass.live l set cancel_requested_at[array_position(l.ids, job)]
        = coalesce(l.cancel_requested_at[array_position(l.ids, job)], at)
     where l.tenant_id = tenant and l.lane = block.lane and l.seq = block.seq
       and windlass.runs_at(l.ended, array_position(l.ids, job) - 1)
    returning l.attempt, l.worker, l.cancel_requested_at[array_position(l.ids, job)] = at as is_new into held;";
    let instead = "select l.attempt, l.worker, true as is_new into held from windlass.live l
     where l.tenant_id = tenant and l.lane = block.lane and l.seq = block.seq for update;";
    catches("cancel_unaudited", guard, instead, "the cancel is lost", story).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_is_handed_over_after_its_end_is_detected() {
    let story = async |queue: &TestQueue, hand: &Hand| -> Reported {
        let block = three(queue, hand).await;
        let open = queue.client().await;
        // It gives up after 200 ms, which may be over before the commit.
        let patient = "alter function windlass.hand_over set lock_timeout = '60 s'";
        hand.client.batch_execute(patient).await.unwrap();
        open.batch_execute("begin").await.unwrap();
        block.succeed(&open, &[1]).await.unwrap();
        let hand_over = "select windlass.hand_over($1, $2, $3, $4, $5, 60, 60)";
        let params: [&(dyn ToSql + Sync); 5] =
            [&DEFAULT_TENANT, &block.jobs[1], &block.attempt, &block.token, &hand.worker];
        let answer = commit_beside(queue, &open, hand.client.query_one(hand_over, &params)).await;
        holds(answer.is_ok_and(|row| !row.get::<_, bool>(0)), "an ended job is handed over")
    };
    let guard = "or not windlass.runs_at(held.ended, at_position)";
    catches("hand_over", guard, "", "an ended job is handed over", story).await;
}
