//! A partition that cannot be replaced: its jobs are deleted one by one, other partitions are replaced, and the reason is shown.

use tokio_postgres::Client;
use uuid::Uuid;
use windlass::keeper::Duty;
use windlass::setup::examine;
use windlass::{DEFAULT_TENANT, Definition};
use windlass_testing::{TestQueue, settings};

use super::{age, aged, assert_is_over, end_old, id_of, make_partitions, step, until_step};
use crate::retention::{prune, statuses};
use crate::support::{Hand, count, ending, keeper, status};

async fn warnings(queue: &TestQueue) -> String {
    let all = examine(&settings(queue.url())).await.unwrap();
    all.into_iter().filter(|one| one.check == "skipped rows").map(|one| one.found).collect()
}

/// Somebody's transaction has read jobs, and stays open for days.
async fn reader(queue: &TestQueue) -> Client {
    let reader = queue.client().await;
    reader.batch_execute("begin; select count(*) from windlass.job").await.unwrap();
    reader
}

#[tokio::test(flavor = "multi_thread")]
async fn while_a_replacement_cannot_continue_its_jobs_are_deleted_one_by_one() {
    let (queue, hand) = aged().await;
    let client = &hand.client;
    let goes = [end_old(&hand, "", None).await, end_old(&hand, "", None).await];
    let stays = end_old(&hand, "", Some(ending::failed())).await;
    until_step(client, "caught up").await;
    let reader = reader(&queue).await;
    client.execute("update windlass.retiring set waits_for = '{}'", &[]).await.unwrap();
    assert_eq!(step(client).await, "busy");
    prune(&queue).await;
    assert_eq!(statuses(&hand, &goes).await, ["succeeded", "succeeded"], "it may be over in a moment");

    let later = "update windlass.retiring set began_at = began_at - interval '11 minutes'";
    client.execute(later, &[]).await.unwrap();
    assert_eq!(step(client).await, "busy");
    prune(&queue).await;
    assert_eq!(statuses(&hand, &goes).await, ["missing", "missing"]);
    assert_eq!(status(client, stays).await, "failed");
    let purged = queue.retention_progress().await.unwrap();
    assert_eq!(purged.iter().find(|rule| rule.status == "succeeded").unwrap().purged, Some(2));
    let shown = warnings(&queue).await;
    assert!(
        shown.contains("waits for transactions that use its tables; meanwhile jobs are deleted one by one"),
        "{shown}"
    );

    // It ends when the transaction does, and has deleted nothing twice.
    reader.batch_execute("commit").await.unwrap();
    until_step(client, "dropped").await;
    assert_eq!(statuses(&hand, &[goes[0], goes[1], stays]).await, ["missing", "missing", "failed"]);
    assert_is_over(client).await;
    assert_eq!(count(client, "select sum(purged)::bigint from windlass.job_counts").await, 2);
    assert!(!warnings(&queue).await.contains("one by one"));
}

/// A job of the partition of that many days ago, ended then.
async fn end_days_ago(hand: &Hand, days: i64) -> Uuid {
    let id = hand.enqueue(&format!("'held', job_id => '{}'", id_of(days))).await;
    let fence = hand.claim_one().await;
    assert!(hand.settle(&fence, None).await);
    age(&hand.client, id).await;
    id
}

#[tokio::test(flavor = "multi_thread")]
async fn a_partition_that_is_in_use_does_not_keep_others_from_being_replaced() {
    let (queue, hand) = aged().await;
    let client = &hand.client;
    make_partitions(client, 15).await;
    let used = [end_days_ago(&hand, 20).await, end_days_ago(&hand, 20).await];
    let other = end_days_ago(&hand, 15).await;
    let writer = queue.client().await;
    let retry = format!("begin; select windlass.retry('{DEFAULT_TENANT}', '{}', 'tester')", used[0]);
    writer.batch_execute(&retry).await.unwrap();
    assert_eq!(step(client).await, "busy");
    until_step(client, "begun").await;
    prune(&queue).await;
    assert_eq!(
        statuses(&hand, &[other, used[0], used[1]]).await,
        ["succeeded", "succeeded", "missing"],
        "one by one"
    );
    assert!(warnings(&queue).await.contains("because a transaction uses it"));
    // No exchange takes place while a transaction is open that is older than the copy.
    writer.batch_execute("commit").await.unwrap();
    until_step(client, "dropped").await;
    assert_eq!(statuses(&hand, &[other, used[0]]).await, ["missing", "queued"]);
    assert_is_over(client).await;
}

/// Each replacement would read it.
#[tokio::test(flavor = "multi_thread")]
async fn with_a_huge_default_partition_jobs_are_deleted_one_by_one() {
    let (queue, hand) = aged().await;
    let huge = "set role windlass_owner;
        create or replace function windlass.large_default() returns bigint language sql immutable parallel safe return -1;
        reset role";
    hand.client.batch_execute(huge).await.unwrap();
    let id = end_old(&hand, "", None).await;
    assert_eq!(step(&hand.client).await, "none");
    prune(&queue).await;
    assert_eq!(status(&hand.client, id).await, "missing");
    let shown = warnings(&queue).await;
    assert!(shown.contains("callers chose many job ids that are not of version 7"), "{shown}");
}

/// It took more than an hour; another partition may be easier, and this one is tried again later.
#[tokio::test(flavor = "multi_thread")]
async fn a_replacement_that_does_not_end_is_canceled() {
    let (queue, hand) = aged().await;
    let id = end_old(&hand, "", None).await;
    until_step(&hand.client, "copied").await;
    let later = "update windlass.retiring set began_at = began_at - interval '2 hours'";
    hand.client.execute(later, &[]).await.unwrap();
    assert_eq!(step(&hand.client).await, "canceled");
    assert_eq!(step(&hand.client).await, "undone");
    assert_eq!(step(&hand.client).await, "none");
    assert_eq!(count(&hand.client, "select tries::bigint from windlass.partition_look").await, 1);
    assert_is_over(&hand.client).await;
    prune(&queue).await;
    assert_eq!(status(&hand.client, id).await, "missing");
}

/// Of a partition that is not replaced: jobs that rules had passed over while it was expected to be.
#[tokio::test(flavor = "multi_thread")]
async fn due_jobs_of_a_partition_with_too_few_of_them_are_deleted_one_by_one() {
    let (queue, hand) = aged().await;
    let client = &hand.client;
    let many = "set role windlass_owner;
        create or replace function windlass.enough_due(jobs bigint) returns bigint language sql immutable parallel safe return 10;
        reset role";
    client.batch_execute(many).await.unwrap();
    queue.define(&Definition::new("remove")).await.unwrap();
    let goes = end_old(&hand, "", None).await;
    let stays = end_old(&hand, "", Some(ending::failed())).await;
    prune(&queue).await;
    assert_eq!(status(client, goes).await, "succeeded", "its partition was not looked at yet");
    assert_eq!(step(client).await, "none");
    keeper(&queue).run_once(Duty::Prune).await.unwrap();
    assert_eq!(statuses(&hand, &[goes, stays]).await, ["missing", "failed"]);
    assert_eq!(
        count(client, "select count(*) from windlass.partition_look where is_pruned and pruned_to is null")
            .await,
        1
    );
    let purged = queue.retention_progress().await.unwrap();
    assert_eq!(purged.iter().find(|rule| rule.status == "succeeded").unwrap().purged, Some(1));
}

/// Its caller may keep the transaction open, and the gate of all replacements would stay locked.
#[tokio::test(flavor = "multi_thread")]
async fn an_open_transaction_that_continues_the_deletion_of_a_tenant_stops_no_replacement() {
    let (queue, hand) = aged().await;
    let acme = queue.tenant("acme").await;
    end_old(&hand, &format!(", tenant_id => '{acme}'"), None).await;
    let other = end_old(&hand, "", None).await;
    until_step(&hand.client, "copied").await;
    let purge = format!("select done from windlass.purge_tenant('{acme}', 100)");
    hand.client.query_one(&purge, &[]).await.unwrap();
    let leaving = queue.client().await;
    leaving.batch_execute("begin").await.unwrap();
    while !leaving.query_one(&purge, &[]).await.unwrap().get::<_, bool>(0) {}
    assert_ne!(step(&hand.client).await, "none");
    leaving.batch_execute("commit").await.unwrap();
    until_step(&hand.client, "dropped").await;
    assert_eq!(status(&hand.client, other).await, "missing");
}
