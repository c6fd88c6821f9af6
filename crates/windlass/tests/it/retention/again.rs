//! Requests to read a tenant's history again: each is stored once, and an open transaction with one of them blocks no retention.

use tokio::task::JoinSet;
use uuid::Uuid;
use windlass::job::State;
use windlass::retention::HoldOn;
use windlass::{DEFAULT_TENANT, Definition, Error, Queue};
use windlass_testing::{TestQueue, until_a_session_waits};

use super::{DAY, ended, prune, statuses};
use crate::support::{Hand, count, keeper};

const AGAIN: &str = "select count(*) from windlass.prune_again";
const MAX_HOLDS: i64 = 1000;

async fn keep_for(queue: &Queue, tenant: Uuid, days: u32) {
    queue.set_retention(tenant, Some("held"), State::Succeeded, Some(DAY * days), "tester").await.unwrap();
}

/// Every row is read for every definition and status, in each round of pruning.
#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_that_changes_its_rules_many_times_leaves_one_row_for_each() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    queue.define(&Definition::new("held")).await.unwrap();
    let tenant = queue.tenant("loud").await;
    for round in 0..10 {
        keep_for(&queue, tenant, 7 + round % 2).await;
        let hold = queue.hold(tenant, &HoldOn::Tenant, "case 12", "counsel").await.unwrap();
        queue.release(tenant, hold, "counsel").await.unwrap();
    }
    assert_eq!(count(&client, AGAIN).await, 2, "one of the rule, and one of the holds");
    prune(&queue).await;
    assert_eq!(count(&client, AGAIN).await, 0);
    keep_for(&queue, tenant, 8).await;
    assert_eq!(count(&client, AGAIN).await, 0, "the rule is unchanged");
    keep_for(&queue, tenant, 9).await;
    assert_eq!(count(&client, AGAIN).await, 1);
}

/// A request that arrives while an earlier one is processed is not lost with it.
#[tokio::test(flavor = "multi_thread")]
async fn a_rule_that_changes_during_a_round_is_applied_by_the_next_one() {
    let queue = TestQueue::create().await;
    let hand = Hand::new(queue.client().await).await;
    queue.define(&Definition::new("held")).await.unwrap();
    let job = ended(&hand, "'held'", None, 5).await;
    keep_for(&queue, DEFAULT_TENANT, 9).await;
    let round = queue.client().await;
    round.batch_execute("begin; select windlass.prune(100)").await.unwrap();
    let other = queue.queue().clone();
    let changing = tokio::spawn(async move { keep_for(&other, DEFAULT_TENANT, 3).await });
    until_a_session_waits(&hand.client).await;
    round.batch_execute("commit").await.unwrap();
    changing.await.unwrap();
    prune(&queue).await;
    assert_eq!(statuses(&hand, &[job]).await, ["missing"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_open_change_of_a_rule_blocks_no_retention() {
    let queue = TestQueue::create().await;
    let hand = Hand::new(queue.client().await).await;
    queue.define(&Definition::new("held").retention(State::Succeeded, DAY)).await.unwrap();
    let loud = queue.tenant("loud").await;
    keep_for(&queue, loud, 7).await;
    let job = ended(&hand, "'held'", None, 5).await;
    let open = queue.client().await;
    let change = format!("begin; select windlass.set_retention('{loud}', 'held', 'succeeded', 86400, false)");
    open.batch_execute(&change).await.unwrap();
    keeper(&queue).run_once(windlass::keeper::Duty::Prune).await.unwrap();
    assert_eq!(statuses(&hand, &[job]).await, ["missing"]);
    open.batch_execute("commit").await.unwrap();
    prune(&queue).await;
    assert_eq!(count(&hand.client, AGAIN).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_has_at_most_a_thousand_legal_holds() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    let (loud, other) = (queue.tenant("loud").await, queue.tenant("other").await);
    let fill = "insert into windlass.legal_hold (tenant_id, subject_type, subject_id, reason, created_by)
        select $1, 'user', n::text, 'case 12', 'counsel' from generate_series(1, $2::bigint) n";
    client.execute(fill, &[&loud, &(MAX_HOLDS - 2)]).await.unwrap();
    let mut tasks = JoinSet::new();
    for _ in 0..6 {
        let queue = queue.queue().clone();
        tasks.spawn(async move { queue.hold(loud, &HoldOn::Tenant, "case 12", "counsel").await });
    }
    let refused: Vec<String> =
        tasks.join_all().await.into_iter().filter_map(|placed| placed.err().map(words)).collect();
    assert_eq!(refused, vec!["the tenant has 1000 legal holds; release some first"; 4]);
    let held = format!("select count(*) from windlass.legal_hold where tenant_id = '{loud}'");
    assert_eq!(count(&client, &held).await, MAX_HOLDS);
    queue.hold(other, &HoldOn::Tenant, "case 12", "counsel").await.unwrap();
}

fn words(refused: Error) -> String {
    match refused {
        Error::Refused { message, .. } => message,
        other => panic!("{other:?}"),
    }
}
