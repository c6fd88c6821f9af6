//! Two or three sessions whose statements come between each other, each found by a review of races.

use serde_json::{Value, json};
use windlass::DEFAULT_TENANT;
use windlass::admin::Reach;
use windlass_testing::{eventually, until_waits_or_ends, waiting_for_locks};

use crate::support::{count, register, start, status};

/// the heartbeat has read who holds the job, and the job is handed over before it renews the lease.
#[tokio::test(flavor = "multi_thread")]
async fn a_heartbeat_during_a_hand_over_renews_the_new_holder() {
    let (queue, hand) = start().await;
    hand.enqueue("'held'").await;
    let fence = hand.claim_one().await;
    let pull = register(&hand.client).await;
    let (giving, locking) = (queue.client().await, queue.client().await);
    giving.batch_execute("begin").await.unwrap();
    let hand_over = "select windlass.hand_over($1, $2, $3, $4, $5, 60, 60)";
    giving
        .execute(hand_over, &[&DEFAULT_TENANT, &fence.job, &fence.attempt, &fence.token, &pull])
        .await
        .unwrap();
    // Keeps the heartbeat between its first and its second statement.
    let lock = tokio::spawn(async move {
        locking
            .batch_execute("begin; lock table windlass.pull_lease in access exclusive mode")
            .await
            .unwrap();
        locking
    });
    until_waits_or_ends(&hand.client, &lock).await;
    let (beating, job, attempt, token) = (queue.client().await, fence.job, fence.attempt, fence.token);
    let beat = tokio::spawn(async move {
        let beat = "select lease_expires_at is not null from windlass.pull_heartbeat($1, $2, $3, $4, 3000, null, null, null, 60)";
        beating.query_one(beat, &[&DEFAULT_TENANT, &job, &attempt, &token]).await.unwrap();
    });
    eventually("both wait", async || waiting_for_locks(&hand.client).await == 2).await;
    giving.batch_execute("commit").await.unwrap();
    lock.await.unwrap().batch_execute("commit").await.unwrap();
    beat.await.unwrap();
    let of_lease = format!(
        "select count(*) from windlass.pull_lease r join windlass.job_workers w on w.id = r.worker
          where r.worker = {pull} and r.expires_at > now() + interval '2900 s' and w.lease_expires_at >= r.expires_at"
    );
    assert_eq!(count(&hand.client, &of_lease).await, 1, "the new holder is present for as long as its lease");
    let old = format!(
        "select count(*) from windlass.job_workers where id = {} and lease_expires_at > now() + lease_seconds * interval '1 s'",
        hand.worker
    );
    assert_eq!(count(&hand.client, &old).await, 0, "the old one has no longer lease than its own");
}

/// retention locks the history of its jobs before it deletes them, and so does a person who deletes like it.
#[tokio::test(flavor = "multi_thread")]
async fn a_deletion_that_keeps_promises_does_not_deadlock_with_another() {
    let (queue, hand) = start().await;
    let (first, second) = (hand.enqueue("'held'").await, hand.enqueue("'held'").await);
    for fence in hand.claim_all().await {
        assert!(hand.settle(&fence, None).await);
    }
    let open = queue.client().await;
    open.batch_execute("begin").await.unwrap();
    open.execute("select windlass.retry($1, $2, 'x')", &[&DEFAULT_TENANT, &first]).await.unwrap();
    let keeping = queue.client().await;
    let keep = tokio::spawn(async move {
        let purge = "select windlass.purge($1, array[$2::uuid, $3::uuid], true)";
        keeping.query_one(purge, &[&DEFAULT_TENANT, &first, &second]).await.map(|row| row.get::<_, i32>(0))
    });
    until_waits_or_ends(&hand.client, &keep).await;
    let other = queue.client().await;
    let purge = tokio::spawn(async move {
        let purge = "select windlass.purge($1, array[$2::uuid])";
        other.query_one(purge, &[&DEFAULT_TENANT, &second]).await.map(|row| row.get::<_, i32>(0))
    });
    until_waits_or_ends(&hand.client, &purge).await;
    open.batch_execute("rollback").await.unwrap();
    let deleted = keep.await.unwrap().unwrap() + purge.await.unwrap().unwrap();
    assert_eq!(deleted, 1, "the one that was not locked, by one of them");
    assert_eq!(status(&hand.client, first).await, "succeeded");
}

/// the state before is that under the locks of the change.
#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_that_waited_for_a_claim_records_a_running_job() {
    let (queue, hand) = start().await;
    let id = hand.enqueue("'held'").await;
    hand.client.batch_execute("begin").await.unwrap();
    hand.claim_one().await;
    let canceling = queue.client().await;
    let cancel = tokio::spawn(async move {
        let cancel = "select windlass.cancel($1, $2)";
        canceling.query_one(cancel, &[&DEFAULT_TENANT, &id]).await.unwrap().get::<_, String>(0)
    });
    let watching = queue.client().await;
    until_waits_or_ends(&watching, &cancel).await;
    hand.client.batch_execute("commit").await.unwrap();
    assert_eq!(cancel.await.unwrap(), "requested");
    let before = "select before ->> 'status' from windlass.audit where action = 'job.cancel'";
    assert_eq!(watching.query_one(before, &[]).await.unwrap().get::<_, String>(0), "running");
}

/// A's dependencies are before B's in the order of transactions.
#[tokio::test(flavor = "multi_thread")]
async fn many_dependencies_of_one_tenant_do_not_delay_those_of_another() {
    let (queue, hand) = start().await;
    let (loud, quiet) = (queue.tenant("loud").await, queue.tenant("quiet").await);
    let flood = "with needs as (select array_agg(e.id) as ids from generate_series(1, 50),
            lateral windlass.enqueue('held', delay => '1 h', tenant_id => $1) e)
        select windlass.enqueue('held', depends_on => n.ids, tenant_id => $1) from needs n, generate_series(1, 100)";
    hand.client.execute(flood, &[&loud]).await.unwrap();
    let need = hand.enqueue(&format!("'held', tenant_id => '{quiet}'")).await;
    let fence = hand.claim_one().await;
    let waiting = queue.client().await;
    waiting.batch_execute("begin").await.unwrap();
    let enqueue = format!(
        "select windlass.enqueue('held', depends_on => array['{need}'::uuid], tenant_id => '{quiet}')"
    );
    waiting.batch_execute(&enqueue).await.unwrap();
    assert!(hand.settle(&fence, None).await);
    waiting.batch_execute("commit").await.unwrap();
    let blocked = format!("select count(*) from windlass.blocked where tenant_id = '{quiet}'");
    assert_eq!(count(&hand.client, &blocked).await, 1, "the settlement did not see it");
    hand.client.batch_execute("select windlass.unblock_all(500)").await.unwrap();
    assert_eq!(count(&hand.client, &blocked).await, 0, "in the first round");
}

/// how many jobs of others a rule has deleted.
#[tokio::test]
async fn a_tenant_does_not_learn_how_many_jobs_of_others_a_rule_deleted() {
    let (queue, hand) = start().await;
    hand.define(json!({"key": "held", "retention": {"succeeded": 5}})).await;
    let own = queue.tenant("own").await;
    hand.client
        .batch_execute("update windlass.keeper_mark set moved = 37; select windlass.prune(10)")
        .await
        .unwrap_or_default();
    let reading = queue.read(Reach::Tenant(own)).await.unwrap();
    let shown = reading.retention_progress().await.unwrap();
    reading.end().await.unwrap();
    let rule = shown.iter().find(|rule| rule.definition_key == "held").unwrap();
    assert_eq!((rule.tenant_id, rule.purged), (None, None));
    let all: Value = json!(queue.retention_progress().await.unwrap()[0].purged);
    assert!(all.is_number());
}

/// a queue, the tenant or the worker is stopped while a SQL worker waits for its own row.
#[tokio::test(flavor = "multi_thread")]
async fn a_take_that_waited_sees_what_was_stopped_meanwhile() {
    let (queue, hand) = start().await;
    hand.enqueue("'held'").await;
    let take = "select count(*) from windlass.take(array['held'], worker_id => 'w')";
    let row = format!("w@{DEFAULT_TENANT}");
    for (stop, resume) in [
        (
            "select windlass.set_paused('default', true)".to_owned(),
            "select windlass.set_paused('default', false)".to_owned(),
        ),
        (
            format!("select windlass.set_draining('{row}', true)"),
            format!("select windlass.set_draining('{row}', false)"),
        ),
        (
            "update windlass.tenants set status = 'suspended'".to_owned(),
            "update windlass.tenants set status = 'active'".to_owned(),
        ),
    ] {
        hand.client.batch_execute("begin").await.unwrap();
        hand.client.batch_execute(take).await.unwrap(); // has registered the worker
        hand.client.batch_execute("rollback").await.unwrap();
        let register = "select windlass.pull_register($1, '', '', '{}', '{held}', 60, '{}')";
        hand.client.execute(register, &[&row]).await.unwrap();
        let holding = queue.client().await;
        let hold =
            format!("begin; select from windlass.job_workers where worker_id = '{row}' for no key update");
        holding.batch_execute(&hold).await.unwrap();
        let taking = queue.client().await;
        let taken = tokio::spawn(async move { count(&taking, take).await });
        until_waits_or_ends(&hand.client, &taken).await;
        hand.client.batch_execute(&stop).await.unwrap();
        holding.batch_execute("commit").await.unwrap();
        assert_eq!(taken.await.unwrap(), 0, "{stop}");
        hand.client.batch_execute(&resume).await.unwrap();
    }
    assert_eq!(count(&hand.client, take).await, 1);
}
