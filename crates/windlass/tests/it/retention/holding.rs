//! Holds that are being placed during a deletion: the hold wins, and it affects its own tenant only.

use serde_json::json;
use tokio_postgres::Client;
use uuid::Uuid;
use windlass::job::State;
use windlass::{DEFAULT_TENANT, Definition, NewJob};
use windlass_testing::{TestQueue, eventually, until_a_session_waits, waiting_for_locks};

use super::{DAY, ended, prune};
use crate::support::{Hand, assert_counts_are_exact, count, status};

fn place(tenant: Uuid) -> String {
    format!("select windlass.place_hold('{tenant}', null, null, null, 'case 12', 'counsel')")
}

/// The deletion started before the hold was committed, and does not concern jobs.
#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_is_not_deleted_under_a_hold_that_is_being_placed() {
    let queue = TestQueue::create().await;
    let tenant = queue.tenant("a").await;
    let (counsel, deleter, watcher) = (queue.client().await, queue.client().await, queue.client().await);
    let purge = format!("select done from windlass.purge_tenant('{tenant}', 100)");
    assert!(!deleter.query_one(&purge, &[]).await.unwrap().get::<_, bool>(0), "the first step marks it");
    counsel.batch_execute(&format!("begin; {}", place(tenant))).await.unwrap();
    let deleting = tokio::spawn(async move { deleter.query_one(&purge, &[]).await });
    until_a_session_waits(&watcher).await;
    counsel.batch_execute("commit").await.unwrap();
    let refused = deleting.await.unwrap().unwrap_err();
    assert_eq!(refused.code().map(|code| code.code()), Some("WL020"), "{refused}");
    assert_eq!(count(&watcher, "select count(*) from windlass.tenants where slug = 'a'").await, 1);
}

/// One lock for all tenants would make all deletions wait for a transaction that one of them leaves open.
#[tokio::test(flavor = "multi_thread")]
async fn a_hold_that_is_being_placed_blocks_no_deletion_of_others() {
    let queue = TestQueue::create().await;
    queue.define(&Definition::new("held")).await.unwrap();
    let (a, b) = (queue.tenant("a").await, queue.tenant("b").await);
    let job = queue.enqueue(&NewJob::new("held").tenant(b)).await.unwrap().id;
    let (counsel, deleter) = (queue.client().await, queue.client().await);
    counsel.batch_execute(&format!("begin; {}", place(a))).await.unwrap();
    deleter.batch_execute("set lock_timeout = '5s'").await.unwrap();
    let purge = format!("select windlass.purge('{b}', array['{job}']::uuid[])");
    assert_eq!(deleter.query_one(&purge, &[]).await.unwrap().get::<_, i32>(0), 1);
    counsel.batch_execute("rollback").await.unwrap();
}

/// An event of the tenant that is past its retention and whose only dispatch has failed; returns it and its trigger.
async fn old_event(client: &Client, tenant: Uuid) -> (Uuid, Uuid) {
    let fields = json!({"label": "x", "is_enabled": true, "trigger_type": "event", "event_name": "e", "conditions": {},
        "definition_key": "held", "payload_template": {}, "dedupe_window_seconds": 0, "misfire": "skip", "misfire_max": 1,
        "misfire_window_seconds": 60, "misfire_grace_seconds": 60, "overlap": "allow", "jitter_seconds": 0});
    let create = "select windlass.create_trigger($1, $2, null)";
    let trigger: Uuid = client.query_one(create, &[&tenant, &fields]).await.unwrap().get(0);
    let emit = "select id from windlass.emit('e', '{}', $1)";
    let event: Uuid = client.query_one(emit, &[&tenant]).await.unwrap().get(0);
    let dispatch = "select windlass.dispatch_events(array[$1::uuid], array[$2::uuid], array[1], array[$3::uuid], array[1],
        array['it failed'], array[null]::uuid[], array['held'], array['{}']::jsonb[], array[null]::text[], array[0])";
    client.execute(dispatch, &[&tenant, &event, &trigger]).await.unwrap();
    let keep = "select windlass.set_retention($1, '*', 'event', 0, false)";
    client.execute(keep, &[&tenant]).await.unwrap();
    (event, trigger)
}

/// What an operator's transaction does that retries the failed dispatch and stays open.
fn retry_dispatch(tenant: Uuid, (event, trigger): (Uuid, Uuid)) -> String {
    format!(
        "begin; select windlass.retry_dispatch('{tenant}', '{event}', '{trigger}', 'still', null, null, null, null, 0)"
    )
}

async fn events_of(client: &Client, tenant: Uuid) -> i64 {
    count(client, &format!("select count(*) from windlass.event where tenant_id = '{tenant}'")).await
}

/// The round waits at one tenant while the hold on another is committed. Tenants come in random order, so the test is
/// repeated until the round has met the first one first.
#[tokio::test(flavor = "multi_thread")]
async fn no_event_is_deleted_after_a_hold_was_committed() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    queue.define(&Definition::new("held")).await.unwrap();
    // It would leave the first tenant for the next round.
    client.batch_execute("alter function windlass.prune_events set lock_timeout = '60s'").await.unwrap();
    for n in 0..40 {
        let (a, b) = (queue.tenant(&format!("a{n}")).await, queue.tenant(&format!("b{n}")).await);
        let of_a = old_event(&client, a).await;
        old_event(&client, b).await;
        let (open, pruner) = (queue.client().await, queue.client().await);
        open.batch_execute(&format!("{}; {}", retry_dispatch(a, of_a), place(a))).await.unwrap();
        let round =
            tokio::spawn(async move { pruner.batch_execute("select windlass.prune_events(1000)").await });
        until_a_session_waits(&client).await;
        let counsel = queue.client().await;
        let hold = tokio::spawn(async move { counsel.batch_execute(&place(b)).await });
        // If the round met the second tenant first, the hold waits for the end of the round.
        eventually("the hold is placed or waits", async || {
            hold.is_finished() || waiting_for_locks(&client).await == 2
        })
        .await;
        let is_placed = hold.is_finished();
        open.batch_execute("rollback").await.unwrap();
        round.await.unwrap().unwrap();
        hold.await.unwrap().unwrap();
        if is_placed {
            assert_eq!(events_of(&client, b).await, 1, "deleted after the hold was committed");
            return;
        }
    }
    panic!("no round met the first tenant first");
}

/// Whoever waited would be told by the timeout.
#[tokio::test]
async fn an_open_transaction_of_one_tenant_does_not_delay_the_deletion_of_events() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    queue.define(&Definition::new("held")).await.unwrap();
    let (a, b, c) = (queue.tenant("a").await, queue.tenant("b").await, queue.tenant("c").await);
    let of_a = old_event(&client, a).await;
    for tenant in [b, c] {
        old_event(&client, tenant).await;
    }
    let (operator, counsel) = (queue.client().await, queue.client().await);
    operator.batch_execute(&retry_dispatch(a, of_a)).await.unwrap();
    counsel.batch_execute(&format!("begin; {}", place(c))).await.unwrap();
    client.batch_execute("set lock_timeout = '5s'").await.unwrap();
    assert_eq!(count(&client, "select moved::bigint from windlass.prune_events(1000)").await, 1);
    let left = [events_of(&client, a).await, events_of(&client, b).await, events_of(&client, c).await];
    assert_eq!(left, [1, 0, 1], "one is being retried, and one is about to be held");
    operator.batch_execute("commit").await.unwrap();
    counsel.batch_execute("commit").await.unwrap();
    assert_eq!(count(&client, "select moved::bigint from windlass.prune_events(1000)").await, 1);
    assert_eq!([events_of(&client, a).await, events_of(&client, c).await], [0, 1]);
}

#[tokio::test]
async fn fires_of_a_tenant_under_hold_are_kept_until_it_is_released() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    let (a, b) = (queue.tenant("a").await, queue.tenant("b").await);
    let fire = "insert into windlass.fire (tenant_id, trigger_id, due_at, generation, outcome, reason, decided_at)
        select $1, gen_random_uuid(), now() - interval '91 days', 1, 'skipped', 'x', now() - interval '91 days'";
    for tenant in [a, b] {
        client.execute(fire, &[&tenant]).await.unwrap();
    }
    let left = "select count(*) from windlass.fire";
    let counsel = queue.client().await;
    counsel.batch_execute(&format!("begin; {}", place(a))).await.unwrap();
    client.batch_execute("select windlass.prune_events(1)").await.unwrap();
    assert_eq!(
        count(&client, left).await,
        1,
        "a hold that is being placed counts too, and delays no other tenant"
    );
    counsel.batch_execute("commit").await.unwrap();
    client.batch_execute("select windlass.prune_events(1000)").await.unwrap();
    assert_eq!(count(&client, left).await, 1);
    let release = "select windlass.release_hold(tenant_id, id) from windlass.legal_hold";
    client.batch_execute(release).await.unwrap();
    client.batch_execute("select windlass.prune_events(1000)").await.unwrap();
    assert_eq!(count(&client, left).await, 0);
}

/// A queue with a job whose artifact `remove-audio` must remove before the job is deleted.
async fn with_artifact() -> (TestQueue, Hand, Uuid) {
    let queue = TestQueue::create().await;
    let hand = Hand::new(queue.client().await).await;
    let tts = Definition::new("tts").retention(State::Succeeded, DAY).on_purge("remove-audio");
    queue.define(&tts).await.unwrap();
    queue.define(&Definition::new("remove-audio")).await.unwrap();
    let artifact =
        json!({"outcome": 1, "next": 1, "failures": 0, "lost": 0, "snoozes": 0, "artifact": {"path": "a"}});
    let audio = ended(&hand, "'tts', subject_type => 'case', subject_id => '12'", Some(artifact), 2).await;
    (queue, hand, audio)
}

const CLEAN_UPS: &str = "select count(*) from windlass.jobs where definition_key = 'remove-audio'";

#[tokio::test(flavor = "multi_thread")]
async fn a_hold_cancels_the_clean_up_of_what_it_covers() {
    for (covers, clean_up_was) in
        [("job", "queued"), ("subject", "running"), ("all", "queued"), ("all", "succeeded")]
    {
        let (queue, hand, audio) = with_artifact().await;
        prune(&queue).await;
        let clean_up: Uuid = hand
            .client
            .query_one("select cleanup_job_id from windlass.purge_wait", &[])
            .await
            .unwrap()
            .get(0);
        let fence = if clean_up_was == "queued" { None } else { Some(hand.claim_one().await) };
        if clean_up_was == "succeeded" {
            assert!(hand.settle(fence.as_ref().unwrap(), None).await);
        }
        let (on_job, on_type, on_id) = match covers {
            "job" => (Some(audio), None, None),
            "subject" => (None, Some("case"), Some("12")),
            _ => (None, None, None),
        };
        let hold = "select windlass.place_hold($1, $2, $3, $4, 'case 12', 'counsel')";
        hand.client.execute(hold, &[&DEFAULT_TENANT, &on_job, &on_type, &on_id]).await.unwrap();
        if clean_up_was == "running" {
            assert!(hand.settle(fence.as_ref().unwrap(), Some(crate::support::ending::retry())).await);
        }
        let expected = if clean_up_was == "succeeded" { "succeeded" } else { "canceled" };
        assert_eq!(status(&hand.client, clean_up).await, expected, "{covers}, {clean_up_was}");
        prune(&queue).await;
        assert_eq!(count(&hand.client, CLEAN_UPS).await, 1, "no other is enqueued under the hold");
        assert_eq!(status(&hand.client, audio).await, "succeeded", "{covers}, {clean_up_was}");

        let release = "select windlass.release_hold(tenant_id, id) from windlass.legal_hold";
        hand.client.batch_execute(release).await.unwrap();
        prune(&queue).await;
        if clean_up_was != "succeeded" {
            let again = hand.claim_one().await;
            assert_ne!(again.job, clean_up);
            assert!(hand.settle(&again, None).await);
            prune(&queue).await;
        }
        assert_eq!(status(&hand.client, audio).await, "missing", "the rules apply again");
        assert_counts_are_exact(&hand.client).await;
    }
}

/// A clean-up that covers another job is left alone.
#[tokio::test(flavor = "multi_thread")]
async fn a_hold_leaves_the_clean_up_of_another_job_alone() {
    let (queue, hand, audio) = with_artifact().await;
    prune(&queue).await;
    let hold = "select windlass.place_hold($1, $2, null, null, 'case 13', 'counsel')";
    hand.client.execute(hold, &[&DEFAULT_TENANT, &Uuid::new_v4()]).await.unwrap();
    let clean_up = hand.claim_one().await;
    assert!(hand.settle(&clean_up, None).await);
    prune(&queue).await;
    assert_eq!(status(&hand.client, audio).await, "missing");
}

/// Whoever waited would be told by the timeout.
#[tokio::test(flavor = "multi_thread")]
async fn no_clean_up_is_enqueued_while_a_hold_is_being_placed() {
    let (queue, hand, audio) = with_artifact().await;
    let counsel = queue.client().await;
    for end in ["rollback", "commit"] {
        counsel.batch_execute(&format!("begin; {}", place(DEFAULT_TENANT))).await.unwrap();
        hand.client.batch_execute("set lock_timeout = '5s'; select windlass.prune(1000)").await.unwrap();
        assert_eq!(count(&hand.client, CLEAN_UPS).await, 0, "{end}");
        counsel.batch_execute(end).await.unwrap();
    }
    prune(&queue).await;
    assert_eq!(count(&hand.client, CLEAN_UPS).await, 0);
    assert_eq!(status(&hand.client, audio).await, "succeeded");
    let release = "select windlass.release_hold(tenant_id, id) from windlass.legal_hold";
    hand.client.batch_execute(release).await.unwrap();
    prune(&queue).await;
    assert_eq!(count(&hand.client, CLEAN_UPS).await, 1);
}
