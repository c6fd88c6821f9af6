//! Batches of a tenant with a quota.

use serde_json::json;
use windlass_testing::{TestQueue, eventually};

use super::limited;
use crate::support::count;

const MANY: &str = "select count(*) from windlass.enqueue_many('a', $1, $2, each => $3)";

/// Both lock the keys first and the tenant's row after them.
#[tokio::test(flavor = "multi_thread")]
async fn a_batch_and_a_single_job_with_keys_do_not_deadlock() {
    let queue = TestQueue::create().await;
    let tenant = limited(&queue, 50).await;
    let (holder, batch, single, client) =
        (queue.client().await, queue.client().await, queue.client().await, queue.client().await);
    let first = "select windlass.enqueue('a', tenant_id => $1)"; // creates the lane
    client.execute(first, &[&tenant]).await.unwrap();
    let hold = format!("begin; select from windlass.tenants where id = '{tenant}' for update");
    holder.batch_execute(&hold).await.unwrap();
    let waits = "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()";
    let batch = tokio::spawn(async move {
        let each = vec![json!({"dedupe_key": "k1"}), json!({"dedupe_key": "k2"})];
        batch.query_one(MANY, &[&vec![json!({}); 2], &tenant, &each]).await.map(|row| row.get::<_, i64>(0))
    });
    eventually("the batch waits", async || count(&client, waits).await == 1).await;
    let single = tokio::spawn(async move {
        let one = "select is_duplicate from windlass.enqueue('a', tenant_id => $1, dedupe_key => 'k2')";
        single.query_one(one, &[&tenant]).await.map(|row| row.get::<_, bool>(0))
    });
    eventually("the single job waits too", async || count(&client, waits).await == 2).await;
    holder.batch_execute("commit").await.unwrap();
    assert_eq!(batch.await.unwrap().unwrap(), 2);
    assert!(single.await.unwrap().unwrap(), "the batch has the key");
}

/// Its counters are not summed again for each job.
#[tokio::test(flavor = "multi_thread")]
async fn the_cost_of_a_batch_is_linear_in_its_jobs() {
    let queue = TestQueue::create().await;
    let tenant = limited(&queue, 10_000).await;
    let client = queue.client().await;
    client.batch_execute("begin").await.unwrap();
    let each: Vec<_> = (0..500).map(|n| json!({"dedupe_key": n.to_string()})).collect();
    client.query_one(MANY, &[&vec![json!({}); 500], &tenant, &each]).await.unwrap();
    let read = "select seq_tup_read + idx_tup_fetch from pg_stat_xact_user_tables where relname = 'tally'";
    let read: i64 = client.query_one(read, &[]).await.unwrap().get(0);
    client.batch_execute("commit").await.unwrap();
    assert!(read <= 5000, "{read} counters were read for 500 jobs");
}

/// Everything or nothing, and the error is the same as that of a single job.
#[tokio::test]
async fn a_batch_over_quota_is_rejected_as_a_whole() {
    let queue = TestQueue::create().await;
    let tenant = limited(&queue, 2).await;
    let client = queue.client().await;
    let enqueue = async |jobs: usize| {
        let each: Option<Vec<serde_json::Value>> = None;
        client.query_one(MANY, &[&vec![json!({}); jobs], &tenant, &each]).await
    };
    let refused = enqueue(3).await.unwrap_err();
    assert_eq!(refused.code().map(|code| code.code().to_owned()).as_deref(), Some("WL010"));
    assert_eq!(super::unended(&queue, tenant).await, 0);
    enqueue(2).await.unwrap();
}

/// The counters of other tenants are not summed with it.
#[tokio::test]
async fn a_quota_reads_the_counters_of_its_own_tenant_only() {
    let queue = TestQueue::create().await;
    let tenant = limited(&queue, 1).await;
    let client = queue.client().await;
    let others = "insert into windlass.tally (tenant_id, lane, queued) select gen_random_uuid(), n, 1 from generate_series(1, 5000) n; analyze";
    client.batch_execute(others).await.unwrap();
    let one = "select windlass.enqueue('a', tenant_id => $1)";
    client.execute(one, &[&tenant]).await.unwrap();
    client.batch_execute("begin; savepoint before").await.unwrap();
    client.execute(one, &[&tenant]).await.unwrap_err();
    client.batch_execute("rollback to before").await.unwrap();
    let read = "select seq_tup_read + idx_tup_fetch from pg_stat_xact_user_tables where relname = 'tally'";
    let read: i64 = client.query_one(read, &[]).await.unwrap().get(0);
    client.batch_execute("commit").await.unwrap();
    assert!(read < 100, "{read} counters were read for one tenant's two");
}

/// Places that were free at the last count are used without a new one; a changed limit applies at once.
#[tokio::test]
async fn a_lowered_limit_applies_from_the_next_job() {
    let queue = TestQueue::create().await;
    let tenant = limited(&queue, 50).await;
    let client = queue.client().await;
    let one = "select windlass.enqueue('a', tenant_id => $1)";
    for _ in 0..5 {
        client.execute(one, &[&tenant]).await.unwrap();
    }
    let change = "select windlass.change_tenant($1, $2)";
    client.execute(change, &[&tenant, &json!({"max_queued": 5})]).await.unwrap();
    client.execute(one, &[&tenant]).await.unwrap_err();
    client.execute(change, &[&tenant, &json!({"max_queued": 6})]).await.unwrap();
    client.execute(one, &[&tenant]).await.unwrap();
    client.execute(one, &[&tenant]).await.unwrap_err();
    assert_eq!(super::unended(&queue, tenant).await, 6);
}
