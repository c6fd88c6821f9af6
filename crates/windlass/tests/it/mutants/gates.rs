//! The guards for concurrent reads and writes, at every isolation level.

use tokio_postgres::Client;
use tokio_postgres::error::SqlState;
use uuid::Uuid;
use windlass::DEFAULT_TENANT;
use windlass_testing::{TestQueue, until_a_session_waits};

use super::{Reported, catches, commit_beside, holds};
use crate::support::{Hand, count, ending};

async fn failed(hand: &Hand, key: &str) -> Uuid {
    let id = hand.enqueue(&format!("'held', ordering_key => '{key}'")).await;
    let fence = hand.claim_one().await;
    assert!(hand.settle(&fence, Some(ending::failed())).await);
    id
}

/// The last job of the key depends on this job, through another one.
async fn last_waits_for(hand: &Hand, key: &str, need: Uuid) {
    let between =
        hand.enqueue(&format!("'held', depends_on => array['{need}']::uuid[], if_unmet => 'wait'")).await;
    hand.enqueue(&format!(
        "'held', depends_on => array['{between}']::uuid[], if_unmet => 'run', ordering_key => '{key}'"
    ))
    .await;
}

async fn run_all(hand: &Hand) -> Reported {
    loop {
        let fences = hand.claim_all().await;
        if fences.is_empty() {
            break;
        }
        for fence in fences {
            assert!(hand.settle(&fence, None).await);
        }
    }
    let blocked = count(&hand.client, "select count(*) from windlass.blocked").await;
    holds(blocked == 0, "they wait for each other")
}

async fn retry(client: &Client, job: Uuid) -> Result<String, SqlState> {
    let retry = "select result from windlass.retry($1, $2, 'tester')";
    let result = client.query_one(retry, &[&DEFAULT_TENANT, &job]).await;
    result.map(|row| row.get(0)).map_err(|error| error.code().unwrap().clone())
}

/// When the first of two retries reads, nothing depends on its job; that starts before the second one reads.
async fn a_retry_without_dependents_yet(queue: &TestQueue, hand: &Hand) -> Reported {
    let (one, two) = (failed(hand, "a").await, failed(hand, "b").await);
    last_waits_for(hand, "b", one).await;
    let open = queue.client().await;
    open.batch_execute("begin").await.unwrap();
    assert_eq!(retry(&open, two).await.unwrap(), "blocked");
    last_waits_for(hand, "a", two).await;
    let second = commit_beside(queue, &open, retry(&hand.client, one)).await;
    second.unwrap();
    run_all(hand).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retry_that_reads_before_it_locks_is_detected() {
    let guard = "perform windlass.take_turn(tenant, 'circle');";
    let early = format!(
        "if exists (select from windlass.dependency d where d.tenant_id = tenant and d.needs_job_id = job) then {guard} end if;"
    );
    let expected = "they wait for each other";
    catches("retry_unaudited", guard, &early, expected, a_retry_without_dependents_yet).await;
    catches("retry_unaudited", guard, "", expected, a_retry_without_dependents_yet).await;
}

/// The second of two retries has taken its snapshot before the first started.
async fn a_retry_with_an_old_snapshot(queue: &TestQueue, hand: &Hand) -> Reported {
    for level in ["repeatable read", "serializable"] {
        let (one, two) =
            (failed(hand, &format!("a {level}")).await, failed(hand, &format!("b {level}")).await);
        last_waits_for(hand, &format!("b {level}"), one).await;
        last_waits_for(hand, &format!("a {level}"), two).await;
        // A tenant's first turn creates the row, which an old snapshot cannot pass either.
        let before = failed(hand, "c").await;
        hand.retry(before).await;
        let old = queue.client().await;
        old.batch_execute(&format!("begin isolation level {level}; select from windlass.job")).await.unwrap();
        hand.retry(two).await;
        match retry(&old, one).await {
            Ok(_) => old.batch_execute("commit").await.unwrap(),
            Err(code) => {
                assert_eq!(code, SqlState::T_R_SERIALIZATION_FAILURE);
                old.batch_execute("rollback").await.unwrap();
                retry(&old, one).await.unwrap();
            }
        }
        run_all(hand).await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retry_that_only_locks_is_detected_under_an_old_snapshot() {
    let (guard, instead) = ("windlass.take_turn(tenant, 'circle')", "windlass.lock_gate(tenant, 'circle')");
    catches("retry_unaudited", guard, instead, "they wait for each other", a_retry_with_an_old_snapshot)
        .await;
}

/// The limit was reached after the snapshot was taken.
async fn a_lane_with_an_old_snapshot(queue: &TestQueue, hand: &Hand) -> Reported {
    for (round, level) in [(1, "repeatable read"), (2, "serializable")] {
        hand.client.execute("update windlass.tenants set max_lanes = $1", &[&(4 * round)]).await.unwrap();
        hand.enqueue(&format!("'held', queue => 'first{round}'")).await;
        let old = queue.client().await;
        old.batch_execute(&format!("begin isolation level {level}; select from windlass.lane"))
            .await
            .unwrap();
        for n in 0..3 {
            hand.enqueue(&format!("'held', queue => 'q{round}.{n}'")).await;
        }
        let late = format!("select windlass.enqueue('held', queue => 'late{round}')");
        match old.batch_execute(&late).await {
            Ok(()) => old.batch_execute("commit").await.unwrap(),
            Err(error) => assert_eq!(error.code(), Some(&SqlState::T_R_SERIALIZATION_FAILURE), "{error}"),
        }
        let lanes = count(&hand.client, "select count(*) from windlass.lane").await;
        holds(lanes <= i64::from(4 * round), "the tenant has more lanes than it may have")?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lane_limit_that_only_locks_is_detected_under_an_old_snapshot() {
    let (guard, instead) = ("windlass.take_turn(tenant, 'lanes')", "windlass.lock_gate(tenant, 'lanes')");
    let expected = "the tenant has more lanes than it may have";
    catches("limit_lanes", guard, instead, expected, a_lane_with_an_old_snapshot).await;
}

/// Two concurrent invitations, when one more is allowed.
async fn two_invitations_for_one_place(queue: &TestQueue, hand: &Hand) -> Reported {
    let fill = "insert into windlass.invitations (tenant_id, email, role, secret_hash, created_by, expires_at)
        select $1, 'p' || n || '@example.org', 'viewer', sha256(n::text::bytea), 'x', now() + interval '1 day' from generate_series(1, 999) n";
    hand.client.execute(fill, &[&DEFAULT_TENANT]).await.unwrap();
    let invite = |name: &str| {
        format!(
            "select windlass.create_invitation('{DEFAULT_TENANT}',
                jsonb_build_object('email', '{name}@example.org', 'role', 'viewer', 'created_by', 'x'), sha256('{name}'), 3600)"
        )
    };
    let open = queue.client().await;
    open.batch_execute(&format!("begin; {}", invite("one"))).await.unwrap();
    let second = commit_beside(queue, &open, hand.client.batch_execute(&invite("two"))).await;
    if let Err(error) = second {
        assert_eq!(error.code().map(SqlState::code), Some("WL005"), "{error}");
    }
    let open_ones = count(&hand.client, "select count(*) from windlass.invitations").await;
    holds(open_ones <= 1000, "there are more invitations than allowed")
}

#[tokio::test(flavor = "multi_thread")]
async fn invitations_that_are_not_serialized_are_detected() {
    let guard = "perform windlass.take_turn(of_tenant, 'invitations');";
    let expected = "there are more invitations than allowed";
    catches("create_invitation", guard, "", expected, two_invitations_for_one_place).await;
}

/// The event waits for another one with its dedupe id, after it has read the tenant; meanwhile the tenant is marked.
async fn an_event_of_a_concurrently_marked_tenant(queue: &TestQueue, hand: &Hand) -> Reported {
    let tenant = queue.tenant("leaving").await;
    let emit = format!("select windlass.emit('it.happened', '{{}}', '{tenant}', 'd')");
    let open = queue.client().await;
    open.batch_execute(&format!("begin; {emit}")).await.unwrap();
    let late = queue.client().await;
    let emitting = tokio::spawn(async move { late.batch_execute(&emit).await });
    until_a_session_waits(&hand.client).await;
    hand.client.execute("select windlass.mark_tenant_deleting($1)", &[&tenant]).await.unwrap();
    open.batch_execute("rollback").await.unwrap();
    if let Err(error) = emitting.await.unwrap() {
        assert_eq!(error.code().map(SqlState::code), Some("WL003"), "{error}");
    }
    let events = count(&hand.client, "select count(*) from windlass.event").await;
    holds(events == 0, "an event was added to a tenant that is being deleted")
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_that_does_not_recheck_its_tenant_is_detected() {
    let guard = "perform windlass.check_tenants_active(array[tenant]);";
    let expected = "an event was added to a tenant that is being deleted";
    catches("emit", guard, "", expected, an_event_of_a_concurrently_marked_tenant).await;
}
