//! From claim to settlement, with real workers.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::sync::Notify;
use windlass::job::OnTimeout;
use windlass::keeper::Duty;
use windlass::{Context, DEFAULT_TENANT, Definition, Done, Failure, Handler, NewJob};
use windlass_testing::{TestQueue, eventually};

use crate::support::{Acting, Held, attempts, count, job, keeper, status, until, worker};

#[tokio::test(flavor = "multi_thread")]
async fn a_success_keeps_its_result_and_its_artifact() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    let (held, mut desk) = Held::new();
    let worker = worker(&queue).handler(held).start().await.unwrap();
    let id = queue.enqueue(&NewJob::new("held")).await.unwrap().id;
    let run = desk.next().await;
    let running = job(&client, id).await;
    assert_eq!(running["status"], "running");
    assert_eq!(running["claimed_by_worker"], worker.id());
    assert!(running["lease_expires_at"].is_string() && running["started_at"].is_string());
    assert!(running["finished_at"].is_null());

    run.end(Ok(Done::new().result(&json!({"rows": 3})).artifact(&json!({"file": "a.wav"}))));
    let row = until(&client, id, "succeeded").await;
    assert_eq!(row["result"], json!({"rows": 3}));
    assert_eq!(row["artifact"], json!({"file": "a.wav"}));
    assert_eq!(row["attempt_count"], 1);
    assert_eq!(row["last_error"], json!(null));
    assert_eq!(row["claimed_by_worker"], worker.id());
    assert!(row["finished_at"].as_str() >= row["started_at"].as_str());
    worker.stop().await.unwrap();
}

/// Invariants 3, 13 and 15.
#[tokio::test(flavor = "multi_thread")]
async fn a_job_out_of_attempts_is_a_dead_letter_with_its_last_error() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    let (held, mut desk) = Held::new();
    let worker = worker(&queue).handler(held).start().await.unwrap();
    let id = queue.enqueue(&NewJob::new("held").max_attempts(3)).await.unwrap().id;
    for attempt in 1..=3 {
        let run = desk.next().await;
        assert_eq!(run.attempt, attempt);
        run.fail(&format!("failure {attempt}"));
    }
    let row = until(&client, id, "dead_letter").await;
    assert_eq!(row["reason"], "attempts_exhausted");
    assert_eq!(row["last_error"], "failure 3");
    assert_eq!(row["attempt_count"], 3);
    assert_eq!(attempts(&client, id).await, ["failed", "failed", "failed"]);
    worker.stop().await.unwrap();
}

/// Invariant 32: a retry is due by the policy's backoff or the handler's own delay, by the database's clock.
#[tokio::test(flavor = "multi_thread")]
async fn a_retry_is_delayed_by_the_policy_or_its_handler() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    let (held, mut desk) =
        Held::with(|definition| definition.backoff(windlass::job::Backoff::default().jitter(0.0)));
    let worker = worker(&queue).handler(held).start().await.unwrap();
    let results = [
        (30.0, Failure::retry("by policy")),
        (3600.0, Failure::retry_after(Duration::from_secs(3600), "in an hour")),
    ];
    for (seconds, answer) in results {
        let id = queue.enqueue(&NewJob::new("held")).await.unwrap().id;
        desk.next().await.end(Err(answer));
        until(&client, id, "scheduled").await;
        let wait = "select extract(epoch from scheduled_for - last_started_at)::float8 from windlass.jobs where id = $1";
        let wait: f64 = client.query_one(wait, &[&id]).await.unwrap().get(0);
        assert!((seconds..seconds + 20.0).contains(&wait), "waits {wait} s");
    }
    assert!(desk.is_empty());
    worker.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_permanent_failure_is_not_retried() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    let worker = worker(&queue).handler(Acting).start().await.unwrap();
    let id = queue.enqueue(&NewJob::new("acting").payload(&json!({"act": "permanent"}))).await.unwrap().id;
    let row = until(&client, id, "failed").await;
    assert_eq!((&row["reason"], &row["last_error"]), (&json!("permanent"), &json!("as requested")));
    assert_eq!(attempts(&client, id).await, ["failed"]);
    worker.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_timeout_is_retried_until_out_of_attempts() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    let (held, mut desk) =
        Held::with(|definition| definition.timeout(Duration::from_secs(1), OnTimeout::Retry));
    let worker = worker(&queue).handler(held).start().await.unwrap();
    let id = queue.enqueue(&NewJob::new("held").max_attempts(2)).await.unwrap().id;
    let (_first, _second) = (desk.next().await, desk.next().await);
    let row = until(&client, id, "dead_letter").await;
    assert_eq!(row["reason"], "attempts_exhausted");
    assert_eq!(attempts(&client, id).await, ["timeout", "timeout"]);
    worker.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_timeout_fails_at_once_if_the_definition_says_so() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    let (held, mut desk) =
        Held::with(|definition| definition.timeout(Duration::from_secs(1), OnTimeout::Fail));
    let worker = worker(&queue).handler(held).start().await.unwrap();
    let id = queue.enqueue(&NewJob::new("held")).await.unwrap().id;
    let _run = desk.next().await;
    assert_eq!(until(&client, id, "failed").await["reason"], "timeout");
    assert_eq!(attempts(&client, id).await, ["timeout"]);
    worker.stop().await.unwrap();
}

/// Invariant 50.
#[tokio::test(flavor = "multi_thread")]
async fn a_panic_is_a_failure_like_any_other() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    let (held, mut desk) = Held::new();
    let worker = worker(&queue).handler(held).start().await.unwrap();
    let id = queue.enqueue(&NewJob::new("held")).await.unwrap().id;
    desk.next().await.panic();
    let again = desk.next().await;
    assert_eq!(again.attempt, 2);
    assert_eq!(job(&client, id).await["last_error"], "the handler panicked: as the test requested");
    again.succeed();
    until(&client, id, "succeeded").await;
    worker.stop().await.unwrap();
}

/// Invariant 13: a snooze does not count as an attempt, and has its own limit.
#[tokio::test(flavor = "multi_thread")]
async fn a_snooze_is_not_a_failure_and_is_limited() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    let (held, mut desk) = Held::with(|definition| definition.max_snoozes(2));
    let worker = worker(&queue).handler(held).start().await.unwrap();
    let id = queue.enqueue(&NewJob::new("held").max_attempts(1)).await.unwrap().id;
    for _ in 0..3 {
        desk.next().await.end(Ok(Done::snooze(Duration::ZERO)));
    }
    let row = until(&client, id, "failed").await;
    assert_eq!(row["reason"], "snooze_budget");
    assert_eq!(attempts(&client, id).await, ["snoozed", "snoozed", "snoozed"]);
    worker.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snooze_past_the_deadline_fails_the_job() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    let (held, mut desk) = Held::new();
    let worker = worker(&queue).handler(held).start().await.unwrap();
    let deadline = Timestamp::now() + Duration::from_secs(60);
    let id = queue.enqueue(&NewJob::new("held").deadline(deadline)).await.unwrap().id;
    desk.next().await.end(Ok(Done::snooze(Duration::from_secs(120))));
    assert_eq!(until(&client, id, "failed").await["reason"], "deadline_passed");
    worker.stop().await.unwrap();
}

/// No attempt starts past its deadline, even if the keeper has not run yet.
#[tokio::test(flavor = "multi_thread")]
async fn a_job_past_its_deadline_never_reaches_its_handler() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    queue.define(&Definition::new("held")).await.unwrap();
    let late = NewJob::new("held").deadline(Timestamp::now() - Duration::from_secs(1));
    let id = queue.enqueue(&late).await.unwrap().id;
    let (held, desk) = Held::new();
    let worker = worker(&queue).handler(held).without_keeper().start().await.unwrap();
    assert_eq!(until(&client, id, "failed").await["reason"], "expired");
    assert!(desk.is_empty(), "its handler ran");
    worker.stop().await.unwrap();
}

/// Invariant 13: a job released at shutdown is not counted as a failure.
#[tokio::test(flavor = "multi_thread")]
async fn a_shutdown_releases_running_jobs() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    let (held, mut desk) = Held::new();
    let first = worker(&queue).handler(held).grace(Duration::ZERO).start().await.unwrap();
    let id = queue.enqueue(&NewJob::new("held").max_attempts(1)).await.unwrap().id;
    let run = desk.next().await;
    first.stop().await.unwrap();
    assert!(run.stop.is_cancelled());
    let row = job(&client, id).await;
    assert_eq!((&row["status"], &row["attempt_count"]), (&json!("queued"), &json!(1)));
    assert_eq!(attempts(&client, id).await, ["released"]);

    let (held, mut desk) = Held::new();
    let second = worker(&queue).handler(held).start().await.unwrap();
    let run = desk.next().await;
    assert_eq!(run.attempt, 2);
    run.succeed();
    until(&client, id, "succeeded").await;
    second.stop().await.unwrap();
}

/// A claim that was in progress when the worker was stopped is completed too: nothing is left to the reaper.
#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_worker_leaves_nothing_running() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    queue.define(&Definition::new("acting")).await.unwrap();
    for _ in 0..15 {
        let jobs: Vec<_> = (0..100).map(|_| NewJob::new("acting")).collect();
        queue.enqueue_many(&jobs).await.unwrap();
        let worker = worker(&queue).handler(Acting).concurrency(4).without_keeper().start().await.unwrap();
        eventually("some ran", async || count(&client, "select count(*) from windlass.history").await > 0)
            .await;
        worker.stop().await.unwrap();
        assert_eq!(count(&client, "select count(*) from windlass.jobs where status = 'running'").await, 0);
        client.batch_execute("delete from windlass.history").await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_aborted_workers_jobs_are_recovered_by_the_reaper() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    let (held, mut desk) = Held::new();
    let dying = worker(&queue).handler(held).lease(Duration::from_secs(1)).without_keeper();
    let dying = dying.start().await.unwrap();
    let id = queue.enqueue(&NewJob::new("held").max_attempts(2)).await.unwrap().id;
    let _run = desk.next().await;
    dying.abort();
    assert_eq!(status(&client, id).await, "running");
    let keeper = keeper(&queue);
    eventually("the job is recovered", async || {
        keeper.run_once(Duty::Reap).await.unwrap();
        status(&client, id).await == "scheduled"
    })
    .await;
    assert_eq!(attempts(&client, id).await, ["lost"]);
    assert_eq!(queue.cancel(DEFAULT_TENANT, id).await.unwrap(), windlass::job::Canceled::Now);
}

/// Invariant 13: a handler that fails because it was stopped did not fail.
#[tokio::test(flavor = "multi_thread")]
async fn an_error_because_of_a_shutdown_is_not_counted_as_a_failure() {
    struct Obeying(Arc<Notify>);
    windlass_testing::payload!(ObeyingArgs(Value) = "obeying");

    impl Handler for Obeying {
        type Args = ObeyingArgs;
        async fn run(&self, job: &Context, _: ObeyingArgs) -> Result<Done, Failure> {
            self.0.notify_one();
            job.stopped().await;
            Err(Failure::permanent("interrupted"))
        }
    }
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    let began = Arc::new(Notify::new());
    let worker = worker(&queue).handler(Obeying(began.clone())).grace(Duration::ZERO).start().await.unwrap();
    let id = queue.enqueue(&NewJob::new("obeying").max_attempts(1)).await.unwrap().id;
    began.notified().await;
    worker.stop().await.unwrap();
    assert_eq!(status(&client, id).await, "queued");
    assert_eq!(attempts(&client, id).await, ["released"]);
}
