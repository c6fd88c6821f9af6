//! What commits together with the end of an attempt, and what a stale attempt may not do.

use std::sync::Arc;

use serde_json::{Value, json};
use tokio::sync::Mutex;
use uuid::Uuid;
use windlass::job::Fence;
use windlass::keeper::Duty;
use windlass::worker::Completion;
use windlass::{BatchHandler, Context, Definition, Done, Failure, Handler, NewJob};
use windlass_testing::TestQueue;

use crate::support::{
    Acting, Hand, Held, attempts, count, ending, everything, job, keeper, soon, until, worker,
};

/// Invariant 17.
#[tokio::test(flavor = "multi_thread")]
async fn a_chained_job_is_enqueued_with_its_parents_completion() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    queue.define(&Definition::new("later")).await.unwrap();
    let (held, mut desk) = Held::new();
    let worker = worker(&queue).handler(held).start().await.unwrap();
    let trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let first = NewJob::new("held").correlation_id("request 7").trace(trace);
    let id = queue.enqueue(&first).await.unwrap().id;
    let next = NewJob::new("later").payload(&Value::Null).subject("post", "12");
    desk.next().await.end(Ok(Done::new().then(next).then(NewJob::new("later").payload(&json!({"n": 2})))));
    until(&client, id, "succeeded").await;
    let rows = client
        .query("select to_jsonb(j) from windlass.jobs j where parent_id = $1 order by subject_id", &[&id])
        .await
        .unwrap();
    let children: Vec<Value> = rows.iter().map(|row| row.get(0)).collect();
    assert_eq!(children.len(), 2);
    assert_eq!(children[0]["payload"], Value::Null);
    assert_eq!((&children[0]["subject_type"], &children[0]["subject_id"]), (&json!("post"), &json!("12")));
    assert_eq!(children[1]["payload"], json!({"n": 2}));
    for child in &children {
        assert_eq!(child["status"], "queued");
        assert_eq!((&child["correlation_id"], &child["trace"]), (&json!("request 7"), &json!(trace)));
        assert_eq!(child["source"], "system");
    }
    worker.stop().await.unwrap();
}

/// Invariants 17 and 50: a success whose next job cannot be enqueued is a failure that is retried.
#[tokio::test(flavor = "multi_thread")]
async fn a_rejected_chained_job_fails_the_attempt() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    queue.define(&Definition::new("later")).await.unwrap();
    let (held, mut desk) = Held::new();
    let worker = worker(&queue).handler(held).start().await.unwrap();
    let refused: [(NewJob, &str); 4] = [
        (NewJob::new("nobody knows this"), "nobody knows this"),
        (NewJob::new("later").payload_json("[1e999]"), "payload"),
        (NewJob::new("later").max_attempts(0), "max_attempts"),
        (NewJob::new("later").subject("post", "\0"), "subject_id"),
    ];
    for (next, names) in refused {
        let id = queue.enqueue(&NewJob::new("held").max_attempts(2)).await.unwrap().id;
        desk.next().await.end(Ok(Done::new().then(NewJob::new("later")).then(next)));
        let again = desk.next().await;
        assert_eq!((again.job, again.attempt), (id, 2));
        let row = job(&client, id).await;
        let error = row["last_error"].as_str().unwrap();
        assert!(error.contains(names), "{error}");
        again.succeed();
        until(&client, id, "succeeded").await;
        assert_eq!(attempts(&client, id).await, ["failed", "succeeded"]);
    }
    assert_eq!(count(&client, "select count(*) from windlass.jobs where definition_key = 'later'").await, 0);
    worker.stop().await.unwrap();
}

/// Writes a row and completes in one transaction, which it commits or rolls back as the payload specifies.
struct Writing(String);

windlass_testing::payload!(WritingArgs(Value) = "writing");

impl Handler for Writing {
    type Args = WritingArgs;

    async fn run(&self, job: &Context, WritingArgs(payload): WritingArgs) -> Result<Done, Failure> {
        let (mut client, connection) = tokio_postgres::connect(&self.0, tokio_postgres::NoTls).await?;
        let connection = tokio::spawn(connection);
        let transaction = client.transaction().await?;
        transaction.execute("insert into written values ($1)", &[&job.attempt()]).await?;
        let done = Done::new().result(&"kept").then(NewJob::new("later"));
        let outcome = match job.complete_in(&transaction, done).await? {
            Completion::Ready(done) if payload["commit_at"] == job.attempt() => {
                transaction.commit().await?;
                Ok(done)
            }
            Completion::Ready(done) => {
                transaction.rollback().await?;
                Ok(done)
            }
            _ => {
                transaction.rollback().await?;
                Err(Failure::retry("the lease is lost"))
            }
        };
        drop(client);
        connection.await??;
        outcome
    }

    fn definition(&self) -> Definition {
        Definition::of::<WritingArgs>().backoff(soon())
    }
}

/// Invariant 16.
#[tokio::test(flavor = "multi_thread")]
async fn a_handlers_writes_are_visible_if_and_only_if_its_job_succeeded() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    client.batch_execute("create table written (attempt integer)").await.unwrap();
    queue.define(&Definition::new("later")).await.unwrap();
    let worker = worker(&queue).handler(Writing(queue.url().to_owned())).start().await.unwrap();
    let id = queue.enqueue(&NewJob::new("writing").payload(&json!({"commit_at": 2}))).await.unwrap().id;
    let row = until(&client, id, "succeeded").await;
    assert_eq!(row["result"], "kept");
    assert_eq!(attempts(&client, id).await, ["failed", "succeeded"]);
    let written: Vec<i32> =
        client.query("select * from written", &[]).await.unwrap().iter().map(|row| row.get(0)).collect();
    assert_eq!(written, [2], "only the attempt that succeeded wrote");
    assert_eq!(count(&client, "select count(*) from windlass.jobs where definition_key = 'later'").await, 1);
    worker.stop().await.unwrap();
}

/// Takes up to three at a time and records how many it got.
struct Together(Arc<Mutex<Vec<usize>>>);

windlass_testing::payload!(TogetherArgs(Value) = "together");

impl BatchHandler for Together {
    const BATCH: usize = 3;
    type Args = TogetherArgs;

    async fn run(&self, jobs: Vec<(Context, TogetherArgs)>) -> Vec<Result<Done, Failure>> {
        self.0.lock().await.push(jobs.len());
        let outcome = |payload: &Value| match payload["n"].as_i64() {
            Some(0) => Err(Failure::permanent("nought")),
            n => Ok(Done::new().result(&n)),
        };
        jobs.iter()
            .map(|(_, payload)| outcome(&payload.0))
            .filter(|outcome| {
                // A job without an outcome counts as failed; 7 is omitted, and as it is last the outcomes of the others do not shift.
                !outcome.as_ref().is_ok_and(|done| format!("{done:?}").contains("\"7\""))
            })
            .collect()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_handler_gets_several_jobs_and_settles_each() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    queue.define(&Definition::new("together").max_attempts(1)).await.unwrap();
    let jobs: Vec<_> = (0..8).map(|n| NewJob::new("together").payload(&json!({"n": n}))).collect();
    let ids: Vec<Uuid> = queue.enqueue_many(&jobs).await.unwrap().iter().map(|outcome| outcome.id).collect();
    let sizes = Arc::new(Mutex::new(Vec::new()));
    let worker = worker(&queue).batch_handler(Together(sizes.clone())).start().await.unwrap();
    assert_eq!(until(&client, ids[0], "failed").await["last_error"], "nought");
    for (n, id) in ids.iter().enumerate().take(7).skip(1) {
        assert_eq!(until(&client, *id, "succeeded").await["result"], json!(n));
    }
    let forgotten = until(&client, ids[7], "dead_letter").await;
    assert_eq!(forgotten["last_error"], "the batch handler returned no result for this job");
    let sizes = sizes.lock().await.clone();
    assert!(sizes.iter().all(|&size| size <= 3) && sizes.contains(&3), "{sizes:?}");
    worker.stop().await.unwrap();
}

/// Invariant 50: the SQL function cannot check schemas, so the worker does before it runs the job.
#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_payload_ends_its_job_before_it_runs() {
    #[derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
    struct Args {
        name: String,
    }
    struct Typed;
    impl windlass::JobArgs for Args {
        const KEY: &'static str = "typed";
    }

    impl Handler for Typed {
        type Args = Args;
        async fn run(&self, _: &Context, _: Args) -> Result<Done, Failure> {
            Ok(Done::new())
        }
    }
    let queue = TestQueue::create().await;
    let hand = Hand::new(queue.client().await).await;
    let worker = worker(&queue).handler(Typed).start().await.unwrap();
    let bad = hand.enqueue(r#"'typed', '{"name": 7}'"#).await;
    let good = hand.enqueue(r#"'typed', '{"name": "x"}'"#).await;
    let row = until(&hand.client, bad, "failed").await;
    let error = row["last_error"].as_str().unwrap();
    assert!(error.contains("/name"), "{error}");
    assert_eq!(attempts(&hand.client, bad).await, ["failed"]);
    until(&hand.client, good, "succeeded").await;
    worker.stop().await.unwrap();
}

/// Invariants 5 and 6: every write of a worker under a wrong fence changes no row of any table.
#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_fence_changes_nothing() {
    let queue = TestQueue::create().await;
    let hand = Hand::new(queue.client().await).await;
    hand.define(json!({"key": "held"})).await;
    hand.enqueue("'held'").await;
    let right = hand.claim_one().await;
    let before = everything(&hand.client).await;
    let wrong: [Fence; 4] = [
        Fence { token: Uuid::new_v4(), ..right },
        Fence { attempt: right.attempt + 1, ..right },
        Fence { attempt: right.attempt - 1, ..right },
        Fence { tenant: Uuid::new_v4(), ..right },
    ];
    let details = [
        None,
        Some(ending::retry()),
        Some(ending::release()),
        Some(ending::snooze()),
        Some(ending::failed()),
    ];
    for fence in wrong {
        for detail in &details {
            assert!(!hand.settle(&fence, detail.clone()).await);
        }
        assert!(!hand.progress(&fence).await);
    }
    assert_eq!(everything(&hand.client).await, before);
    assert!(hand.progress(&right).await && hand.settle(&right, None).await);
}

/// A code of no state, or of one that no settlement leads to, would leave the job in no place.
#[tokio::test(flavor = "multi_thread")]
async fn an_ending_with_an_unknown_next_state_is_refused_and_changes_nothing() {
    let queue = TestQueue::create().await;
    let hand = Hand::new(queue.client().await).await;
    hand.define(json!({"key": "held"})).await;
    hand.enqueue("'held'").await;
    hand.enqueue("'held'").await;
    let fences = hand.claim_all().await;
    let before = everything(&hand.client).await;
    let settle = "select settled from windlass.settle(array[$1::uuid, $1], array[$2::uuid, $6], array[$3::integer, $3],
        array[$4::uuid, $4], array[1, 1], array[null, $5::jsonb])";
    let pull = "select windlass.pull_settle($1, $2, $3, $4, $5)";
    for next in [-1, 0, 6, 8, 9, 99, 100_000] {
        let detail =
            json!({"outcome": 1, "next": next, "failures": 0, "lost": 0, "snoozes": 0, "delay_ms": 0});
        let (one, two) = (&fences[0], &fences[1]);
        let params: [&(dyn tokio_postgres::types::ToSql + Sync); 6] =
            [&one.tenant, &one.job, &one.attempt, &one.token, &detail, &two.job];
        let together = hand.client.query_one(settle, &params).await.unwrap_err();
        let pulled = hand.client.query_one(pull, &params[..5]).await.unwrap_err();
        for refused in [together, pulled] {
            let code = refused.code().unwrap().code();
            assert!(code == "WL007" || next == 100_000 && code == "22003", "{next}: {refused:?}");
        }
    }
    assert_eq!(everything(&hand.client).await, before);
    for (fence, next) in fences.iter().zip([1, 4]) {
        assert!(hand.settle(fence, Some(json!({"outcome": next, "next": next}))).await);
    }
}

/// Invariants 5, 7 and 8: expiry alone takes nothing away, a reap does, and a later write changes no row.
#[tokio::test(flavor = "multi_thread")]
async fn a_late_settle_is_rejected_and_changes_no_row() {
    let queue = TestQueue::create().await;
    let hand = Hand::new(queue.client().await).await;
    hand.define(json!({"key": "held"})).await;
    let spared = hand.enqueue("'held'").await;
    let fence = hand.claim_one().await;
    hand.miss_heartbeats().await;
    assert!(hand.settle(&fence, None).await, "an expired lease that was not reaped is still valid");
    until(&hand.client, spared, "succeeded").await;

    let reaped = hand.enqueue("'held'").await;
    assert!(hand.claim_all().await.is_empty(), "an overdue worker gets no new job");
    assert!(hand.heartbeat().await, "an expired lease may be renewed");
    let fence = hand.claim_one().await;
    hand.miss_heartbeats().await;
    assert!(hand.heartbeat().await);
    assert_eq!(keeper(&queue).run_once(Duty::Reap).await.unwrap().moved, 0);
    hand.miss_heartbeats().await;
    assert_eq!(keeper(&queue).run_once(Duty::Reap).await.unwrap().moved, 1);
    until(&hand.client, reaped, "scheduled").await;
    let before = everything(&hand.client).await;
    for detail in [None, Some(ending::retry()), Some(ending::failed()), Some(ending::release())] {
        assert!(!hand.settle(&fence, detail).await);
    }
    assert!(!hand.progress(&fence).await);
    assert_eq!(everything(&hand.client).await, before);
    assert_eq!(attempts(&hand.client, reaped).await, ["lost"]);
}

/// Invariant 8.
#[tokio::test(flavor = "multi_thread")]
async fn of_a_reap_and_a_completion_exactly_one_wins() {
    let queue = TestQueue::create().await;
    let keeper = keeper(&queue);
    for _ in 0..20 {
        let hand = Hand::new(queue.client().await).await;
        hand.define(json!({"key": "held"})).await;
        let id = hand.enqueue("'held'").await;
        let fence = hand.claim_one().await;
        hand.miss_heartbeats().await;
        let (settled, reaped) = tokio::join!(hand.settle(&fence, None), keeper.run_once(Duty::Reap));
        let row = job(&hand.client, id).await;
        assert_eq!(u64::from(settled) + reaped.unwrap().moved, 1);
        assert_eq!(row["status"], if settled { "succeeded" } else { "scheduled" });
        assert_eq!(attempts(&hand.client, id).await.len(), 1);
        hand.client.execute("delete from windlass.deferred", &[]).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_attempts_view_has_one_row_per_attempt_with_every_column() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    let worker = worker(&queue).handler(Acting).start().await.unwrap();
    let id = queue.enqueue(&NewJob::new("acting").payload(&json!({"act": "fail_once"}))).await.unwrap().id;
    until(&client, id, "succeeded").await;
    let rows = "select id, job_id, attempt_no, worker_id, pid, started_at, finished_at, exit_code, status, stdout_tail,
        stderr_tail, error_text from windlass.job_attempts order by attempt_no";
    let rows = client.query(rows, &[]).await.unwrap();
    assert_eq!(rows.len(), 2);
    let seen: Vec<(i32, String, String, Option<String>)> = rows
        .iter()
        .map(|row| (row.get("attempt_no"), row.get("worker_id"), row.get("status"), row.get("error_text")))
        .collect();
    let by = worker.id().to_owned();
    assert_eq!(seen[0], (1, by.clone(), "failed".to_owned(), Some("once".to_owned())));
    assert_eq!(seen[1], (2, by, "succeeded".to_owned(), None));
    assert_ne!(rows[0].get::<_, Uuid>("id"), rows[1].get::<_, Uuid>("id"));
    let started = |row: usize| rows[row].get::<_, jiff::Timestamp>("started_at");
    let of_job = "select started_at, last_started_at, finished_at from windlass.jobs where id = $1";
    let of_job = client.query_one(of_job, &[&id]).await.unwrap();
    assert_eq!(of_job.get::<_, jiff::Timestamp>(0), started(0), "the job keeps its first start");
    assert_eq!(of_job.get::<_, jiff::Timestamp>(1), started(1), "and its latest");
    assert_eq!(of_job.get::<_, jiff::Timestamp>(2), rows[1].get::<_, jiff::Timestamp>("finished_at"));
    worker.stop().await.unwrap();
}

/// A changed row is locked before it is read again. If it belongs to another attempt by then, nothing was settled, and the result
/// is null: a caller that settles one job only checks whether there is a row.
#[tokio::test(flavor = "multi_thread")]
async fn an_ending_whose_row_has_changed_is_not_settled() {
    let queue = TestQueue::create().await;
    let hand = Hand::new(queue.client().await).await;
    hand.define(json!({"key": "held"})).await;
    hand.enqueue("'held'").await;
    let fence = hand.claim_one().await;
    // A lock that was rolled back leaves its mark on the row, which must still be recognized as the same row.
    let touch = "begin; select from windlass.live for update; rollback;
        create function public.keep() returns trigger language plpgsql as 'begin return null; end';
        create trigger keep before delete on windlass.live for each row execute function public.keep()";
    hand.client.batch_execute(touch).await.unwrap();
    let settle = "select settled from windlass.settle(array[$1::uuid], array[$2::uuid], array[$3::integer],
        array[$4::uuid], array[1], array[null::jsonb], null, true)";
    let params: [&(dyn tokio_postgres::types::ToSql + Sync); 4] =
        [&fence.tenant, &fence.job, &fence.attempt, &fence.token];
    let settled: Option<Vec<i32>> = hand.client.query_one(settle, &params).await.unwrap().get(0);
    assert_eq!(settled, None);
}

/// A handler's result may contain any names.
#[tokio::test(flavor = "multi_thread")]
async fn a_result_with_chain_fields_enqueues_no_job() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    let refuse =
        "alter table windlass.history add constraint refused check (strpos(result::text, 'refused') = 0)";
    client.batch_execute(refuse).await.unwrap();
    let (held, mut desk) = Held::new();
    let worker = worker(&queue).handler(held).start().await.unwrap();
    let id = queue.enqueue(&NewJob::new("held")).await.unwrap().id;
    desk.next().await.end(Ok(Done::new().result(&json!({"chain": "refused"}))));
    until(&client, id, "succeeded").await;
    let query = "select error_text from windlass.history where job_id = $1";
    let error: String = client.query_one(query, &[&id]).await.unwrap().get(0);
    assert_eq!(error, "its output and error could not be stored");
    worker.stop().await.unwrap();
}
