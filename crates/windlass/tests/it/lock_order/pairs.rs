//! Two calls, the first of which is stopped between two of its locks: by a third transaction, or because the test takes
//! the first lock itself.

use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Error, Row};
use uuid::Uuid;
use windlass::job::Fence;
use windlass::{DEFAULT_TENANT, Definition};
use windlass_testing::{TestQueue, eventually, until_a_session_waits, waiting_for_locks};

use crate::support::Hand;

async fn start() -> (TestQueue, Hand) {
    let queue = TestQueue::create().await;
    queue.define(&Definition::new("a")).await.unwrap();
    let hand = Hand::new(queue.client().await).await;
    (queue, hand)
}

/// Calls a function on a connection of its own.
async fn beside(queue: &TestQueue, call: String) -> JoinHandle<Result<Row, Error>> {
    let client = queue.client().await;
    tokio::spawn(async move { client.query_one(&call, &[]).await })
}

async fn begin(queue: &TestQueue, first: &str) -> Client {
    let client = queue.client().await;
    client.batch_execute(&format!("begin; {first}")).await.unwrap();
    client
}

fn pull_settle(fence: &Fence, detail: &Value) -> String {
    let Fence { tenant, job, attempt, token } = fence;
    format!("select windlass.pull_settle('{tenant}', '{job}', {attempt}, '{token}', '{detail}')")
}

fn hand_over(fence: &Fence, to: &Hand) -> String {
    let (Fence { tenant, job, attempt, token }, to) = (fence, to.worker);
    format!("select windlass.hand_over('{tenant}', '{job}', {attempt}, '{token}', {to}, 60, 60)")
}

/// Waits for locks, unlike `pull_settle`.
fn settle(fence: &Fence, detail: &Value) -> String {
    let Fence { tenant, job, attempt, token } = fence;
    format!(
        "select settled from windlass.settle(array['{tenant}'::uuid], array['{job}'::uuid], array[{attempt}], array['{token}'::uuid],
           array[null::integer], array['{detail}'::jsonb])"
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_is_handed_over_and_settled_at_once_does_not_deadlock() {
    let (queue, hand) = start().await;
    let other = Hand::new(queue.client().await).await;
    hand.enqueue("'a'").await;
    // The lease of the first attempt is left over.
    let fence = hand.claim_one().await;
    hand.client.batch_execute(&hand_over(&fence, &other)).await.unwrap();
    assert!(hand.settle(&fence, Some(json!({"outcome": 7, "next": 5}))).await);
    let fence = hand.claim_one().await;

    let settling = begin(&queue, "select from windlass.pull_lease for update").await;
    let handing = beside(&queue, hand_over(&fence, &other)).await;
    until_a_session_waits(&hand.client).await;
    let settled =
        settling.query_one(&pull_settle(&fence, &json!({"outcome": 1, "next": 1})), &[]).await.unwrap();
    settling.batch_execute("commit").await.unwrap();
    assert_eq!(settled.get::<_, &str>(0), "settled");
    // It waits for 200 ms, which may be over before the commit.
    match handing.await.unwrap() {
        Ok(handed) => assert!(!handed.get::<_, bool>(0)),
        Err(error) => assert_eq!(error.code(), Some(&SqlState::LOCK_NOT_AVAILABLE)),
    }
}

/// each such call held a connection of the worker.
#[tokio::test(flavor = "multi_thread")]
async fn handing_a_job_over_does_not_wait_for_an_open_cancel() {
    let (queue, hand) = start().await;
    let other = Hand::new(queue.client().await).await;
    hand.enqueue("'a'").await;
    let fence = hand.claim_one().await;
    let application =
        begin(&queue, &format!("select windlass.cancel('{DEFAULT_TENANT}', '{}')", fence.job)).await;
    let error = hand.client.query_one(&hand_over(&fence, &other), &[]).await.unwrap_err();
    assert_eq!(error.code(), Some(&SqlState::LOCK_NOT_AVAILABLE));
    application.batch_execute("rollback").await.unwrap();
    let handed = hand.client.query_one(&hand_over(&fence, &other), &[]).await.unwrap();
    assert!(handed.get::<_, bool>(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_is_purged_and_settled_with_progress_at_once_does_not_deadlock() {
    let (queue, hand) = start().await;
    hand.enqueue("'a'").await;
    let fence = hand.claim_one().await;
    let Fence { tenant, job, attempt, token } = &fence;
    let report = format!(
        "select windlass.report_progress(array['{tenant}'::uuid], array['{job}'::uuid], array[{attempt}], array['{token}'::uuid],
           array[10::real], array['started'])"
    );
    hand.client.batch_execute(&report).await.unwrap();

    let waiting =
        begin(&queue, &format!("select windlass.enqueue('a', depends_on => array['{job}'::uuid])")).await;
    let purging = beside(&queue, format!("select windlass.purge('{tenant}', array['{job}'::uuid])")).await;
    until_a_session_waits(&hand.client).await;
    let detail = json!({"outcome": 1, "next": 1, "progress": {"percent": 100, "message": "done"}});
    let settling = beside(&queue, settle(&fence, &detail)).await;
    eventually("both wait", async || waiting_for_locks(&hand.client).await == 2).await;
    waiting.batch_execute("commit").await.unwrap();
    let (purged, settled) = (purging.await.unwrap().unwrap(), settling.await.unwrap().unwrap());
    assert_eq!((purged.get::<_, i32>(0), settled.get::<_, Option<Vec<i32>>>(0)), (1, None));
}

///
#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_ends_with_a_next_job_does_not_deadlock_with_an_enqueue_under_its_key_and_a_quota() {
    let (queue, hand) = start().await;
    let quota = format!("select windlass.change_tenant('{DEFAULT_TENANT}', '{{\"max_queued\": 1000}}')");
    hand.client.batch_execute(&quota).await.unwrap();
    hand.enqueue("'a', dedupe_key => 'k'").await;
    let fence = hand.claim_one().await;

    let first = format!("select from windlass.tenants where id = '{DEFAULT_TENANT}' for no key update");
    let enqueuing = begin(&queue, &first).await;
    let detail = json!({"outcome": 1, "next": 1, "chain": [{"definition_key": "a"}]});
    let settling = beside(&queue, settle(&fence, &detail)).await;
    until_a_session_waits(&hand.client).await;
    let again = "select is_duplicate from windlass.enqueue('a', dedupe_key => 'k')";
    let is_duplicate: bool = enqueuing.query_one(again, &[]).await.unwrap().get(0);
    enqueuing.batch_execute("commit").await.unwrap();
    let settled = settling.await.unwrap().unwrap();
    assert_eq!((is_duplicate, settled.get::<_, Option<Vec<i32>>>(0)), (true, Some(vec![1])));
}

fn trigger_fields() -> Value {
    json!({"label": "x", "is_enabled": true, "trigger_type": "schedule", "cron_expr": "0 0 1 1 *", "timezone": "UTC", "conditions": {},
        "definition_key": "a", "payload_template": {}, "dedupe_window_seconds": 0, "misfire": "skip", "misfire_max": 1,
        "misfire_window_seconds": 60, "misfire_grace_seconds": 60, "overlap": "allow", "jitter_seconds": 0})
}

fn create_trigger() -> String {
    format!(
        "select windlass.create_trigger('{DEFAULT_TENANT}', '{}', now() + interval '100 days')",
        trigger_fields()
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_use_of_a_lane_with_a_fixed_snapshot_does_not_deadlock_with_a_new_trigger() {
    let (queue, hand) = start().await;
    let enqueuing = queue.client().await;
    let first = format!(
        "begin isolation level repeatable read; select windlass.route_of('{DEFAULT_TENANT}', 'a', null, null)"
    );
    enqueuing.batch_execute(&first).await.unwrap();
    let creating = beside(&queue, create_trigger()).await;
    until_a_session_waits(&hand.client).await;
    enqueuing.batch_execute("select windlass.enqueue('a'); commit").await.unwrap();
    creating.await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retired_lane_that_is_used_again_does_not_deadlock_with_a_new_one_under_a_quota() {
    let (queue, hand) = start().await;
    let limits = format!(
        "select windlass.change_tenant('{DEFAULT_TENANT}', '{{\"max_queued\": 1000, \"max_lanes\": 5}}')"
    );
    hand.client.batch_execute(&limits).await.unwrap();
    hand.enqueue("'a', queue => 'old'").await;
    let retire = "update windlass.lane set retired_at = now() where queue = 'old' returning id";
    let lane: i32 = hand.client.query_one(retire, &[]).await.unwrap().get(0);

    let first = format!("select from windlass.tenants where id = '{DEFAULT_TENANT}' for no key update");
    let enqueuing = begin(&queue, &first).await;
    let application = queue.client().await;
    let role = format!("set role windlass_app; set windlass.tenant_id = '{DEFAULT_TENANT}'");
    application.batch_execute(&role).await.unwrap();
    let again = format!(
        "select windlass.enqueue_alike('{DEFAULT_TENANT}', {lane}, 3::smallint, array['{}'::uuid], array['{{}}'::json])",
        Uuid::now_v7()
    );
    let using = tokio::spawn(async move { application.batch_execute(&again).await });
    until_a_session_waits(&hand.client).await;
    enqueuing.batch_execute("select windlass.enqueue('a', queue => 'new'); commit").await.unwrap();
    using.await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trigger_that_is_edited_and_run_at_once_does_not_deadlock() {
    let (queue, hand) = start().await;
    let trigger: Uuid = hand.client.query_one(&create_trigger(), &[]).await.unwrap().get(0);
    // The next job of the definition needs another lane.
    hand.define(json!({"key": "a", "queue": "other"})).await;

    let running =
        begin(&queue, &format!("select from windlass.job_triggers where id = '{trigger}' for update")).await;
    let fields = trigger_fields();
    let edit = format!(
        "select windlass.update_trigger('{DEFAULT_TENANT}', '{trigger}', 1, '{fields}', false, null, null, 'edited')"
    );
    let editing = beside(&queue, edit).await;
    until_a_session_waits(&hand.client).await;
    let run = format!(
        "select windlass.run_trigger('{DEFAULT_TENANT}', '{trigger}', 1, null, array[windlass.uuid7()], 'a', array['{{}}'::jsonb]); commit"
    );
    running.batch_execute(&run).await.unwrap();
    assert_eq!(editing.await.unwrap().unwrap().get::<_, i32>(0), 2);
}
