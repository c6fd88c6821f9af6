//! How pruning processes a long history: in spans of time through the index on finish times, rule by rule, with reported progress.

use serde_json::Value;
use windlass::job::State;
use windlass::keeper::{Duty, Keeper, KeeperSettings};
use windlass::retention::HoldOn;
use windlass::{DEFAULT_TENANT, Definition};
use windlass_testing::{TestQueue, eventually, until_waits_or_ends};

use super::DAY;
use crate::plans::watch::{Plan, Watch};
use crate::support::{Hand, count, keeper};

const JOBS: i64 = 40_000;

/// Jobs that ended one after the other, ten milliseconds apart, days ago.
pub(super) async fn fill(hand: &Hand, key: &str, jobs: i64) {
    let id = hand.enqueue(&format!("'{key}'")).await;
    hand.cancel(id).await;
    let fill = format!(
        "with new as (
           insert into windlass.job (tenant_id, id, created_at, lane, source, max_attempts, payload)
             select '{DEFAULT_TENANT}', windlass.uuid7(), now(), h.lane, 1, 3, '{{}}'
               from windlass.history h cross join generate_series(1, {jobs}) where h.job_id = '{id}'
           returning tenant_id, id, lane)
         insert into windlass.history (tenant_id, job_id, started_at, finished_at, attempt, lane, outcome, job_status)
           select n.tenant_id, n.id, now(), now() - interval '3 days' + row_number() over () * interval '10 ms', 1, n.lane, 1, 1 from new n;
         insert into windlass.tally (tenant_id, lane, succeeded) select h.tenant_id, h.lane, {jobs} from windlass.history h where h.job_id = '{id}';
         -- As if they had been enqueued within a day: a keeper must not divide the partitions that contain them.
         update windlass.partition_rate set at = clock_timestamp() - interval '1 day'"
    );
    hand.client.batch_execute(&fill).await.unwrap();
}

/// Rows of history that a statement read, including those that it found to be of another time.
pub(super) fn rows_of_history(plan: &Plan) -> u64 {
    let number = |node: &Value, name: &str| node[name].as_f64().unwrap_or(0.0);
    let is_history =
        |node: &&Value| node["Relation Name"].as_str().is_some_and(|name| name.starts_with("history"));
    let rows = plan.nodes().into_iter().filter(is_history).map(|node| {
        let each = number(node, "Actual Rows")
            + number(node, "Rows Removed by Filter")
            + number(node, "Rows Removed by Index Recheck");
        each * number(node, "Actual Loops")
    });
    rows.sum::<f64>() as u64
}

/// The clean-up of document 001 has its own index; ours is the one on finish times, and a batch reads a span of it. Without spans
/// each batch read all remaining rows, and a history of ten million was read ten thousand times.
#[tokio::test(flavor = "multi_thread")]
async fn a_batch_reads_only_a_part_of_the_history() {
    let queue = TestQueue::create().await;
    let hand = Hand::new(queue.client().await).await;
    queue.define(&Definition::new("held").retention(State::Succeeded, DAY)).await.unwrap();
    fill(&hand, "held", JOBS).await;
    let mut watch = Watch::open(queue.url()).await;
    let (mut batches, mut most_read) = (0, 0);
    loop {
        watch.plans().await;
        let moved: i32 =
            watch.client.query_one("select moved from windlass.prune(500)", &[]).await.unwrap().get(0);
        let read = watch.plans().await;
        let looks = read.iter().filter(|plan| plan.query.contains("old as materialized"));
        most_read = looks.clone().map(rows_of_history).sum::<u64>().max(most_read);
        for look in looks {
            assert!(look.scanned_whole().is_empty(), "{look:#?}");
            assert!(look.uses_index("finished_at"), "{look:#?}");
        }
        batches += 1;
        if moved < 500 {
            break;
        }
    }
    assert!(batches >= JOBS / 500, "{batches}");
    assert!(most_read < 16_000, "a batch of 500 read {most_read} rows of {JOBS}");
    assert_eq!(count(&hand.client, "select count(*) from windlass.history where job_status = 1").await, 0);
    let progress = queue.retention_progress().await.unwrap();
    let rule = progress.iter().find(|rule| rule.status == "succeeded").unwrap();
    assert_eq!(rule.purged, Some(JOBS));
    assert!(rule.behind_seconds.unwrap() < 120, "{rule:?}");
    crate::support::assert_counts_are_exact(&hand.client).await;
}

/// A rule with a long backlog takes turns with the others.
#[tokio::test(flavor = "multi_thread")]
async fn a_long_backlog_of_one_rule_does_not_block_the_others() {
    let queue = TestQueue::create().await;
    let hand = Hand::new(queue.client().await).await;
    for key in ["large", "small"] {
        queue.define(&Definition::new(key).retention(State::Succeeded, DAY)).await.unwrap();
    }
    fill(&hand, "large", 2000).await;
    fill(&hand, "small", 20).await;
    for _ in 0..4 {
        hand.client.execute("select windlass.prune(100)", &[]).await.unwrap();
    }
    let progress = queue.retention_progress().await.unwrap();
    let purged = |key: &str| {
        progress
            .iter()
            .find(|rule| rule.definition_key == key && rule.status == "succeeded")
            .unwrap()
            .purged
            .unwrap()
    };
    assert_eq!(purged("small"), 20);
    assert!((300..=400).contains(&purged("large")), "{}", purged("large"));
}

/// A keeper that prunes leaves most of its time to others, continues until it is done, and a second one waits.
#[tokio::test(flavor = "multi_thread")]
async fn keepers_prune_a_backlog_automatically() {
    let queue = TestQueue::create().await;
    let hand = Hand::new(queue.client().await).await;
    queue.define(&Definition::new("held").retention(State::Succeeded, DAY)).await.unwrap();
    fill(&hand, "held", 5000).await;
    let stop = tokio_util::sync::CancellationToken::new();
    let settings = KeeperSettings::default().prune_share(0.5);
    let keepers: Vec<_> = (0..2)
        .map(|_| tokio::spawn(Keeper::new(queue.queue().clone(), settings.clone()).run(stop.clone())))
        .collect();
    eventually("all is pruned", async || {
        count(&hand.client, "select count(*) from windlass.history where job_status = 1").await == 0
    })
    .await;
    let leaders = "select count(*) from windlass.leader where duty = 'prune' and epoch = 1";
    assert_eq!(count(&hand.client, leaders).await, 1, "the same one all the time");
    stop.cancel();
    for keeper in keepers {
        keeper.await.unwrap();
    }
}

/// At the usual share, the pause after a slow round is longer than the lease of other duties.
#[tokio::test(flavor = "multi_thread")]
async fn a_keeper_leads_the_pruning_also_while_it_pauses_after_a_slow_round() {
    let queue = TestQueue::create().await;
    let hand = Hand::new(queue.client().await).await;
    queue.define(&Definition::new("held").retention(State::Succeeded, DAY)).await.unwrap();
    fill(&hand, "held", 5000).await;
    let slow = "alter function windlass.prune(integer) rename to prune_in_truth;
        create function windlass.prune(most integer default 1000, out moved integer, out has_more boolean)
        language plpgsql security definer as $$
        begin
          perform pg_sleep(0.5);
          select p.moved, p.has_more into moved, has_more from windlass.prune_in_truth(most) p;
        end $$";
    hand.client.batch_execute(slow).await.unwrap();
    let stop = tokio_util::sync::CancellationToken::new();
    let settings = KeeperSettings::default().prune_share(0.005);
    let keeper = tokio::spawn(Keeper::new(queue.queue().clone(), settings).run(stop.clone()));
    // Half a second is 0.5 % of 100 s.
    let leads = "select count(*) from windlass.leader where duty = 'prune' and expires_at > clock_timestamp() + interval '90 s'";
    eventually("its lease covers its pause", async || count(&hand.client, leads).await == 1).await;
    stop.cancel();
    keeper.await.unwrap();
}

/// A concurrent hold and deletion: the first one is complete. Nothing is deleted after a hold on it is committed.
#[tokio::test(flavor = "multi_thread")]
async fn a_hold_that_is_being_placed_stops_deletions_before_it_is_committed() {
    let queue = TestQueue::create().await;
    let hand = Hand::new(queue.client().await).await;
    queue.define(&Definition::new("held").retention(State::Succeeded, DAY)).await.unwrap();
    fill(&hand, "held", 10).await;
    let mut counsel = queue.client().await;
    let tx = counsel.transaction().await.unwrap();
    let place =
        format!("select windlass.place_hold('{DEFAULT_TENANT}', null, null, null, 'case 12', 'counsel')");
    tx.query_one(&place, &[]).await.unwrap();
    let pruner = keeper(&queue);
    let pruning = tokio::spawn(async move { pruner.run_once(Duty::Prune).await });
    // It waits for the hold for a fifth of a second, and then leaves it to the next round.
    until_waits_or_ends(&hand.client, &pruning).await;
    tx.commit().await.unwrap();
    pruning.await.unwrap().unwrap();
    keeper(&queue).run_once(Duty::Prune).await.unwrap();
    let left = "select count(*) from windlass.history where job_status = 1";
    assert_eq!(count(&hand.client, left).await, 10);
    let unknown = queue.hold(DEFAULT_TENANT, &HoldOn::Job(uuid::Uuid::nil()), "r", "x").await;
    assert!(matches!(unknown, Err(windlass::Error::Unknown { what: "job" })), "{unknown:?}");
}

/// How often history was read.
fn looks(plans: &[Plan]) -> usize {
    plans.iter().filter(|plan| plan.query.contains("old as materialized")).count()
}

/// 1,200 rules cost 1.1 s per round with nothing to do.
#[tokio::test(flavor = "multi_thread")]
async fn a_rule_with_nothing_to_do_is_not_checked_in_every_round() {
    let queue = TestQueue::create().await;
    let hand = Hand::new(queue.client().await).await;
    for n in 0..60 {
        queue.define(&Definition::new(format!("d{n}")).retention(State::Succeeded, DAY)).await.unwrap();
    }
    queue.define(&Definition::new("held").retention(State::Succeeded, DAY)).await.unwrap();
    fill(&hand, "held", 50).await;
    let mut watch = Watch::open(queue.url()).await;
    // A round ends after some seconds, so a slow machine needs several to process all rules once.
    let (moved, reads) = prune_all(&mut watch).await;
    assert_eq!(moved, 50);
    assert!(reads >= 61, "{reads}");
    assert_eq!(prune_all(&mut watch).await, (0, 0));
    // It is processed again, after a twentieth of its period.
    let later =
        "update windlass.keeper_mark set reached = reached - interval '2 hours' where duty like 'prune %'";
    hand.client.batch_execute(later).await.unwrap();
    let (_, reads) = prune_all(&mut watch).await;
    assert!(reads >= 61, "{reads}");
}

/// Prunes until a round reads nothing: how much it deleted, and how often it read history.
async fn prune_all(watch: &mut Watch) -> (i32, usize) {
    let (mut moved, mut reads) = (0, 0);
    watch.plans().await;
    loop {
        moved += watch
            .client
            .query_one("select moved from windlass.prune(500)", &[])
            .await
            .unwrap()
            .get::<_, i32>(0);
        match looks(&watch.plans().await) {
            0 => return (moved, reads),
            more => reads += more,
        }
    }
}

/// If retention is shorter than a partition's day, old and new rows are on the same pages; a check must not read them all.
#[tokio::test(flavor = "multi_thread")]
async fn a_check_reads_due_rows_though_they_share_pages_with_new_ones() {
    let queue = TestQueue::create().await;
    let hand = Hand::new(queue.client().await).await;
    queue.define(&Definition::new("held").retention(State::Succeeded, DAY)).await.unwrap();
    fill(&hand, "held", 20_000).await;
    let mix = "update windlass.history h set finished_at = now() - interval '23 hours' + random() * interval '22 hours' where job_status = 1;
               update windlass.history h set finished_at = now() - interval '25 hours'
                where (tenant_id, job_id) in (select tenant_id, job_id from windlass.history where job_status = 1 order by random() limit 100)";
    hand.client.batch_execute(mix).await.unwrap();
    let mut watch = Watch::open(queue.url()).await;
    let moved: i32 =
        watch.client.query_one("select moved from windlass.prune(500)", &[]).await.unwrap().get(0);
    assert_eq!(moved, 100);
    let plans = watch.plans().await;
    let read: u64 =
        plans.iter().filter(|plan| plan.query.contains("old as materialized")).map(rows_of_history).sum();
    assert!(read <= 400, "for 100 rows, {read} were read");
}
