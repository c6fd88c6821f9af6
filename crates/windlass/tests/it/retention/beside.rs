//! Pruning beside other transactions and other tenants: none of them stops it, and it deletes only what is past its retention.

use serde_json::json;
use windlass::job::State;
use windlass::keeper::Duty;
use windlass::{DEFAULT_TENANT, Definition};
use windlass_testing::{TestQueue, eventually, until_a_session_waits};

use super::progress::{fill, rows_of_history};
use super::{DAY, ended, prune};
use crate::plans::watch::Watch;
use crate::support::{Hand, assert_counts_are_exact, count, keeper, status};

async fn start(definition: Definition) -> (TestQueue, Hand) {
    let queue = TestQueue::create().await;
    let hand = Hand::new(queue.client().await).await;
    queue.define(&definition).await.unwrap();
    (queue, hand)
}

/// each enqueue of a clean-up job waits for the tenant's quota, which an open enqueue has locked.
#[tokio::test(flavor = "multi_thread")]
async fn an_open_enqueue_under_a_quota_stops_no_retention_of_another_tenant() {
    let rule = Definition::new("held").retention(State::Succeeded, DAY).on_purge("sweep");
    let (queue, hand) = start(rule).await;
    queue.define(&Definition::new("sweep")).await.unwrap();
    let (slow, other) = (queue.tenant("slow").await, queue.tenant("other").await);
    let jobs = 120;
    hand.enqueue_many("held", slow, jobs).await;
    let kept = json!({"outcome": 1, "next": 1, "artifact": {"file": 1}});
    for fence in hand.claim_all().await {
        assert!(hand.settle(&fence, Some(kept.clone())).await);
    }
    hand.client
        .batch_execute("update windlass.history set finished_at = finished_at - interval '2 days'")
        .await
        .unwrap();
    let old = ended(&hand, &format!("'held', tenant_id => '{other}'"), None, 2).await;
    let limit = "update windlass.tenants set max_queued = 1000 where id = $1";
    hand.client.execute(limit, &[&slow]).await.unwrap();
    let open = queue.client().await;
    open.batch_execute(&format!("begin; select windlass.enqueue('held', tenant_id => '{slow}')"))
        .await
        .unwrap();

    // With a wait for each of the jobs, a round takes most of a minute.
    let round = queue.client().await;
    round.batch_execute("set statement_timeout = '15s'").await.unwrap();
    round.batch_execute("select windlass.prune(1000)").await.unwrap();
    assert_eq!(status(&hand.client, old).await, "missing");
    let waiting = "select count(*) from windlass.purge_wait";
    assert_eq!(count(&hand.client, waiting).await, i64::from(jobs), "none of the artifacts is forgotten");

    open.batch_execute("rollback").await.unwrap();
    hand.client.batch_execute("delete from windlass.problem").await.unwrap(); // as after two seconds
    let sweeps = "select count(*) from windlass.jobs where definition_key = 'sweep'";
    eventually("the clean-up jobs are enqueued", async || {
        keeper(&queue).run_once(Duty::Prune).await.unwrap();
        count(&hand.client, sweeps).await == i64::from(jobs)
    })
    .await;
    for fence in hand.claim_all().await {
        assert!(hand.settle(&fence, None).await);
    }
    prune(&queue).await;
    assert_eq!(count(&hand.client, waiting).await, 0);
    assert_eq!(count(&hand.client, "select count(*) from windlass.problem").await, 0);
    assert_counts_are_exact(&hand.client).await;
}

/// a round has found the job and not yet locked it. A trigger of the test stops the round there.
#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_has_ended_again_since_its_rule_found_it_is_kept() {
    let (queue, hand) = start(Definition::new("held").retention(State::Succeeded, DAY)).await;
    let id = ended(&hand, "'held'", None, 2).await;
    let stop = "create function public.stop() returns trigger language plpgsql security definer set lock_timeout = 0 as
          $$ begin perform pg_advisory_xact_lock(7); return new; end $$;
        create trigger stop before insert on windlass.gate for each row when (new.purpose = 'hold') execute function public.stop()";
    hand.client.batch_execute(stop).await.unwrap();
    let holder = queue.client().await;
    holder.batch_execute("begin; select pg_advisory_xact_lock(7)").await.unwrap();
    let pruner = queue.client().await;
    let round = tokio::spawn(async move { pruner.batch_execute("select windlass.prune(1000)").await });
    until_a_session_waits(&hand.client).await;
    assert_eq!(hand.retry(id).await, "queued");
    let fence = hand.claim_one().await;
    assert!(hand.settle(&fence, None).await);
    holder.batch_execute("commit").await.unwrap();
    round.await.unwrap().unwrap();
    assert_eq!(status(&hand.client, id).await, "succeeded", "it has ended just now");
    prune(&queue).await;
    assert_eq!(status(&hand.client, id).await, "succeeded");
    let age = "update windlass.history set finished_at = finished_at - interval '2 days'";
    hand.client.batch_execute(&format!("{age}; delete from windlass.keeper_mark")).await.unwrap();
    prune(&queue).await;
    assert_eq!(status(&hand.client, id).await, "missing");
}

/// a rule of a tenant reads the history of all tenants, and each change of it starts again.
#[tokio::test(flavor = "multi_thread")]
async fn a_rule_reads_a_part_of_the_history_at_a_time_whatever_belongs_to_it() {
    let (queue, hand) = start(Definition::new("held")).await;
    fill(&hand, "held", 40_000).await;
    let tenant = queue.tenant("small").await;
    let old = ended(&hand, &format!("'held', tenant_id => '{tenant}'"), None, 2).await;
    queue.set_retention(tenant, Some("held"), State::Succeeded, Some(DAY), "tester").await.unwrap();
    let mut watch = Watch::open(queue.url()).await;
    let mut most = 0;
    eventually("the tenant's job is deleted", async || {
        watch.plans().await;
        watch.client.execute("select windlass.prune(100)", &[]).await.unwrap();
        most = watch.plans().await.iter().map(rows_of_history).fold(most, u64::max);
        status(&hand.client, old).await == "missing"
    })
    .await;
    assert!(most < 1500, "a statement of a round of 100 jobs read {most} rows");
    let kept = format!("select count(*) from windlass.history where tenant_id = '{DEFAULT_TENANT}'");
    assert_eq!(count(&hand.client, &kept).await, 40_001);
}
