//! The guards of the replacement of partitions.

use serde_json::json;
use tokio_postgres::IsolationLevel;
use uuid::Uuid;
use windlass::job::State;
use windlass::retention::HoldOn;
use windlass::{DEFAULT_TENANT, Definition};
use windlass_testing::{TestQueue, eventually};

use super::{Reported, catches, holds, mutate};
use crate::retention::DAY;
use crate::retention::retire::pages::SMALL_PAGES;
use crate::retention::retire::{BLOCK, age, end_old, old_id, prepare, step, until_step};
use crate::support::{Hand, count, ending, status};

/// Replaces the partition; the job must be there afterwards, and another one gone.
async fn stays(hand: &Hand, id: Uuid, otherwise: &str) -> Reported {
    until_step(&hand.client, "dropped").await;
    holds(status(&hand.client, id).await != "missing", otherwise)
}

/// A job that waits for this one, although it has ended.
async fn wait_for(hand: &Hand, id: Uuid) {
    let waits = hand.enqueue("'held', delay => '1 hour'").await;
    hand.client.execute(BLOCK, &[&id, &waits]).await.unwrap();
}

async fn two_old(queue: &TestQueue, hand: &Hand) -> Uuid {
    prepare(queue, hand).await;
    end_old(hand, "", None).await;
    end_old(hand, "", None).await
}

async fn a_job_that_another_waits_for(queue: &TestQueue, hand: &Hand) -> Reported {
    let id = two_old(queue, hand).await;
    wait_for(hand, id).await;
    // While an older transaction of any database is open, the exchange reads the dependency again and hides what the copy missed.
    let is_old =
        "select count(*) from windlass.dependency d where d.xid >= pg_snapshot_xmin(pg_current_snapshot())";
    eventually("no older transaction is open", async || count(&hand.client, is_old).await == 0).await;
    stays(hand, id, "a job that another waits for is deleted").await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_without_needed_jobs_is_detected() {
    let guard = "where d.tenant_id = g.tenant_id and d.needs_job_id = g.job_id";
    let expected = "a job that another waits for is deleted";
    catches("retire_protected", guard, "where false", expected, a_job_that_another_waits_for).await;
}

async fn a_job_that_another_starts_to_wait_for(queue: &TestQueue, hand: &Hand) -> Reported {
    let id = two_old(queue, hand).await;
    until_step(&hand.client, "copied").await;
    wait_for(hand, id).await;
    stays(hand, id, "a job that another waits for is deleted").await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_exchange_that_does_not_read_new_dependencies_is_detected() {
    let (guard, instead) =
        ("retire_needed(of_range.low, of_range.high", "retire_needed(of_range.low, of_range.low");
    let expected = "a job that another waits for is deleted";
    catches("retire_catch_up", guard, instead, expected, a_job_that_another_starts_to_wait_for).await;
}

async fn a_job_under_hold(queue: &TestQueue, hand: &Hand) -> Reported {
    let id = two_old(queue, hand).await;
    queue.hold(DEFAULT_TENANT, &HoldOn::Job(id), "case 12", "counsel").await.unwrap();
    stays(hand, id, "a job under hold is deleted").await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_without_held_jobs_is_detected() {
    let guard = "cross join lateral unnest(windlass.held_jobs(g.tenant_id, g.jobs)) h (job_id)";
    let instead = "cross join lateral unnest(array[]::uuid[]) h (job_id)";
    catches("retire_protected", guard, instead, "a job under hold is deleted", a_job_under_hold).await;
}

async fn a_job_whose_hold_is_placed_after_the_copy(queue: &TestQueue, hand: &Hand) -> Reported {
    let id = two_old(queue, hand).await;
    until_step(&hand.client, "copied").await;
    queue.hold(DEFAULT_TENANT, &HoldOn::Job(id), "case 12", "counsel").await.unwrap();
    stays(hand, id, "a job under hold is deleted").await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_exchange_that_does_not_read_new_holds_is_detected() {
    let guard = "select h.tenant_id, 'hold ' || h.id as of_tenant from windlass.legal_hold h";
    let instead = "select h.tenant_id, 'hold' as of_tenant from windlass.legal_hold h where false";
    let expected = "a job under hold is deleted";
    catches("tenant_digests", guard, instead, expected, a_job_whose_hold_is_placed_after_the_copy).await;
}

async fn a_hold_that_is_being_placed(queue: &TestQueue, hand: &Hand) -> Reported {
    let id = two_old(queue, hand).await;
    until_step(&hand.client, "caught up").await;
    let mut counsel = queue.client().await;
    let tx = counsel.transaction().await.unwrap();
    let place =
        format!("select windlass.place_hold('{DEFAULT_TENANT}', '{id}', null, null, 'case 12', 'counsel')");
    tx.query_one(&place, &[]).await.unwrap();
    let during = step(&hand.client).await;
    tx.commit().await.unwrap();
    if during == "swapped" {
        holds(
            status(&hand.client, id).await != "missing",
            "a job is deleted under a hold that is being placed",
        )?;
    }
    stays(hand, id, "a job is deleted under a hold that is being placed").await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hold_that_does_not_wait_for_the_exchange_is_detected() {
    let guard = "perform windlass.share_gate('00000000-0000-0000-0000-000000000000', 'retire holds');";
    let expected = "a job is deleted under a hold that is being placed";
    catches("place_hold", guard, "", expected, a_hold_that_is_being_placed).await;
}

async fn a_job_whose_artifact_is_to_be_removed(queue: &TestQueue, hand: &Hand) -> Reported {
    let id = two_old(queue, hand).await;
    queue.define(&Definition::new("remove")).await.unwrap();
    let clean_up = "update windlass.job_definitions set on_purge = 'remove' where key = 'held'";
    hand.client.execute(clean_up, &[]).await.unwrap();
    let with = "update windlass.history set artifact = '{}' where job_id = $1";
    hand.client.execute(with, &[&id]).await.unwrap();
    stays(hand, id, "a job is deleted before its artifact").await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_without_jobs_with_artifacts_is_detected() {
    let (guard, instead) = ("where not d.cleans_up", "");
    let expected = "a job is deleted before its artifact";
    catches("retire_goes", guard, instead, expected, a_job_whose_artifact_is_to_be_removed).await;
}

async fn a_job_whose_artifact_is_being_removed(queue: &TestQueue, hand: &Hand) -> Reported {
    let id = two_old(queue, hand).await;
    let wait = "insert into windlass.purge_wait (tenant_id, job_id, cleanup_job_id) values ($1, $2, gen_random_uuid())";
    hand.client.execute(wait, &[&DEFAULT_TENANT, &id]).await.unwrap();
    stays(hand, id, "a job is deleted while its artifact is being removed").await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_without_jobs_that_wait_for_their_clean_up_is_detected() {
    let guard = "where w.tenant_id = g.tenant_id and w.job_id = g.job_id";
    let expected = "a job is deleted while its artifact is being removed";
    catches("retire_protected", guard, "where false", expected, a_job_whose_artifact_is_being_removed).await;
}

async fn a_job_that_is_retried_after_the_copy(queue: &TestQueue, hand: &Hand) -> Reported {
    let id = two_old(queue, hand).await;
    until_step(&hand.client, "copied").await;
    hand.retry(id).await;
    stays(hand, id, "a job that was retried is deleted").await?;
    let purged = count(&hand.client, "select sum(purged)::bigint from windlass.job_counts").await;
    holds(purged == 1, "the counters differ from the rows")
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_that_are_not_noted_are_detected() {
    let guard = "elsif tg_argv[0] = 'history' then";
    let instead = "elsif tg_argv[0] = 'history' then return null;";
    let expected = "a job that was retried is deleted";
    catches("note_change", guard, instead, expected, a_job_that_is_retried_after_the_copy).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_that_are_not_counted_are_detected() {
    let (guard, instead) = ("set jobs = g.jobs - c.jobs", "set jobs = g.jobs");
    let expected = "the counters differ from the rows";
    catches("retire_apply_notes", guard, instead, expected, a_job_that_is_retried_after_the_copy).await;
}

async fn a_rule_that_becomes_longer(queue: &TestQueue, hand: &Hand) -> Reported {
    let id = two_old(queue, hand).await;
    until_step(&hand.client, "caught up").await;
    let kept = Definition::new("held").retention(State::Succeeded, DAY * 365);
    queue.define(&kept).await.unwrap();
    while !["none", "dropped", "undone"].contains(&step(&hand.client).await.as_str()) {}
    holds(status(&hand.client, id).await == "succeeded", "a job is deleted by a rule that no longer exists")
}

#[tokio::test(flavor = "multi_thread")]
async fn an_exchange_that_does_not_compare_the_rules_is_detected() {
    let (guard, instead) = ("now_at.rules <> windlass.rules_digest()", "false");
    let expected = "a job is deleted by a rule that no longer exists";
    catches("reason_to_cancel", guard, instead, expected, a_rule_that_becomes_longer).await;
}

async fn a_rule_of_the_tenant_that_becomes_longer(queue: &TestQueue, hand: &Hand) -> Reported {
    let id = two_old(queue, hand).await;
    let acme = queue.tenant("acme").await;
    queue.set_retention(acme, None, State::Succeeded, Some(DAY), "tester").await.unwrap();
    let other = end_old(hand, &format!(", tenant_id => '{acme}'"), None).await;
    until_step(&hand.client, "caught up").await;
    queue.set_retention(acme, None, State::Succeeded, None, "tester").await.unwrap();
    until_step(&hand.client, "dropped").await;
    holds(status(&hand.client, id).await == "missing", "a tenant's rule keeps jobs of others")?;
    holds(
        status(&hand.client, other).await != "missing",
        "a job that is kept by its tenant's rule is deleted",
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn an_exchange_that_does_not_look_at_changed_rules_of_tenants_is_detected() {
    let (guard, instead) = ("format('%s %s %s', r.definition_key, r.status, r.keep_seconds)", "'rule'");
    let expected = "a job that is kept by its tenant's rule is deleted";
    catches("tenant_digests", guard, instead, expected, a_rule_of_the_tenant_that_becomes_longer).await;
}

async fn a_job_that_changes_before_its_page(queue: &TestQueue, hand: &Hand) -> Reported {
    two_old(queue, hand).await;
    let failed = end_old(hand, "", Some(ending::failed())).await;
    hand.client.batch_execute(SMALL_PAGES).await.unwrap();
    step(&hand.client).await;
    hand.retry(failed).await;
    let fence = hand.claim_one().await;
    hand.settle(&fence, None).await;
    age(&hand.client, failed).await;
    until_step(&hand.client, "dropped").await;
    let left = "select count(*) from windlass.history where job_status is not null";
    let counted = "select sum(succeeded + failed)::bigint from windlass.job_counts";
    let found = (count(&hand.client, left).await, count(&hand.client, counted).await);
    holds(found.0 == found.1, "the counters differ from the rows")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_that_does_not_delete_the_notes_before_it_is_detected() {
    let (guard, instead) = ("(c.tenant_id, c.job_id) <= (%5$L, %6$L))", "false)");
    let expected = "the counters differ from the rows";
    catches("retire_decide", guard, instead, expected, a_job_that_changes_before_its_page).await;
}

async fn a_tenant_that_keeps_its_jobs_forever(queue: &TestQueue, hand: &Hand) -> Reported {
    let id = two_old(queue, hand).await;
    let acme = queue.tenant("acme").await;
    end_old(hand, &format!(", tenant_id => '{acme}'"), None).await;
    queue.set_retention(DEFAULT_TENANT, None, State::Succeeded, None, "tester").await.unwrap();
    stays(hand, id, "a job that is kept forever is deleted").await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rule_of_the_definition_before_that_of_the_tenant_is_detected() {
    let (guard, instead) = ("case when found then", "case when own is not null then");
    let expected = "a job that is kept forever is deleted";
    catches("keep_of", guard, instead, expected, a_tenant_that_keeps_its_jobs_forever).await;
}

async fn a_body_without_a_state(queue: &TestQueue, hand: &Hand) -> Reported {
    let other = two_old(queue, hand).await;
    let id = old_id();
    let damage = "insert into windlass.job (tenant_id, id, created_at, lane, source, max_attempts, payload)
        select b.tenant_id, $2, b.created_at, b.lane, 1, 3, '{}' from windlass.job b where b.id = $1";
    hand.client.execute(damage, &[&other, &id]).await.unwrap();
    until_step(&hand.client, "dropped").await;
    let left = count(&hand.client, &format!("select count(*) from windlass.job where id = '{id}'")).await;
    holds(left == 1, "a job whose state is unknown is deleted")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_without_jobs_of_unknown_state_is_detected() {
    let guard = "and not exists (select from goes g where g.tenant_id = b.tenant_id and g.job_id = b.id)";
    let instead =
        "and exists (select from windlass.history h where h.tenant_id = b.tenant_id and h.job_id = b.id)
        and not exists (select from goes g where g.tenant_id = b.tenant_id and g.job_id = b.id)";
    let expected = "a job whose state is unknown is deleted";
    catches("retire_decide", guard, instead, expected, a_body_without_a_state).await;
}

async fn a_reader_with_a_snapshot_from_before_the_copy(queue: &TestQueue, hand: &Hand) -> Reported {
    two_old(queue, hand).await;
    let id = end_old(hand, "", Some(ending::failed())).await;
    let mut reader = queue.client().await;
    let tx =
        reader.build_transaction().isolation_level(IsolationLevel::RepeatableRead).start().await.unwrap();
    tx.query_one("select count(*) from windlass.tenants", &[]).await.unwrap();
    for _ in 0..6 {
        step(&hand.client).await;
    }
    let found = "select count(*) from windlass.jobs where id = $1";
    let found: i64 = tx.query_one(found, &[&id]).await.unwrap().get(0);
    tx.commit().await.unwrap();
    holds(found == 1, "a reader misses a job that stays")
}

#[tokio::test(flavor = "multi_thread")]
async fn an_exchange_that_does_not_wait_for_older_snapshots_is_detected() {
    let (guard, instead) = ("of_range.waits_for && windlass.open_transactions()", "false");
    let expected = "a reader misses a job that stays";
    catches("retire_swap", guard, instead, expected, a_reader_with_a_snapshot_from_before_the_copy).await;
}

async fn a_partition_that_prune_meets_while_it_is_replaced(queue: &TestQueue, hand: &Hand) -> Reported {
    let id = two_old(queue, hand).await;
    until_step(&hand.client, "copied").await;
    let pruned: i32 =
        hand.client.query_one("select moved from windlass.prune(10)", &[]).await.unwrap().get(0);
    holds(pruned == 0, "jobs are deleted one by one although their partition is being replaced")?;
    age(&hand.client, id).await;
    until_step(&hand.client, "dropped").await;
    holds(json!(status(&hand.client, id).await) == "succeeded", "a job that was changed is deleted")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_prune_of_large_partitions_is_detected() {
    let (guard, instead) = ("and h.tableoid <> all (large.tables)", "");
    let expected = "jobs are deleted one by one although their partition is being replaced";
    let story = async |queue: &TestQueue, hand: &Hand| {
        // Without the bounds of the newest ones, which exclude the same partition here.
        let bounds = "and (h.job_id < large.low or h.job_id >= large.high)";
        mutate(&hand.client, "prune", bounds, "").await;
        a_partition_that_prune_meets_while_it_is_replaced(queue, hand).await
    };
    catches("prune", guard, instead, expected, story).await;
}
