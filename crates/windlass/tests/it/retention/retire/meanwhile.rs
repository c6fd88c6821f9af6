//! What happens to jobs of a partition between the decision and the exchange.

use uuid::Uuid;
use windlass::DEFAULT_TENANT;
use windlass::retention::HoldOn;
use windlass_testing::{TestQueue, eventually};

use super::{BETWEEN, BLOCK, age, aged, assert_is_over, end_old, enqueue_old, old_id, step, until_step};
use crate::retention::statuses;
use crate::support::{Hand, count, ending, status};

/// Whether the steps up to `after` were done, something happened, and the job has this status at the end.
async fn check_after(after: &str, happens: impl AsyncFn(&TestQueue, &Hand, Uuid), expected: &str) {
    let (queue, hand) = aged().await;
    let other = end_old(&hand, "", None).await;
    let id = end_old(&hand, "", None).await;
    until_step(&hand.client, after).await;
    happens(&queue, &hand, id).await;
    until_step(&hand.client, "dropped").await;
    assert_eq!(statuses(&hand, &[id, other]).await, [expected, "missing"], "after {after}");
    assert_is_over(&hand.client).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_is_retried_while_its_partition_is_replaced_runs_again() {
    for after in BETWEEN {
        check_after(after, async |_, hand, id| assert_eq!(hand.retry(id).await, "queued"), "queued").await;
        let run_again = async |_: &TestQueue, hand: &Hand, id: Uuid| {
            assert_eq!(hand.retry(id).await, "queued");
            let fence = hand.claim_one().await;
            assert_eq!((fence.job, fence.attempt), (id, 2));
            assert!(hand.settle(&fence, Some(ending::failed())).await);
        };
        check_after(after, run_again, "failed").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_is_deleted_while_its_partition_is_replaced_does_not_come_back() {
    for after in BETWEEN {
        let delete = async |queue: &TestQueue, _: &Hand, id: Uuid| {
            assert_eq!(queue.purge(DEFAULT_TENANT, &[id]).await.unwrap(), 1);
        };
        check_after(after, delete, "missing").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_another_starts_to_wait_for_stays() {
    for after in BETWEEN {
        let wait = async |_: &TestQueue, hand: &Hand, id: Uuid| {
            let waits = hand.enqueue("'held', delay => '1 hour'").await;
            hand.client.execute(BLOCK, &[&id, &waits]).await.unwrap();
        };
        check_after(after, wait, "succeeded").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hold_that_is_placed_meanwhile_keeps_its_jobs() {
    for after in BETWEEN {
        let hold = async |queue: &TestQueue, _: &Hand, id: Uuid| {
            queue.hold(DEFAULT_TENANT, &HoldOn::Job(id), "case 12", "counsel").await.unwrap();
        };
        check_after(after, hold, "succeeded").await;
    }
    // On a subject, and on everything.
    for what in [HoldOn::Subject { kind: "s".to_owned(), id: "7".to_owned() }, HoldOn::Tenant] {
        let (queue, hand) = aged().await;
        let acme = queue.tenant("acme").await;
        let of_acme = format!(", tenant_id => '{acme}', subject_type => 's', subject_id => '7'");
        let id = end_old(&hand, &of_acme, None).await;
        let other = end_old(&hand, "", None).await;
        until_step(&hand.client, "caught up").await;
        queue.hold(acme, &what, "case 12", "counsel").await.unwrap();
        until_step(&hand.client, "dropped").await;
        assert_eq!(statuses(&hand, &[id, other]).await, ["succeeded", "missing"]);
        assert_is_over(&hand.client).await;
    }
}

/// Nothing is deleted between the start of the hold's transaction and its end.
#[tokio::test(flavor = "multi_thread")]
async fn the_exchange_waits_for_a_hold_that_is_being_placed() {
    let (queue, hand) = aged().await;
    let id = end_old(&hand, "", None).await;
    until_step(&hand.client, "caught up").await;
    hand.client.execute("update windlass.retiring set waits_for = '{}'", &[]).await.unwrap();
    let mut counsel = queue.client().await;
    let tx = counsel.transaction().await.unwrap();
    let place =
        format!("select windlass.place_hold('{DEFAULT_TENANT}', '{id}', null, null, 'case 12', 'counsel')");
    tx.query_one(&place, &[]).await.unwrap();
    assert_eq!(step(&hand.client).await, "waits");
    tx.commit().await.unwrap();
    until_step(&hand.client, "dropped").await;
    assert_eq!(status(&hand.client, id).await, "succeeded");
    assert_is_over(&hand.client).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_is_enqueued_into_the_partition_meanwhile_is_there_afterwards() {
    for after in BETWEEN {
        let (queue, hand) = aged().await;
        let other = end_old(&hand, "", None).await;
        until_step(&hand.client, after).await;
        let id = enqueue_old(&hand, "").await;
        let ended = end_old_now(&hand).await;
        until_step(&hand.client, "dropped").await;
        assert_eq!(
            statuses(&hand, &[id, ended, other]).await,
            ["running", "succeeded", "missing"],
            "after {after}"
        );
        assert_is_over(&hand.client).await;
        drop(queue);
    }
}

/// Enqueued, claimed with whatever else is queued, and ended.
async fn end_old_now(hand: &Hand) -> Uuid {
    let id = hand.enqueue(&format!("'held', job_id => '{}'", old_id())).await;
    let fence = hand.claim_all().await.into_iter().find(|fence| fence.job == id).unwrap();
    assert!(hand.settle(&fence, None).await);
    id
}

/// Its attempt ends while its body is being copied.
#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_ends_meanwhile_has_ended_afterwards() {
    for after in BETWEEN {
        let (_queue, hand) = aged().await;
        let other = end_old(&hand, "", None).await;
        let id = enqueue_old(&hand, "").await;
        let fence = hand.claim_one().await;
        assert!(hand.progress(&fence).await);
        until_step(&hand.client, after).await;
        assert!(hand.settle(&fence, None).await);
        until_step(&hand.client, "dropped").await;
        assert_eq!(statuses(&hand, &[id, other]).await, ["succeeded", "missing"], "after {after}");
        assert_is_over(&hand.client).await;
        // It is past its retention now, and the next replacement deletes it.
        age(&hand.client, id).await;
        hand.client.execute("delete from windlass.partition_look", &[]).await.unwrap();
        until_step(&hand.client, "dropped").await;
        assert_eq!(status(&hand.client, id).await, "missing");
        assert_eq!(count(&hand.client, "select count(*) from windlass.progress").await, 0);
        assert_is_over(&hand.client).await;
    }
}

/// Every transaction of the application is short, and every one succeeds.
#[tokio::test(flavor = "multi_thread")]
async fn many_retries_and_ends_during_a_replacement_are_all_kept() {
    let (queue, hand) = aged().await;
    let mut ids = Vec::new();
    for _ in 0..60 {
        ids.push(enqueue_old(&hand, "").await);
    }
    for fence in hand.claim_all().await {
        assert!(hand.settle(&fence, None).await);
    }
    let age = "update windlass.history set finished_at = finished_at - interval '19 days'";
    hand.client.execute(age, &[]).await.unwrap();
    let (retried, gone) = ids.split_at(30);
    let other = Hand::new(queue.client().await).await;
    let mine = retried.to_vec();
    let acting = tokio::spawn(async move {
        for id in &mine {
            // One that is deleted a moment before cannot be retried any more.
            if other.retry(*id).await == "queued" {
                let fence = other.claim_one().await;
                assert!(other.settle(&fence, Some(ending::failed())).await);
            }
        }
        other
    });
    let client = queue.client().await;
    eventually("it is replaced", async || step(&client).await == "dropped").await;
    let other = acting.await.unwrap();
    let found = statuses(&hand, retried).await;
    assert!(found.iter().all(|status| ["failed", "missing"].contains(&status.as_str())), "{found:?}");
    for (id, found) in retried.iter().zip(&found) {
        let retries =
            format!("select count(*) from windlass.audit where target = '{id}' and action = 'job.retry'");
        let was_retried = count(&other.client, &retries).await == 1;
        assert_eq!(was_retried, found == "failed", "{id}");
    }
    for status in statuses(&hand, gone).await {
        assert_eq!(status, "missing");
    }
    assert_is_over(&hand.client).await;
}
