//! A replacement that is killed at any step continues or is undone.

use windlass::Definition;
use windlass::job::State;
use windlass_testing::eventually;

use super::{BETWEEN, aged, assert_is_over, end_old, enqueue_old, step, until_step};
use crate::retention::{DAY, statuses};
use crate::support::{count, ending, status};

/// The session of the step is terminated before it commits, which is what a crash of the keeper or of the server amounts to.
#[tokio::test(flavor = "multi_thread")]
async fn a_replacement_that_is_killed_at_any_step_continues() {
    for steps in 0..6 {
        let (queue, hand) = aged().await;
        let goes = [end_old(&hand, "", None).await, end_old(&hand, "", None).await];
        let stays = [end_old(&hand, "", Some(ending::failed())).await, enqueue_old(&hand, "").await];
        for _ in 0..steps {
            step(&hand.client).await;
        }
        let killed = queue.client().await;
        killed.batch_execute("begin").await.unwrap();
        let before = step(&killed).await;
        let pid: i32 = killed.query_one("select pg_backend_pid()", &[]).await.unwrap().get(0);
        hand.client.execute("select pg_terminate_backend($1)", &[&pid]).await.unwrap();
        let is_gone = format!("select count(*) from pg_stat_activity where pid = {pid}");
        eventually("it is gone", async || count(&hand.client, &is_gone).await == 0).await;

        eventually("it is over", async || step(&hand.client).await == "none").await;
        assert_eq!(statuses(&hand, &goes).await, ["missing", "missing"], "killed at {before}");
        assert_eq!(statuses(&hand, &stays).await, ["failed", "queued"], "killed at {before}");
        assert_is_over(&hand.client).await;
        assert_eq!(count(&hand.client, "select sum(purged)::bigint from windlass.job_counts").await, 2);
    }
}

/// A rule of a definition that is changed after the decision: nothing is deleted under the previous one.
#[tokio::test(flavor = "multi_thread")]
async fn a_rule_of_a_definition_that_changes_meanwhile_cancels_the_replacement() {
    let (queue, hand) = aged().await;
    let id = end_old(&hand, "", None).await;
    until_step(&hand.client, "copied").await;
    queue.define(&Definition::new("held").retention(State::Failed, DAY)).await.unwrap();
    until_step(&hand.client, "canceled").await;
    until_step(&hand.client, "undone").await;
    assert_eq!(step(&hand.client).await, "none");
    assert_eq!(statuses(&hand, &[id]).await, ["succeeded"]);
    assert_is_over(&hand.client).await;
    let settings = "select count(*) from pg_class where relnamespace = 'windlass'::regnamespace and reloptions::text like '%autovacuum_enabled%'";
    assert_eq!(count(&hand.client, settings).await, 0);

    // And again under the rule that holds now.
    let failed = end_old(&hand, "", Some(ending::failed())).await;
    hand.client.execute("delete from windlass.partition_look", &[]).await.unwrap();
    until_step(&hand.client, "dropped").await;
    assert_eq!(statuses(&hand, &[id, failed]).await, ["succeeded", "missing"]);
    assert_is_over(&hand.client).await;
}

/// Only the jobs of this tenant are decided about again. While it changes its rules before every step, the exchange waits, and after ten
/// minutes jobs are deleted one by one (see `stuck`).
#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_that_changes_its_rules_meanwhile_keeps_its_own_jobs_only() {
    for after in BETWEEN {
        let (queue, hand) = aged().await;
        let acme = queue.tenant("acme").await;
        let of_acme = format!(", tenant_id => '{acme}'");
        let mut kept = Vec::new();
        for _ in 0..3 {
            kept.push(end_old(&hand, &of_acme, None).await);
        }
        let other = end_old(&hand, "", None).await;
        until_step(&hand.client, after).await;
        let mut days = 365;
        eventually("it is over", async || {
            if days < 371 {
                days += 1; // before each of six steps
                let rule = Some(DAY * days);
                queue.set_retention(acme, Some("held"), State::Succeeded, rule, "tester").await.unwrap();
            }
            step(&hand.client).await == "dropped"
        })
        .await;
        assert_eq!(statuses(&hand, &kept).await, ["succeeded"; 3], "after {after}");
        assert_eq!(status(&hand.client, other).await, "missing", "after {after}");
        assert_is_over(&hand.client).await;

        // A rule that is removed: that of the definition applies again.
        hand.client.execute("delete from windlass.partition_look", &[]).await.unwrap();
        let clear = format!("select windlass.set_retention('{acme}', 'held', 'succeeded', null, true)");
        hand.client.execute(&clear, &[]).await.unwrap();
        until_step(&hand.client, "dropped").await;
        assert_eq!(statuses(&hand, &kept).await, ["missing"; 3], "after {after}");
    }
}

/// A step that fails is reported, and the old partition stays.
#[tokio::test(flavor = "multi_thread")]
async fn a_replacement_that_fails_is_undone_and_reported() {
    let (_queue, hand) = aged().await;
    let id = end_old(&hand, "", None).await;
    let stays = end_old(&hand, "", Some(ending::failed())).await;
    assert_eq!(step(&hand.client).await, "begun");
    let spoil =
        "do $$ begin execute format('alter table windlass.%I add constraint spoilt check (attempt > 1)',
        (select new[2] from windlass.retiring)); end $$";
    hand.client.batch_execute(spoil).await.unwrap();
    assert_eq!(step(&hand.client).await, "failed");
    assert_eq!(step(&hand.client).await, "undone");
    assert_eq!(statuses(&hand, &[id, stays]).await, ["succeeded", "failed"]);
    let reported =
        "select count(*) from windlass.problems() where duty = 'retire' and reason like '%spoilt%'";
    assert_eq!(count(&hand.client, reported).await, 1);
    assert_is_over(&hand.client).await;
}
