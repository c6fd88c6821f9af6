//! Costs that must not grow with the activity of others, proved by counted work: buffers, rows and notifications, never time.

use std::future::poll_fn;

use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_postgres::{AsyncMessage, Client, NoTls};
use uuid::Uuid;
use windlass::{DEFAULT_TENANT, Definition, NewJob};
use windlass_testing::TestQueue;

use crate::plans::watch::Watch;
use crate::support::{Hand, count};

/// The pages that a plain enqueue reads, including those of the statements inside the function.
async fn pages_of_an_enqueue(client: &Client, lane: i32) -> i64 {
    let explain = format!(
        "explain (analyze, buffers, timing off, format json)
         select windlass.enqueue_routed('{DEFAULT_TENANT}', windlass.uuid7(), {lane}, 3::smallint, '{{}}', null)"
    );
    let plan: Value = client.query_one(&explain, &[]).await.unwrap().get(0);
    let pages = |name: &str| plan[0]["Plan"][name].as_i64().unwrap();
    pages("Shared Hit Blocks") + pages("Shared Read Blocks")
}

/// Each worker that started to wait left a dead row, and every enqueue read all of them while an old transaction kept them.
#[tokio::test]
async fn an_enqueue_under_an_old_transaction_reads_a_constant_amount() {
    let queue = TestQueue::create().await;
    queue.define(&Definition::new("a")).await.unwrap();
    let hand = Hand::new(queue.client().await).await;
    let route = "select lane from windlass.route_of(null, 'a', null, null)";
    let lane: i32 = hand.client.query_one(route, &[]).await.unwrap().get(0);
    let old = queue.client().await;
    old.batch_execute("begin isolation level repeatable read; select count(*) from windlass.tenants")
        .await
        .unwrap();
    for _ in 0..3 {
        pages_of_an_enqueue(&hand.client, lane).await; // plans and catalogs are cached
    }
    let before = pages_of_an_enqueue(&hand.client, lane).await;
    let waits = format!(
        "do $$ begin
           for n in 1..4000 loop
             perform windlass.set_waiting({worker}, true); commit;
             perform windlass.set_waiting({worker}, false); commit;
           end loop;
         end $$",
        worker = hand.worker
    );
    hand.client.batch_execute(&waits).await.unwrap();
    pages_of_an_enqueue(&hand.client, lane).await;
    let after = pages_of_an_enqueue(&hand.client, lane).await;
    assert!(after <= before + 4, "{before} pages before, {after} after 4,000 waits");
    old.batch_execute("commit").await.unwrap();
}

/// The flag that enqueuers read is set exactly while a worker waits, and a worker that ended leaves none.
#[tokio::test]
async fn enqueuers_notify_exactly_while_a_worker_waits() {
    let queue = TestQueue::create().await;
    let (one, two) = (Hand::new(queue.client().await).await, Hand::new(queue.client().await).await);
    let flag = async || count(&one.client, "select last_value from windlass.workers_wait").await;
    let waits = async |hand: &Hand, is_waiting: bool| {
        hand.client
            .execute("select windlass.set_waiting($1, $2)", &[&hand.worker, &is_waiting])
            .await
            .unwrap();
    };
    assert_eq!(flag().await, 0);
    waits(&one, true).await;
    waits(&two, true).await;
    assert_eq!(flag().await, 1);
    waits(&one, false).await;
    assert_eq!(flag().await, 1, "the other one waits");
    two.client.execute("select windlass.stop_worker($1)", &[&two.worker]).await.unwrap();
    assert_eq!(flag().await, 0);
    two.client.execute("select * from windlass.lost_jobs(10)", &[]).await.unwrap();
    waits(&two, true).await;
    assert_eq!(flag().await, 0, "a closed worker does not wait");
    waits(&one, true).await;
    one.miss_heartbeats().await;
    one.client.execute("select * from windlass.lost_jobs(10)", &[]).await.unwrap();
    assert_eq!(flag().await, 0, "the keeper clears the flag of a stale worker");
}

/// It cost lanes of the definition times rows of the counters: 171 ms per claim.
#[tokio::test]
async fn a_claim_under_a_limit_counts_only_its_running_jobs() {
    let queue = TestQueue::create().await;
    let hand = Hand::new(queue.client().await).await;
    hand.define(json!({"key": "limited", "max_running": 3})).await;
    hand.define(json!({"key": "free"})).await;
    let many = "with t as (insert into windlass.tenants (slug, name) select 't' || n, 'T' from generate_series(1, 300) n returning id)
                select count(windlass.enqueue(k, tenant_id => t.id)) from t, unnest(array['limited', 'free']) k";
    hand.client.execute(many, &[]).await.unwrap();
    let mut watch = Watch::open(queue.url()).await;
    let claim = "select c.job_id from
        (select array_agg(n.id) as lanes, array_agg(0::bigint) as seqs, array_agg(1) as counts
           from windlass.lane n join windlass.job_definitions d on d.id = n.definition_id where d.key = $3) l,
        windlass.claim($1, $2, l.lanes, l.seqs, l.counts) c";
    let token = Uuid::new_v4();
    assert_eq!(watch.client.query(claim, &[&hand.worker, &token, &"free"]).await.unwrap().len(), 300);
    assert_eq!(watch.client.query(claim, &[&hand.worker, &token, &"limited"]).await.unwrap().len(), 3);
    watch.plans().await;
    assert!(watch.client.query(claim, &[&hand.worker, &token, &"limited"]).await.unwrap().is_empty());
    let plans = watch.plans().await;
    let read = |table: &str| plans.iter().map(|plan| plan.rows_read(table)).sum::<u64>();
    assert_eq!((read("tally"), read("total")), (0, 0), "counters are not read");
    assert_eq!(read("live"), 3, "of 303 running jobs those under the limit are");
}

/// Jobs that ran before the limit was set take its places too.
#[tokio::test]
async fn a_limit_that_is_set_while_jobs_run_counts_them() {
    let queue = TestQueue::create().await;
    let hand = Hand::new(queue.client().await).await;
    hand.define(json!({"key": "a"})).await;
    for _ in 0..2 {
        hand.enqueue("'a'").await;
    }
    let running = hand.claim_all().await;
    hand.define(json!({"key": "a", "max_running": 2})).await;
    hand.enqueue("'a'").await;
    assert!(hand.claim_all().await.is_empty(), "two run already");
    assert!(hand.settle(&running[0], None).await);
    assert_eq!(hand.claim_all().await.len(), 1);
}

/// The notifications from now on.
pub(crate) async fn listen(url: &str) -> (Client, mpsc::UnboundedReceiver<String>) {
    let (client, mut connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    let (sender, notifications) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
            if let AsyncMessage::Notification(notified) = message {
                let _ = sender.send(notified.payload().to_owned());
            }
        }
    });
    client.batch_execute("listen windlass").await.unwrap();
    (client, notifications)
}

/// Once any limit existed, every end of any job made every worker check every lane.
#[tokio::test]
async fn an_ended_job_notifies_only_if_a_limit_was_reached() {
    let queue = TestQueue::create().await;
    let hand = Hand::new(queue.client().await).await;
    hand.define(json!({"key": "free"})).await;
    hand.define(json!({"key": "ample", "max_running": 1000})).await;
    hand.define(json!({"key": "tight", "max_running": 1})).await;
    let small = queue.tenant("small").await;
    let limit = "update windlass.tenants set max_running = 1 where id = $1";
    hand.client.execute(limit, &[&small]).await.unwrap();
    hand.client.execute("select windlass.set_waiting($1, true)", &[&hand.worker]).await.unwrap();
    let (listener, mut notifications) = listen(queue.url()).await;
    for arguments in ["'free'", "'ample'", "'tight'", &format!("'free', tenant_id => '{small}'")] {
        hand.enqueue(arguments).await;
        let fence = hand.claim_one().await;
        assert!(hand.settle(&fence, None).await);
    }
    listener.batch_execute("notify windlass, 'over'").await.unwrap();
    let mut notified = Vec::new();
    loop {
        match notifications.recv().await.unwrap() {
            over if over == "over" => break,
            lane if lane.parse::<i32>().is_ok() => {} // an enqueue
            other => notified.push(other),
        }
    }
    let numbers =
        "select g.number from windlass.gate g left join windlass.job_definitions d on d.id = g.of_id
        where g.purpose = 'running' and (d.key = 'tight' or g.of_id = $1) order by d.key is null";
    let rows = hand.client.query(numbers, &[&small]).await.unwrap();
    let expected: Vec<String> = rows.iter().map(|row| format!("limit {}", row.get::<_, i32>(0))).collect();
    assert_eq!(notified, expected);
    assert_eq!(notified.len(), 2);
}

/// A quota applies on the fast path as well, for a caller that cached the lane before there was one.
#[tokio::test]
async fn a_new_quota_applies_at_once_to_cached_lanes() {
    let queue = TestQueue::create().await;
    queue.define(&Definition::new("a")).await.unwrap();
    let tenant = queue.tenant("known").await;
    let new = NewJob::new("a").tenant(tenant);
    queue.enqueue(&new).await.unwrap();
    let client = queue.client().await;
    let limit = "select windlass.change_tenant($1, '{\"max_queued\": 2}')";
    client.execute(limit, &[&tenant]).await.unwrap();
    queue.enqueue(&new).await.unwrap();
    let refused = queue.enqueue(&new).await;
    assert!(matches!(refused, Err(windlass::Error::QuotaReached { .. })), "{refused:?}");
    let refused = queue.enqueue_many(&[new.clone(), new.clone()]).await;
    assert!(matches!(refused, Err(windlass::Error::QuotaReached { .. })), "{refused:?}");
}

/// The number of index reads in the open transaction.
async fn index_scans(client: &Client, tables: &str) -> i64 {
    let query = format!(
        "select coalesce(sum(idx_scan), 0)::bigint from pg_stat_xact_user_tables where schemaname = 'windlass' and relname like '{tables}'"
    );
    count(client, &query).await
}

/// A tenant whose share was not full has no more, and is not queried again.
#[tokio::test]
async fn pruning_events_queries_each_tenant_with_few_events_once() {
    const TENANTS: i64 = 50;
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    let tenants = format!(
        "insert into windlass.tenants (slug, name) select 't' || n, 't' from generate_series(1, {TENANTS}) n"
    );
    client.batch_execute(&tenants).await.unwrap();
    client.batch_execute("begin").await.unwrap();
    client.execute("select windlass.prune_events(1000)", &[]).await.unwrap();
    let scans = index_scans(&client, "event").await;
    client.batch_execute("commit").await.unwrap();
    assert!(scans <= TENANTS + 5, "{scans} index reads for {TENANTS} tenants");
}

/// A round reads a bounded number of the jobs that wait for their clean-up, and the next one reads others.
#[tokio::test]
async fn a_round_of_clean_ups_reads_a_bounded_number() {
    const WAITING: i64 = 2000;
    let queue = TestQueue::create().await;
    let hand = Hand::new(queue.client().await).await;
    hand.define(json!({"key": "held"})).await;
    let cleanup = hand.enqueue("'held'").await;
    let wait = format!(
        "insert into windlass.purge_wait (tenant_id, job_id, cleanup_job_id)
         select '{DEFAULT_TENANT}', gen_random_uuid(), '{cleanup}' from generate_series(1, {WAITING})"
    );
    hand.client.batch_execute(&wait).await.unwrap();
    hand.client.batch_execute("set enable_seqscan = off; begin").await.unwrap();
    hand.client.execute("select windlass.finish_clean_ups(10)", &[]).await.unwrap();
    let scans = index_scans(&hand.client, "%").await;
    hand.client.batch_execute("commit").await.unwrap();
    assert!(scans < WAITING, "{scans} index reads for a round of 10");
}

/// The plans of the sampler avoid whole scans, and the counters can only be scanned whole. At such a cost the planner saw no difference
/// between its joins, and compared every counter with every lane: a minute for 10,000 tenants.
#[tokio::test]
async fn sampling_the_activity_of_many_tenants_compares_no_counter_with_other_lanes() {
    let queue = TestQueue::create().await;
    queue.define(&Definition::new("a")).await.unwrap();
    let fill = "insert into windlass.tenants (slug, name) select 't' || n, 'Tenant ' || n from generate_series(1, 1000) n;
                select windlass.enqueue('a', tenant_id => t.id) from windlass.tenants t where t.slug like 't%';
                analyze windlass.lane, windlass.tally, windlass.total";
    queue.client().await.batch_execute(fill).await.unwrap();
    let mut watch = Watch::open(queue.url()).await;
    let sample = "select windlass.sample_activity(1)";
    let written: i32 = watch.client.query_one(sample, &[]).await.unwrap().get(0);
    assert!(written >= 1000, "{written} rows");
    let plans = watch.plans().await;
    assert!(plans.iter().any(|plan| plan.rows_read("lane") >= 1000), "the lanes of all counters: {plans:#?}");
    let compared = |node: &&Value| {
        let number = |name: &str| node[name].as_f64().unwrap_or_default();
        number("Rows Removed by Join Filter") * number("Actual Loops")
    };
    let compared: f64 = plans.iter().flat_map(|plan| plan.nodes()).map(|node| compared(&node)).sum();
    assert!(compared < 1000.0, "{compared} pairs: {plans:#?}");
}
