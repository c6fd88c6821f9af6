//! Which jobs a worker claims, and in which order.

use std::time::Duration;

use serde_json::{Value, json};
use uuid::Uuid;
use windlass::keeper::Duty;
use windlass::{Definition, NewJob};
use windlass_testing::{TestQueue, eventually};

use crate::support::{
    Acting, Hand, Held, attempts, count, ending, keeper, lose_worker, register, status, until, worker,
};

#[tokio::test(flavor = "multi_thread")]
async fn only_jobs_with_a_handler_are_claimed() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    queue.define(&Definition::new("somebody else's")).await.unwrap_err();
    queue.define(&Definition::new("foreign")).await.unwrap();
    let foreign = queue.enqueue(&NewJob::new("foreign")).await.unwrap().id;
    let worker = worker(&queue).handler(Acting).start().await.unwrap();
    let known = queue.enqueue(&NewJob::new("acting")).await.unwrap().id;
    until(&client, known, "succeeded").await;
    assert_eq!(status(&client, foreign).await, "queued");
    worker.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_serves_only_its_queues() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    let worker = worker(&queue).handler(Acting).queues(["mail"]).start().await.unwrap();
    let other = queue.enqueue(&NewJob::new("acting")).await.unwrap().id;
    let mail = queue.enqueue(&NewJob::new("acting").queue("mail")).await.unwrap().id;
    until(&client, mail, "succeeded").await;
    assert_eq!(status(&client, other).await, "queued");
    worker.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_queue_starts_nothing_until_it_is_resumed() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    queue.define(&Definition::new("acting")).await.unwrap();
    queue.set_paused("default", true).await.unwrap();
    let waits = queue.enqueue(&NewJob::new("acting")).await.unwrap().id;
    let worker = worker(&queue).handler(Acting).start().await.unwrap();
    let other = queue.enqueue(&NewJob::new("acting").queue("other")).await.unwrap().id;
    until(&client, other, "succeeded").await;
    assert_eq!(status(&client, waits).await, "queued");
    queue.set_paused("default", false).await.unwrap();
    until(&client, waits, "succeeded").await;
    worker.stop().await.unwrap();
}

/// Invariant 30.
#[tokio::test(flavor = "multi_thread")]
async fn a_lower_priority_number_runs_first_and_equal_ones_in_order() {
    let queue = TestQueue::create().await;
    queue.define(&Definition::new("held")).await.unwrap();
    let wanted = [(500, "d"), (100, "b"), (1, "a"), (100, "c")];
    for (priority, name) in wanted {
        queue.enqueue(&NewJob::new("held").priority(priority).payload(&name)).await.unwrap();
    }
    let (held, mut desk) = Held::new();
    let worker = worker(&queue).handler(held).concurrency(1).start().await.unwrap();
    let mut order = String::new();
    for _ in wanted {
        let run = desk.next().await;
        order.push_str(run.payload.as_str().unwrap());
        run.succeed();
    }
    assert_eq!(order, "abcd");
    worker.stop().await.unwrap();
}

/// Invariant 30, for the statement: a claim returns the first rows of a lane by sequence, among those not locked.
#[tokio::test(flavor = "multi_thread")]
async fn a_claim_takes_the_first_unlocked_jobs_of_a_lane() {
    let queue = TestQueue::create().await;
    let hand = Hand::new(queue.client().await).await;
    hand.define(json!({"key": "held"})).await;
    let mut ids = Vec::new();
    for _ in 0..6 {
        ids.push(hand.enqueue("'held'").await);
    }
    let mut other = queue.client().await;
    let transaction = other.transaction().await.unwrap();
    transaction
        .execute("select from windlass.line where $1 = any (ids) for update", &[&ids[1]])
        .await
        .unwrap();
    let claim =
        "select job_id from windlass.lane l, windlass.claim($1, $2, array[l.id], array[0::bigint], array[3])";
    let rows = hand.client.query(claim, &[&hand.worker, &Uuid::new_v4()]).await.unwrap();
    let taken: Vec<Uuid> = rows.iter().map(|row| row.get(0)).collect();
    assert_eq!(taken, [ids[0], ids[2], ids[3]]);
    transaction.rollback().await.unwrap();
    let rows = hand.client.query(claim, &[&hand.worker, &Uuid::new_v4()]).await.unwrap();
    let taken: Vec<Uuid> = rows.iter().map(|row| row.get(0)).collect();
    assert_eq!(taken, [ids[1], ids[4], ids[5]], "a skipped one is found by the next claim from 0");
}

/// Invariant 28.
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_never_holds_more_than_its_concurrency() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    let (held, mut desk) = Held::new();
    let worker = worker(&queue).handler(held).concurrency(3).start().await.unwrap();
    let jobs: Vec<_> = (0..20).map(|_| NewJob::new("held")).collect();
    queue.enqueue_many(&jobs).await.unwrap();
    let mut runs = Vec::new();
    let mut done = 0;
    while done < 20 {
        while runs.len() < 3.min(20 - done) {
            runs.push(desk.next().await);
        }
        let held = count(&client, "select count(*) from windlass.running").await;
        assert!(held <= 3 && desk.is_empty(), "holds {held}");
        assert!(worker.held_jobs() <= 3);
        runs.remove(done % runs.len()).succeed();
        done += 1;
    }
    let left = "select (select count(*) from windlass.line) + (select count(*) from windlass.running)";
    eventually("all have ended", async || count(&client, left).await == 0).await;
    worker.stop().await.unwrap();
}

/// Jobs that were claimed ahead of a long run are released and run by another worker, each once.
#[tokio::test(flavor = "multi_thread")]
async fn jobs_claimed_ahead_of_a_long_run_go_to_another_worker() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    queue.define(&Definition::new("acting")).await.unwrap();
    let quick: Vec<_> = (0..5_000).map(|_| NewJob::new("acting")).collect();
    queue.enqueue_many(&quick).await.unwrap();
    let (held, mut desk) = Held::new();
    let busy =
        worker(&queue).handler(Acting).handler(held).concurrency(1).prefetch(50).start().await.unwrap();
    let mut most = 0;
    eventually("it holds more jobs than it runs", async || {
        most = most.max(busy.held_jobs());
        most > 1
    })
    .await;
    queue.enqueue(&NewJob::new("held").priority(1)).await.unwrap();
    let long = desk.next().await;
    eventually("it has released the jobs that it cannot start", async || busy.held_jobs() == 1).await;
    let free = worker(&queue).handler(Acting).start().await.unwrap();
    let done = "select count(*) from windlass.jobs where status = 'succeeded'";
    eventually("another worker has run all the others", async || count(&client, done).await == 5_000).await;
    long.succeed();
    busy.stop().await.unwrap();
    let begun_once = "select count(*) from windlass.job_attempts where status = 'succeeded'";
    assert_eq!(count(&client, begun_once).await, 5_001);
    free.stop().await.unwrap();
}

/// Invariants 3, 6 and 15: sixteen concurrent claimers never get the same attempt twice.
#[tokio::test(flavor = "multi_thread")]
async fn concurrent_claims_never_share_a_job() {
    let queue = TestQueue::create().await;
    let hand = Hand::new(queue.client().await).await;
    hand.define(json!({"key": "held"})).await;
    hand.client
        .execute("select windlass.enqueue_many('held', array_fill('{}'::jsonb, array[400]))", &[])
        .await
        .unwrap();
    let mut claims = Vec::new();
    for _ in 0..8 {
        let client = queue.client().await;
        claims.push(tokio::spawn(async move {
            let worker = register(&client).await;
            let claim = "select job_id from windlass.lane l, windlass.claim($1, gen_random_uuid(), array[l.id], array[0::bigint], array[7])";
            let mut taken: Vec<Uuid> = Vec::new();
            loop {
                let rows = client.query(claim, &[&worker]).await.unwrap();
                if rows.is_empty() {
                    return taken;
                }
                taken.extend(rows.iter().map(|row| row.get::<_, Uuid>(0)));
            }
        }));
    }
    let mut all = Vec::new();
    for claim in claims {
        all.extend(claim.await.unwrap());
    }
    assert_eq!(all.len(), 400);
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), 400, "a job was claimed twice");
    assert_eq!(count(&hand.client, "select count(*) from windlass.running where attempt = 1").await, 400);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_that_finds_nothing_writes_nothing() {
    let queue = TestQueue::create().await;
    let hand = Hand::new(queue.client().await).await;
    hand.define(json!({"key": "held"})).await;
    let id = hand.enqueue("'held'").await;
    let written = "select pg_current_xact_id_if_assigned() is not null";
    for (claimed, has_written) in [(vec![id], true), (vec![], false)] {
        hand.client.batch_execute("begin").await.unwrap();
        let found: Vec<Uuid> = hand.claim_all().await.iter().map(|fence| fence.job).collect();
        let wrote: bool = hand.client.query_one(written, &[]).await.unwrap().get(0);
        assert_eq!((found, wrote), (claimed, has_written));
        hand.client.batch_execute("commit").await.unwrap();
    }
}

/// A row with one job is claimed by a shorter path than several rows; the worker and the tables show no difference.
#[tokio::test(flavor = "multi_thread")]
async fn a_single_job_is_claimed_like_one_of_a_batch() {
    let queue = TestQueue::create().await;
    let hand = Hand::new(queue.client().await).await;
    hand.define(json!({"key": "held"})).await;
    let id = hand
        .enqueue(
            "'held', '{\"n\": 1.50}', dedupe_key => 'd', subject_type => 's', subject_id => '1', tags => array['a', 'b'],
             correlation_id => 'c', trace => '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01',
             max_attempts => 7, deadline => now() + interval '1 day'",
        )
        .await;
    let fence = hand.claim_one().await;
    assert!(hand.settle(&fence, Some(ending::release())).await);
    let claim = async |others: usize| {
        hand.client.batch_execute("begin").await.unwrap();
        for _ in 0..others {
            hand.enqueue("'held'").await;
        }
        let claim = "select to_jsonb(c) - 'queued_ms' - 'deadline_ms' - 'seq' || jsonb_build_object('deadline', c.deadline_ms between 86000000 and 86400000)
            from windlass.lane l, windlass.claim($1, $2, array[l.id], array[0::bigint], array[9]) c where c.job_id = $3";
        let claimed: Value =
            hand.client.query_one(claim, &[&hand.worker, &Uuid::nil(), &id]).await.unwrap().get(0);
        let rows = "select to_jsonb(l) - 'claimed_at', (select count(*) from windlass.line), (select sum(queued) from windlass.tally)
            from windlass.live l where job_id = $1";
        let row = hand.client.query_one(rows, &[&id]).await.unwrap();
        hand.client.batch_execute("rollback").await.unwrap();
        (claimed, row.get::<_, Value>(0), row.get::<_, i64>(1), row.get::<_, i64>(2))
    };
    let alone = claim(0).await;
    assert_eq!(alone, claim(1).await);
    assert_eq!((alone.2, alone.3), (0, 0));
    assert_eq!(alone.0["extra"]["tags"], json!(["a", "b"]));
}

/// Each of the rare columns is returned with the job, even if it is the only one that the job has.
#[tokio::test(flavor = "multi_thread")]
async fn a_job_with_one_rare_column_is_claimed_alone_and_in_a_batch() {
    let queue = TestQueue::create().await;
    let hand = Hand::new(queue.client().await).await;
    hand.define(json!({"key": "held"})).await;
    let claim = "select c.extra from windlass.lane l, windlass.claim($1, $2, array[l.id], array[0::bigint], array[9]) c
        where c.job_id = $3";
    for (column, value) in [
        ("source_ref", json!("r")),
        ("correlation_id", json!("c")),
        ("subject_type", json!("s")),
        ("subject_id", json!("1")),
        ("trace", json!("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")),
        ("tags", json!(["a"])),
        ("parent_id", json!(Uuid::nil())),
        ("created_by", json!(Uuid::nil())),
    ] {
        let argument =
            if column == "tags" { "array['a']".to_owned() } else { format!("'{}'", value.as_str().unwrap()) };
        // A subject always has both.
        let more = match column {
            "subject_type" => ", subject_id => '1'",
            "subject_id" => ", subject_type => 's'",
            _ => "",
        };
        for others in 0..2 {
            hand.client.batch_execute("begin").await.unwrap();
            for _ in 0..others {
                hand.enqueue("'held'").await;
            }
            let id = hand.enqueue(&format!("'held', {column} => {argument}{more}")).await;
            let extra: Value =
                hand.client.query_one(claim, &[&hand.worker, &Uuid::nil(), &id]).await.unwrap().get(0);
            assert_eq!(extra[column], value, "{column} beside {others} others");
            hand.client.batch_execute("rollback").await.unwrap();
        }
    }
}

/// Invariants 11 and 12: a job that is claimed at the instant at which its worker's lease expires is not lost.
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_is_not_closed_while_its_claim_is_running() {
    let queue = TestQueue::create().await;
    let hand = Hand::new(queue.client().await).await;
    hand.define(json!({"key": "held"})).await;
    let id = hand.enqueue("'held'").await;
    hand.client.batch_execute("begin").await.unwrap();
    hand.claim_one().await;
    let expire = "update windlass.job_workers set lease_expires_at = clock_timestamp() - interval '1 s'";
    queue.client().await.execute(expire, &[]).await.unwrap();
    let keeper = keeper(&queue);
    assert_eq!(keeper.run_once(Duty::Reap).await.unwrap().moved, 0);
    hand.client.batch_execute("commit").await.unwrap();
    assert_eq!(keeper.run_once(Duty::Reap).await.unwrap().moved, 1);
    assert_eq!(attempts(&hand.client, id).await, ["lost"]);
}

/// Invariant 14.
#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_keeps_losing_its_worker_ends_as_poison() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    let (setup, keeper) = (Hand::new(queue.client().await).await, keeper(&queue));
    setup.define(json!({"key": "held", "max_lost": 2, "max_attempts": 10})).await;
    let id = setup.enqueue("'held'").await;
    for wanted in ["scheduled", "dead_letter"] {
        assert_eq!(lose_worker(&queue, &keeper).await, 1);
        assert_eq!(status(&client, id).await, wanted);
    }
    assert_eq!(crate::support::job(&client, id).await["reason"], "poison");
    assert_eq!(attempts(&client, id).await, ["lost", "lost"]);
}

/// Invariants 29 and 34: a tenant whose jobs all fail does not block another.
#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_that_only_fails_does_not_starve_another() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    let (bad, good) = (queue.tenant("bad").await, queue.tenant("good").await);
    queue.define(&Definition::new("acting")).await.unwrap();
    let failing: Vec<_> = (0..300)
        .map(|_| NewJob::new("acting").tenant(bad).max_attempts(1000).payload(&json!({"act": "fail"})))
        .collect();
    queue.enqueue_many(&failing).await.unwrap();
    let worker = worker(&queue).handler(Acting).concurrency(4).start().await.unwrap();
    let fine: Vec<_> = (0..20).map(|_| NewJob::new("acting").tenant(good)).collect();
    let fine = queue.enqueue_many(&fine).await.unwrap();
    for job in &fine {
        until(&client, job.id, "succeeded").await;
    }
    let waited = "select max(extract(epoch from j.started_at - j.queued_at))::float8 from windlass.jobs j where j.tenant_id = $1";
    let waited: f64 = client.query_one(waited, &[&good]).await.unwrap().get(0);
    assert!(waited < 30.0, "a fresh job waited {waited} s");
    assert!(count(&client, "select count(*) from windlass.history where outcome = 2").await > 0);
    drop(worker);
}

/// Invariants 29 and 32: with LISTEN off an idle worker finds a job by polling, within two polls, and never early.
#[tokio::test(flavor = "multi_thread")]
async fn an_idle_worker_that_only_polls_starts_a_job_within_two_polls() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    let deaf = windlass_testing::settings(queue.url()).without_listen();
    let deaf = windlass::Queue::connect(deaf).await.unwrap();
    let poll = Duration::from_secs(2);
    let worker = worker(&deaf).handler(Acting).poll_interval(poll).start().await.unwrap();
    for delay in [0, 300] {
        let new = NewJob::new("acting").delay(Duration::from_millis(delay)).payload(&Value::Null);
        let id = deaf.enqueue(&new).await.unwrap().id;
        until(&client, id, "succeeded").await;
        let waited =
            "select extract(epoch from started_at - scheduled_for)::float8 from windlass.jobs where id = $1";
        let waited: f64 = client.query_one(waited, &[&id]).await.unwrap().get(0);
        assert!((0.0..2.0 * poll.as_secs_f64()).contains(&waited), "started after {waited} s");
    }
    worker.stop().await.unwrap();
}

/// The notification, not the poll: every way to queue a job wakes a worker that would otherwise check in ten minutes.
#[tokio::test(flavor = "multi_thread")]
async fn an_idle_worker_is_woken_by_every_way_to_queue() {
    let queue = TestQueue::create().await;
    let hand = Hand::new(queue.client().await).await;
    let sleepy = worker(&queue).handler(Acting).poll_interval(Duration::from_secs(600));
    let worker = sleepy.start().await.unwrap();
    let waits = "select count(*) from windlass.waiting";
    let idle = async || eventually("it waits", async || count(&hand.client, waits).await == 1).await;
    for round in 0..2 {
        idle().await;
        let by_rust = queue.enqueue(&NewJob::new("acting")).await.unwrap().id;
        until(&hand.client, by_rust, "succeeded").await;
        idle().await;
        let by_sql = hand.enqueue(&format!("'acting', queue => 'new-lane-{round}'")).await;
        until(&hand.client, by_sql, "succeeded").await;
        idle().await;
        let many = queue.enqueue_many(&[NewJob::new("acting"), NewJob::new("acting")]).await.unwrap();
        until(&hand.client, many[1].id, "succeeded").await;
        idle().await;
        let promoted = hand.enqueue("'acting', delay => '200 ms'").await;
        let unblocked = hand.enqueue(&format!("'acting', depends_on => array['{promoted}'::uuid]")).await;
        until(&hand.client, promoted, "succeeded").await;
        until(&hand.client, unblocked, "succeeded").await;
        idle().await;
        assert_eq!(hand.retry(by_rust).await, "queued");
        until(&hand.client, by_rust, "succeeded").await;
    }
    worker.stop().await.unwrap();
}
