//! Jobs that an external process claims, renews and ends.

mod cut;
mod lease;
mod many;
mod neighbour;
mod redaction;
mod scope;

use std::time::Duration;

use serde_json::{Value, json};
use uuid::Uuid;
use windlass::job::State;
use windlass::pull::{Claim, Heartbeat, Held, Pull, PulledJob, Puller};
use windlass::{DEFAULT_TENANT, Definition, Done, Failure, NewJob};
use windlass_testing::{TestQueue, eventually};

use crate::support::{assert_counts_are_exact, attempts, count, everything, job, soon, status};

pub(super) fn anyone() -> Puller {
    Puller::new("anyone")
}

pub(super) fn claim(keys: &[&str]) -> Claim {
    Claim::new(keys.iter().copied())
        .worker_id(Some("tester".to_owned()))
        .limit(10)
        .wait(Duration::from_secs(30))
        .lease(Duration::from_secs(60))
}

pub(super) async fn start() -> (TestQueue, Pull) {
    let queue = TestQueue::create().await;
    queue.define(&Definition::new("pulled").backoff(soon())).await.unwrap();
    let pull = Pull::start(queue.queue()).await.unwrap();
    (queue, pull)
}

pub(super) async fn take_one(pull: &Pull) -> PulledJob {
    let mut jobs = pull.claim(&anyone(), claim(&["pulled"])).await.unwrap().deliver();
    assert_eq!(jobs.len(), 1);
    jobs.remove(0)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pull_worker_claims_a_job_and_completes_it_with_next_jobs() {
    let (queue, pull) = start().await;
    let client = queue.client().await;
    let new = NewJob::new("pulled").payload(&json!({"n": 1})).subject("call", "7").tag("a").max_attempts(4);
    let id = queue.enqueue(&new).await.unwrap().id;
    let taken = take_one(&pull).await;
    assert_eq!((taken.id, taken.tenant_id, taken.attempt, taken.max_attempts), (id, DEFAULT_TENANT, 1, 4));
    assert_eq!((taken.definition_key.as_str(), taken.queue.as_str()), ("pulled", "default"));
    assert_eq!(serde_json::from_str::<Value>(taken.payload.get()).unwrap(), json!({"n": 1}));
    assert_eq!((taken.subject_id.as_deref(), taken.tags.as_slice()), (Some("7"), &["a".to_owned()][..]));
    assert!(taken.deadline > taken.lease_expires_at);
    let row = job(&client, id).await;
    assert_eq!((&row["status"], &row["claimed_by_worker"]), (&json!("running"), &json!("tester@pull")));

    let beat = Heartbeat::default().percent(Some(40.0)).message(Some("two\u{0} fifths".to_owned()));
    let renewed = pull.heartbeat(&anyone(), id, &taken.fence, &beat).await.unwrap();
    let Held::Held(renewed) = renewed else { panic!("the lease is ours") };
    assert!(renewed.lease_expires_at >= taken.lease_expires_at && !renewed.cancel_requested);
    let row = job(&client, id).await;
    assert_eq!(
        (&row["progress_percent"], &row["progress_message"]),
        (&json!(40), &json!("two\u{fffd} fifths"))
    );

    let done =
        Done::new().result(&json!({"ok": true})).artifact(&json!("s3://a")).then(NewJob::new("pulled"));
    let state = pull.complete(&anyone(), id, &taken.fence, done).await.unwrap();
    assert_eq!(state, Held::Held(State::Succeeded));
    let row = job(&client, id).await;
    assert_eq!(
        (&row["status"], &row["result"], &row["artifact"]),
        (&json!("succeeded"), &json!({"ok": true}), &json!("s3://a"))
    );
    let next = take_one(&pull).await;
    assert_eq!(next.parent_id, Some(id));
    assert_eq!(count(&client, "select count(*) from windlass.pull_lease").await, 1);
    pull.release(&anyone(), next.id, &next.fence).await.unwrap();
    assert_eq!(count(&client, "select count(*) from windlass.pull_lease").await, 0);
    assert_counts_are_exact(&client).await;
    pull.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_ending_of_a_pulled_attempt_follows_the_definition() {
    let (queue, pull) = start().await;
    let client = queue.client().await;
    let id = queue.enqueue(&NewJob::new("pulled").max_attempts(3)).await.unwrap().id;
    let keeper = crate::support::keeper(&queue);
    let promote = async || {
        eventually("it is due again", async || {
            keeper.run_once(windlass::keeper::Duty::Promote).await.unwrap();
            status(&client, id).await == "queued"
        })
        .await;
    };
    let (puller, now) = (anyone(), Duration::ZERO);
    let taken = take_one(&pull).await;
    assert_eq!(pull.release(&puller, id, &taken.fence).await.unwrap(), Held::Held(State::Queued));
    let taken = take_one(&pull).await;
    assert_eq!(pull.snooze(&puller, id, &taken.fence, now).await.unwrap(), Held::Held(State::Scheduled));
    promote().await;
    let taken = take_one(&pull).await;
    let failure = Failure::retry("once");
    assert_eq!(pull.fail(&puller, id, &taken.fence, failure).await.unwrap(), Held::Held(State::Scheduled));
    promote().await;
    let taken = take_one(&pull).await;
    assert_eq!((taken.attempt, taken.failures), (4, 1));
    let failure = Failure::retry_after(now, "twice");
    assert_eq!(pull.fail(&puller, id, &taken.fence, failure).await.unwrap(), Held::Held(State::Scheduled));
    promote().await;
    let taken = take_one(&pull).await;
    let failure = Failure::retry("thrice");
    assert_eq!(pull.fail(&puller, id, &taken.fence, failure).await.unwrap(), Held::Held(State::DeadLetter));
    assert_eq!(attempts(&client, id).await, ["released", "snoozed", "failed", "failed", "failed"]);

    let id = queue.enqueue(&NewJob::new("pulled")).await.unwrap().id;
    let taken = take_one(&pull).await;
    let failure = Failure::permanent("never");
    assert_eq!(pull.fail(&puller, id, &taken.fence, failure).await.unwrap(), Held::Held(State::Failed));
    assert_eq!(job(&client, id).await["last_error"], json!("never"));
    pull.stop().await;
}

/// The time that the attempt had run was subtracted twice from the time until the deadline.
#[tokio::test(flavor = "multi_thread")]
async fn a_retry_that_starts_before_the_deadline_is_scheduled() {
    let (queue, pull) = start().await;
    let client = queue.client().await;
    let later = jiff::Timestamp::now() + jiff::SignedDuration::from_mins(90);
    let id = queue.enqueue(&NewJob::new("pulled").deadline(later)).await.unwrap().id;
    let taken = take_one(&pull).await;
    client
        .batch_execute("update windlass.live set claimed_at = claimed_at - interval '1 hour'")
        .await
        .unwrap();
    let failure = Failure::retry_after(Duration::from_secs(3600), "in an hour");
    assert_eq!(pull.fail(&anyone(), id, &taken.fence, failure).await.unwrap(), Held::Held(State::Scheduled));
    pull.stop().await;
}

/// Invariants 41 and 42: the next heartbeat returns the request, and however the attempt ends then, it was canceled.
#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_reaches_a_pull_worker_with_its_next_heartbeat() {
    let (queue, pull) = start().await;
    let client = queue.client().await;
    let id = queue.enqueue(&NewJob::new("pulled")).await.unwrap().id;
    let taken = take_one(&pull).await;
    assert_eq!(queue.cancel(DEFAULT_TENANT, id).await.unwrap(), windlass::job::Canceled::Requested);
    let Held::Held(renewed) =
        pull.heartbeat(&anyone(), id, &taken.fence, &Heartbeat::default()).await.unwrap()
    else {
        panic!("it is still held")
    };
    assert!(renewed.cancel_requested);
    assert_eq!(status(&client, id).await, "running");
    let state = pull.complete(&anyone(), id, &taken.fence, Done::new()).await.unwrap();
    assert_eq!(state, Held::Held(State::Canceled));
    assert_eq!(attempts(&client, id).await, ["canceled"]);
    pull.stop().await;
}

/// The SQL function cannot check a payload against the schema, so it is checked before a job is handed out.
#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_payload_is_never_handed_out() {
    let (queue, pull) = start().await;
    let client = queue.client().await;
    let schema = json!({"type": "object", "required": ["n"]});
    queue.define(&Definition::new("pulled").arg_schema(schema)).await.unwrap();
    let bad: Uuid =
        client.query_one("select id from windlass.enqueue('pulled', '{}')", &[]).await.unwrap().get(0);
    let good: Uuid = client
        .query_one("select id from windlass.enqueue('pulled', '{\"n\": 1}')", &[])
        .await
        .unwrap()
        .get(0);
    assert_eq!(take_one(&pull).await.id, good);
    eventually("the other is rejected", async || status(&client, bad).await == "failed").await;
    pull.stop().await;
}

/// An invalid next job is for the caller to fix: nothing is settled, and the lease stays.
#[tokio::test(flavor = "multi_thread")]
async fn a_completion_with_an_invalid_next_job_changes_nothing() {
    let (queue, pull) = start().await;
    let client = queue.client().await;
    let id = queue.enqueue(&NewJob::new("pulled")).await.unwrap().id;
    let taken = take_one(&pull).await;
    let before = everything(&client).await;
    let done = Done::new().then(NewJob::new("nowhere"));
    let refused = pull.complete(&anyone(), id, &taken.fence, done).await;
    assert!(matches!(refused, Err(windlass::Error::UnknownDefinition { .. })), "{refused:?}");
    assert_eq!(everything(&client).await, before);
    assert_eq!(
        pull.complete(&anyone(), id, &taken.fence, Done::new()).await.unwrap(),
        Held::Held(State::Succeeded)
    );
    pull.stop().await;
}
