//! The guards of claims: who gets jobs, which jobs share a block, and what the limits and the cursor count.

use serde_json::json;
use tokio_postgres::Client;
use uuid::Uuid;
use windlass::NewJob;
use windlass_testing::TestQueue;

use super::{Reported, catches, commit_beside, holds};
use crate::support::{Hand, count, ending, status};

#[tokio::test]
async fn a_claim_that_does_not_check_the_lease_is_detected() {
    let story = async |_: &TestQueue, hand: &Hand| -> Reported {
        hand.enqueue("'held'").await;
        hand.miss_heartbeats().await;
        holds(hand.claim_all().await.is_empty(), "an overdue worker gets a job")
    };
    catches("claim", "and w.lease_expires_at > at", "", "an overdue worker gets a job", story).await;
}

async fn close(client: &Client, worker: i32) {
    // As the keeper does it, see lost_jobs.
    client.execute("select from windlass.job_workers where id = $1 for update", &[&worker]).await.unwrap();
    let close = "update windlass.job_workers set stopped_at = clock_timestamp() where id = $1";
    client.execute(close, &[&worker]).await.unwrap();
}

#[tokio::test]
async fn a_claim_of_a_closed_worker_is_detected() {
    let story = async |_: &TestQueue, hand: &Hand| -> Reported {
        hand.enqueue("'held'").await;
        close(&hand.client, hand.worker).await;
        holds(hand.claim_all().await.is_empty(), "a closed worker gets a job")
    };
    catches("claim", "and w.stopped_at is null", "", "a closed worker gets a job", story).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_that_does_not_lock_its_worker_is_detected() {
    let story = async |queue: &TestQueue, hand: &Hand| -> Reported {
        hand.enqueue("'held'").await;
        let open = queue.client().await;
        open.batch_execute("begin").await.unwrap();
        close(&open, hand.worker).await;
        let claimed = commit_beside(queue, &open, hand.claim_all()).await;
        holds(claimed.is_empty(), "a worker that is being closed gets a job")
    };
    let expected = "a worker that is being closed gets a job";
    catches("claim", "w.epoch <= in_epoch for key share", "w.epoch <= in_epoch", expected, story).await;
}

/// Whether a claim that runs while another one is open takes nothing.
async fn leaves_jobs_of_an_open_claim(queue: &TestQueue, hand: &Hand) -> Reported {
    hand.client.batch_execute("begin").await.unwrap();
    let first = hand.claim_all().await;
    let other = Hand::new(queue.client().await).await;
    let claim = "select count(*) from windlass.lane l,
        windlass.claim($1, gen_random_uuid(), array[l.id], array[0::bigint], array[10])";
    let second = commit_beside(queue, &hand.client, other.client.query_one(claim, &[&other.worker])).await;
    let is_left = second.is_ok_and(|row| row.get::<_, i64>(0) == 0);
    holds(!first.is_empty() && is_left, "a job is claimed twice")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_that_does_not_lock_its_rows_is_detected() {
    let of_several = async |queue: &TestQueue, hand: &Hand| -> Reported {
        queue.enqueue_many(&[NewJob::new("held"), NewJob::new("held")]).await.unwrap();
        leaves_jobs_of_an_open_claim(queue, hand).await
    };
    catches("claim", "for update skip locked", "", "a job is claimed twice", of_several).await;
    let of_one = async |queue: &TestQueue, hand: &Hand| -> Reported {
        hand.enqueue("'held'").await;
        leaves_jobs_of_an_open_claim(queue, hand).await
    };
    catches("claim_lone", "for update skip locked", "", "a job is claimed twice", of_one).await;
}

#[tokio::test]
async fn a_block_of_first_and_later_attempts_is_detected() {
    let story = async |_: &TestQueue, hand: &Hand| -> Reported {
        let again = hand.enqueue("'held'").await;
        let fence = hand.claim_one().await;
        hand.settle(&fence, Some(ending::release())).await;
        hand.enqueue("'held'").await;
        let claimed = hand.claim_all().await;
        let second = claimed.iter().find(|fence| fence.job == again).map(|fence| fence.attempt);
        holds(claimed.len() == 2 && second == Some(2), "an attempt is not counted")
    };
    let guard = "and p.attempt = 0 and p.job_id is null";
    catches("claim", guard, "", "an attempt is not counted", story).await;
}

#[tokio::test]
async fn a_block_of_jobs_with_and_without_a_key_is_detected() {
    let story = async |_: &TestQueue, hand: &Hand| -> Reported {
        hand.enqueue("'held'").await;
        let id = hand.enqueue("'held', dedupe_key => 'k'").await;
        for fence in hand.claim_all().await {
            hand.settle(&fence, None).await;
        }
        holds(hand.enqueue("'held', dedupe_key => 'k'").await != id, "its key is held after its end")
    };
    let (guard, expected) = ("and not p.holds_dedupe as is_small", "its key is held after its end");
    catches("claim", guard, "as is_small", expected, story).await;
}

#[tokio::test]
async fn a_block_of_jobs_that_are_too_far_apart_is_detected() {
    let story = async |_: &TestQueue, hand: &Hand| -> Reported {
        hand.enqueue("'held'").await;
        let others = "select nextval('windlass.line_seq') from generate_series(1, 100)";
        hand.client.execute(others, &[]).await.unwrap();
        let far = hand.enqueue("'held'").await;
        hand.claim_all().await;
        holds(status(&hand.client, far).await == "running", "a running job is not found")
    };
    catches("claim", "p.seq >> 12", "0", "a running job is not found", story).await;
}

#[tokio::test]
async fn a_block_of_more_jobs_than_it_has_bits_is_detected() {
    let story = async |queue: &TestQueue, hand: &Hand| -> Reported {
        for _ in 0..10 {
            queue.enqueue_many(&vec![NewJob::new("held"); 8]).await.unwrap();
        }
        for fence in hand.claim_all().await {
            holds(hand.settle(&fence, None).await, "a job of a block does not end")?;
        }
        Ok(())
    };
    catches("claim", "/ 56 as part", "/ 1000 as part", "a job of a block does not end", story).await;
}

#[tokio::test]
async fn a_claim_that_starts_a_late_job_is_detected() {
    const LATE: &str = "'held', deadline => clock_timestamp() - interval '1 s'";
    let of_several = async |_: &TestQueue, hand: &Hand| -> Reported {
        hand.enqueue(LATE).await;
        hand.enqueue("'held'").await;
        holds(hand.claim_all().await.len() == 1, "a late job is started")
    };
    let guard = "windlass.is_late(l.tenant_id, i.id, l.attempt - 1, at)";
    catches("claim", guard, "false", "a late job is started", of_several).await;
    let of_one = async |_: &TestQueue, hand: &Hand| -> Reported {
        hand.enqueue(LATE).await;
        holds(hand.claim_all().await.is_empty(), "a late job is started")
    };
    let guard = "windlass.is_late(place.tenant_id, place.ids[1], place.attempt, at)";
    catches("claim_lone", guard, "false", "a late job is started", of_one).await;
}

/// One block of three jobs runs under a limit of three.
async fn a_limit_that_one_block_reaches(queue: &TestQueue, hand: &Hand) -> Reported {
    hand.define(json!({"key": "few", "max_running": 3})).await;
    let jobs: Vec<NewJob> = (0..5).map(|_| NewJob::new("few")).collect();
    queue.enqueue_many(&jobs).await.unwrap();
    // The request to count jobs from before the limit, of which there is none.
    hand.client.execute("delete from windlass.gate where purpose = 'unmarked'", &[]).await.unwrap();
    holds(hand.claim_all().await.len() == 3, "a claim exceeds the limit")?;
    holds(hand.claim_all().await.is_empty(), "a claim exceeds the limit")
}

#[tokio::test]
async fn a_limit_that_counts_blocks_is_detected() {
    let (guard, instead) = ("sum(windlass.running_in(r.ids, r.ended))", "count(*)");
    let expected = "a claim exceeds the limit";
    catches("free_capacity", guard, instead, expected, a_limit_that_one_block_reaches).await;
}

#[tokio::test]
async fn a_claim_that_does_not_mark_limited_jobs_is_detected() {
    let guard = "case when is_limited then windlass.limited_by(b.lane) end";
    catches("claim", guard, "null", "a claim exceeds the limit", a_limit_that_one_block_reaches).await;
}

#[tokio::test]
async fn a_cursor_that_passes_a_row_with_jobs_is_detected() {
    let story = async |queue: &TestQueue, hand: &Hand| -> Reported {
        let jobs: Vec<NewJob> = (0..10).map(|_| NewJob::new("held")).collect();
        queue.enqueue_many(&jobs).await.unwrap();
        for apart in [false, true] {
            let claim = "select max(c.seq) from windlass.lane l,
                windlass.claim($1, gen_random_uuid(), array[l.id], array[0::bigint], array[3], 0, $2) c";
            let row = hand.client.query_one(claim, &[&hand.worker, &apart]).await.unwrap();
            let passed = format!("select count(*) from windlass.line where seq <= {}", row.get::<_, i64>(0));
            holds(count(&hand.client, &passed).await == 0, "the rest of a row is passed")?;
        }
        Ok(())
    };
    for (guard, instead) in
        [("apart::integer * (takes[p.ordinality] - 1)", "0"), ("then l.seq - 64", "then l.seq")]
    {
        catches("claim", guard, instead, "the rest of a row is passed", &story).await;
    }
}

#[tokio::test]
async fn a_report_that_does_not_check_the_token_is_detected() {
    let story = async |_: &TestQueue, hand: &Hand| -> Reported {
        hand.enqueue("'held'").await;
        let mut fence = hand.claim_one().await;
        holds(hand.progress(&fence).await, "the holder's report does not count")?;
        fence.token = Uuid::new_v4();
        holds(!hand.progress(&fence).await, "another claim's report counts")
    };
    let guard = "and block.token operator(pg_catalog.=) with_token";
    catches("holds", guard, "", "another claim's report counts", story).await;
}
