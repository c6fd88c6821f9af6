//! The duties that move jobs.

use serde_json::json;
use tokio_postgres::Client;
use uuid::Uuid;
use windlass::DEFAULT_TENANT;
use windlass::keeper::Duty;
use windlass_testing::TestQueue;

use super::{assert_shown, set_aside};
use crate::support::{Hand, count, keeper, status};

async fn hand(queue: &TestQueue) -> Hand {
    let hand = Hand::new(queue.client().await).await;
    hand.define(json!({"key": "held"})).await;
    hand
}

async fn run(hand: &Hand, text: &str, job: Uuid) {
    assert_eq!(hand.client.execute(text, &[&job]).await.unwrap(), 1, "{text}");
}

/// A body far larger than any accepted one.
const HUGE: &str =
    "update windlass.job set payload = jsonb_build_object('text', repeat('x', 20000000)) where id = $1";
const NO_LANE: i32 = -9;
const NO_BODY: &str = "delete from windlass.job where id = $1";

/// A transaction that holds these rows, such as `deferred where …`.
async fn holding(queue: &TestQueue, rows: &str) -> Client {
    let other = queue.client().await;
    let hold = format!("begin; select from windlass.{rows} for update");
    other.batch_execute(&hold).await.unwrap();
    other
}

const DUE: &str =
    "update windlass.deferred set due_at = clock_timestamp() - interval '1 s' where job_id = $1";

/// One that is already queued; never due; huge; of a lane that does not exist; without its body; and one that another session holds.
pub(super) async fn promote(queue: &TestQueue) {
    let hand = hand(queue).await;
    let twice = hand.enqueue("'held', delay => '1 h'").await;
    let never = hand.enqueue("'held', delay => '1 h'").await;
    let held = hand.enqueue("'held', delay => '1 h'").await;
    let huge = hand.enqueue("'held', delay => '1 h'").await;
    let laneless = hand.enqueue("'held', delay => '1 h'").await;
    let bodiless = hand.enqueue("'held', delay => '1 h'").await;
    let good = hand.enqueue("'held', delay => '1 h'").await;
    for job in [twice, held, huge, laneless, bodiless, good] {
        run(&hand, DUE, job).await;
    }
    run(&hand, HUGE, huge).await;
    run(&hand, &format!("update windlass.deferred set lane = {NO_LANE} where job_id = $1"), laneless).await;
    run(&hand, NO_BODY, bodiless).await;
    run(&hand, "update windlass.deferred set due_at = 'infinity' where job_id = $1", never).await;
    let in_line = "insert into windlass.line (tenant_id, job_id, lane, max_attempts, ids)
        select tenant_id, job_id, lane, max_attempts, array[job_id] from windlass.deferred where job_id = $1";
    run(&hand, in_line, twice).await;
    let other = holding(queue, &format!("deferred where job_id = '{held}'")).await;
    let round = keeper(queue).run_once(Duty::Promote).await.unwrap();
    assert_eq!(
        round.moved, 4,
        "all but the one that is already queued, the one that is held and the one that is never due"
    );
    for job in [good, huge] {
        assert_eq!(status(&hand.client, job).await, "queued");
    }
    assert_shown(queue, &twice.to_string(), "cannot be queued").await;
    // It is skipped for a minute, and forgotten when it is fixed.
    assert_eq!(keeper(queue).run_once(Duty::Promote).await.unwrap().moved, 0);
    run(&hand, "delete from windlass.line where job_id = $1", twice).await;
    hand.client
        .batch_execute("update windlass.problem set seen_at = seen_at - interval '2 minutes'")
        .await
        .unwrap();
    assert_eq!(keeper(queue).run_once(Duty::Promote).await.unwrap().moved, 1);
    assert!(set_aside(queue).await.is_empty());
    other.batch_execute("rollback").await.unwrap();
}

/// The attempt has already ended; the definition cannot be read, or was deleted; the body was deleted, or is huge; and one that
/// another session holds.
pub(super) async fn reap(queue: &TestQueue) {
    let hand = hand(queue).await;
    hand.define(json!({"key": "odd"})).await;
    hand.define(json!({"key": "gone"})).await;
    let held = hand.enqueue("'held'").await;
    assert_eq!(hand.claim_all().await.len(), 1, "in a block of its own");
    let ended = hand.enqueue("'held'").await;
    let bodiless = hand.enqueue("'held'").await;
    let odd = hand.enqueue("'odd'").await;
    let orphan = hand.enqueue("'gone'").await;
    let huge = hand.enqueue("'held'").await;
    let good = hand.enqueue("'held'").await;
    assert_eq!(hand.claim_all().await.len(), 6);
    run(&hand, HUGE, huge).await;
    let end = "insert into windlass.history (tenant_id, job_id, finished_at, attempt, lane, outcome)
        select tenant_id, job_id, clock_timestamp(), attempt, lane, 2 from windlass.running where job_id = $1";
    run(&hand, end, ended).await;
    run(&hand, NO_BODY, bodiless).await;
    let spoil = r#"update windlass.job_definitions set backoff = '{"base": 5}' where key = 'odd';
        delete from windlass.job_definitions where key = 'gone'"#;
    hand.client.batch_execute(spoil).await.unwrap();
    hand.miss_heartbeats().await;
    let other = holding(queue, &format!("live where '{held}' = any (ids)")).await;
    assert_eq!(keeper(queue).run_once(Duty::Reap).await.unwrap().moved, 5);
    for job in [odd, huge, good] {
        assert_eq!(status(&hand.client, job).await, "scheduled");
    }
    let left = "select count(*) from windlass.live l, windlass.running_of(l.ids, l.ended)";
    assert_eq!(
        count(&hand.client, left).await,
        2,
        "{orphan}, {bodiless} and the good ones are not held any more"
    );
    other.batch_execute("rollback").await.unwrap();
    assert_eq!(keeper(queue).run_once(Duty::Reap).await.unwrap().moved, 1, "it is retried");
    assert_shown(queue, &ended.to_string(), "cannot be recovered").await;
    assert_shown(queue, "odd", "backoff").await;
}

/// Cannot be ended, because it has ended; huge; held by another session; deleted.
pub(super) async fn expire(queue: &TestQueue) {
    let hand = hand(queue).await;
    let late = "deadline => clock_timestamp() - interval '1 s'";
    let ended = hand.enqueue(&format!("'held', {late}")).await;
    let held = hand.enqueue(&format!("'held', {late}")).await;
    let huge = hand.enqueue(&format!("'held', {late}")).await;
    let good = hand.enqueue(&format!("'held', {late}")).await;
    run(&hand, HUGE, huge).await;
    let end = "insert into windlass.history (tenant_id, job_id, finished_at, attempt, lane, job_status)
        select tenant_id, id, clock_timestamp(), 0, lane, 4 from windlass.job where id = $1";
    run(&hand, end, ended).await;
    let gone = "insert into windlass.expiry (tenant_id, job_id, expires_at, only_unstarted)
        select $1, gen_random_uuid(), t.at, true from (values (timestamptz '-infinity'), ('infinity')) t (at)";
    hand.client.execute(gone, &[&DEFAULT_TENANT]).await.unwrap();
    let other = queue.client().await;
    let hold = format!("begin; select from windlass.line where '{held}' = any (ids) for update");
    other.batch_execute(&hold).await.unwrap();
    keeper(queue).run_once(Duty::Expire).await.unwrap();
    for job in [good, huge] {
        assert_eq!(status(&hand.client, job).await, "failed");
    }
    assert_shown(queue, &ended.to_string(), "cannot be failed").await;
    assert_eq!(status(&hand.client, held).await, "queued");
    other.batch_execute("rollback").await.unwrap();
    keeper(queue).run_once(Duty::Expire).await.unwrap();
    assert_eq!(status(&hand.client, held).await, "failed", "it is retried");
}

/// One that is already queued; depends on a missing job; huge; held by another session.
pub(super) async fn unblock(queue: &TestQueue) {
    let hand = hand(queue).await;
    let need = hand.enqueue("'held'").await;
    let waits = format!("'held', depends_on => array['{need}'::uuid]");
    let twice = hand.enqueue(&waits).await;
    let huge = hand.enqueue(&waits).await;
    let held = hand.enqueue(&waits).await;
    let good = hand.enqueue(&waits).await;
    run(&hand, HUGE, huge).await;
    let absent = hand.enqueue("'held'").await;
    let waits_for_absent =
        hand.enqueue(&format!("'held', depends_on => array['{absent}'::uuid], if_unmet => 'run'")).await;
    for gone in ["delete from windlass.line where $1 = any (ids)", NO_BODY] {
        run(&hand, gone, absent).await;
    }
    let in_line = "insert into windlass.line (tenant_id, job_id, lane, max_attempts, ids)
        select tenant_id, job_id, lane, max_attempts, array[job_id] from windlass.blocked where job_id = $1";
    run(&hand, in_line, twice).await;
    // The dependency ends without a hand-over.
    run(&hand, "delete from windlass.line where $1 = any (ids)", need).await;
    let end =
        "insert into windlass.history (tenant_id, job_id, finished_at, attempt, lane, outcome, job_status)
        select tenant_id, id, clock_timestamp(), 1, lane, 1, 1 from windlass.job where id = $1";
    run(&hand, end, need).await;
    let other = holding(queue, &format!("blocked where job_id = '{held}'")).await;
    for _ in 0..3 {
        keeper(queue).run_once(Duty::Unblock).await.unwrap();
    }
    for job in [good, huge, waits_for_absent] {
        assert_eq!(status(&hand.client, job).await, "queued");
    }
    assert_shown(queue, &twice.to_string(), "cannot be unblocked").await;
    other.batch_execute("rollback").await.unwrap();
    for _ in 0..3 {
        keeper(queue).run_once(Duty::Unblock).await.unwrap();
    }
    assert_eq!(status(&hand.client, held).await, "queued", "it is retried");
}
