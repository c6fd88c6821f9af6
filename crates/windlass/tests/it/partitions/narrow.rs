//! Partitions are narrower while many jobs are enqueued.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio_postgres::Client;
use windlass::job::State;
use windlass::{DEFAULT_TENANT, Definition, NewJob};
use windlass_testing::TestQueue;

use crate::retention::retire::{aged, assert_is_over, step, until_step};
use crate::support::{assert_counts_are_exact, count};

async fn width(client: &Client, per_second: f64, keep: Duration) -> f64 {
    let rate = "update windlass.partition_rate set at = clock_timestamp(), jobs = 0, per_second = $1";
    client.execute(rate, &[&per_second]).await.unwrap();
    let rule = "update windlass.job_definitions set retention = jsonb_build_object('succeeded', $1::bigint)";
    client.execute(rule, &[&i64::try_from(keep.as_secs()).unwrap()]).await.unwrap();
    let width = "select extract(epoch from windlass.partition_width())::float8";
    client.query_one(width, &[]).await.unwrap().get(0)
}

#[tokio::test]
async fn the_width_follows_from_the_rate_and_the_shortest_rule() {
    const MINUTE: u64 = 60;
    const HOUR: u64 = 60 * MINUTE;
    const DAY: u64 = 24 * HOUR;
    let queue = TestQueue::create().await;
    queue.define(&Definition::new("a")).await.unwrap();
    let client = queue.client().await;
    for (per_second, keep, expected) in [
        (0.0, 10 * MINUTE, DAY), // few jobs are deleted one by one
        (1.0, 10 * MINUTE, DAY),
        (10.0, 30 * DAY, DAY),  // 864,000 jobs a day
        (10.0, 2 * HOUR, HOUR), // not wider than the rule
        (100.0, 30 * DAY, 6 * HOUR),
        (1_000.0, 7 * DAY, HOUR),
        (20_000.0, 7 * DAY, HOUR), // not narrower than a two hundredth of the rule
        (20_000.0, 30 * DAY, 6 * HOUR),
        (20_000.0, DAY, 10 * MINUTE),
        (20_000.0, HOUR, MINUTE),
        (20_000.0, 10, MINUTE),
    ] {
        let found = width(&client, per_second, Duration::from_secs(keep)).await;
        assert!((found - expected as f64).abs() < 0.1, "{per_second}/s kept for {keep} s: {found} s");
    }
}

/// Every partition costs planning time, of all tenants.
#[tokio::test]
async fn a_rule_of_one_tenant_does_not_narrow_the_partitions_of_all() {
    let queue = TestQueue::create().await;
    queue.define(&Definition::new("a")).await.unwrap();
    let client = queue.client().await;
    let acme = queue.tenant("acme").await;
    let none = Some(Duration::ZERO);
    queue.set_retention(acme, None, State::Succeeded, none, "tester").await.unwrap();
    let found = width(&client, 20_000.0, Duration::from_secs(30 * 86_400)).await;
    assert!((found - 21_600.0).abs() < 0.1, "{found} s");
}

/// The jobs that were enqueued since the last measurement.
#[tokio::test]
async fn the_rate_is_measured_and_decreases_slowly() {
    let queue = TestQueue::create().await;
    queue.define(&Definition::new("a")).await.unwrap();
    let client = queue.client().await;
    let earlier = async |seconds: i32| {
        let query =
            format!("update windlass.partition_rate set at = clock_timestamp() - interval '{seconds} s'");
        client.batch_execute(&query).await.unwrap();
        let rate: f64 = client.query_one("select windlass.measure_rate()", &[]).await.unwrap().get(0);
        rate
    };
    earlier(100).await;
    let jobs: Vec<NewJob> = (0..1000).map(|_| NewJob::new("a")).collect();
    queue.enqueue_many(&jobs).await.unwrap();
    let busy = earlier(100).await;
    assert!((9.0..=10.0).contains(&busy), "{busy}");
    let quiet = earlier(3600).await;
    assert!((busy * 0.49..=busy * 0.51).contains(&quiet), "{quiet} after {busy}");
}

#[tokio::test(flavor = "multi_thread")]
async fn enqueues_while_a_partition_is_divided_neither_fail_nor_lose_a_job() {
    let queue = Arc::new(TestQueue::create().await);
    queue.define(&Definition::new("a").retention(State::Succeeded, Duration::from_secs(120))).await.unwrap();
    let client = queue.client().await;
    let is_over = Arc::new(AtomicBool::new(false));
    let mut tasks = JoinSet::new();
    for _ in 0..3 {
        let (queue, is_over) = (queue.clone(), is_over.clone());
        tasks.spawn(async move {
            let mut ids = Vec::new();
            while !is_over.load(Ordering::Relaxed) || ids.is_empty() {
                let id = queue.enqueue(&NewJob::new("a")).await.unwrap().id;
                assert!(queue.job(DEFAULT_TENANT, id).await.unwrap().is_some(), "{id} was not found");
                ids.push(id);
            }
            ids.len()
        });
    }
    let busy = "update windlass.partition_rate set at = clock_timestamp(), jobs = 0, per_second = 20000, busy_at = null";
    client.batch_execute(busy).await.unwrap();
    let mut rounds = 0;
    loop {
        client.batch_execute(busy).await.unwrap();
        let made: i32 =
            client.query_one("select made from windlass.maintain_partitions(2)", &[]).await.unwrap().get(0);
        rounds += 1;
        if made > 0 {
            break;
        }
        assert!(rounds < 500, "no partition was divided in {rounds} rounds");
    }
    is_over.store(true, Ordering::Relaxed);
    let enqueued: usize = tasks.join_all().await.into_iter().sum();
    let found = count(&client, "select count(*) from windlass.job").await;
    assert_eq!(usize::try_from(found).unwrap(), enqueued);
    let defaults = "select count(*) from windlass.job_default";
    assert_eq!(count(&client, defaults).await, 0);
    let minutes = "select count(*) from windlass.partition_ranges() r
        where windlass.uuid7_instant(r.high) - windlass.uuid7_instant(r.low) = interval '1 minute'";
    let minutes = count(&client, minutes).await;
    assert!(
        (1..=4).contains(&minutes),
        "{minutes}; the first one starts at midnight, the last one is the rest of the day"
    );
    let gaps = "select count(*) from windlass.partitions() b
        where not exists (select from windlass.partition_bounds(b.parent) n where n.low = b.high)";
    assert_eq!(count(&client, gaps).await, 4, "only the last of each table has none after it");
    assert_eq!(count(&client, "select count(*) from windlass.partition_problems()").await, 0);
    assert_counts_are_exact(&client).await;

    // Enough for a while: the parents are not locked again.
    client.batch_execute(busy).await.unwrap();
    let made: i32 =
        client.query_one("select made from windlass.maintain_partitions(2)", &[]).await.unwrap().get(0);
    assert_eq!(made, 0);
}

/// Every partition costs planning time, and narrow ones have few jobs when most of theirs are deleted.
#[tokio::test(flavor = "multi_thread")]
async fn old_narrow_partitions_are_merged_when_there_are_many() {
    let (queue, hand) = aged().await;
    let client = &hand.client;
    // Hours until six o'clock, and the rest of the day.
    let divide = "set role windlass_owner;
        select windlass.split_partition(r.low, r.high, array(
            select windlass.uuid7_instant(r.low) + h * interval '1 hour' from generate_series(1, 6) h))
          from windlass.partition_ranges() r where r.high < windlass.uuid7_floor(now() - interval '2 days');
        reset role";
    client.batch_execute(divide).await.unwrap();
    let ranges = "select count(*) from windlass.partition_ranges()";
    assert_eq!(count(client, ranges).await, 10);
    let early = "select (left(r.low::text, 14) || '7' || right(gen_random_uuid()::text, 21))::uuid from windlass.partition_ranges() r
        where r.high < windlass.uuid7_floor(now() - interval '2 days') order by r.low";
    let mut ids = Vec::new();
    for row in client.query(early, &[]).await.unwrap() {
        ids.push(hand.enqueue(&format!("'held', job_id => '{}'", row.get::<_, uuid::Uuid>(0))).await);
    }
    assert_eq!(step(client).await, "none", "there are not many");

    let many = "set role windlass_owner;
        create or replace function windlass.many_partitions() returns integer language sql immutable parallel safe return 5;
        reset role";
    client.batch_execute(many).await.unwrap();
    until_step(client, "dropped").await;
    assert_eq!(count(client, ranges).await, 5, "six hours are one partition now");
    assert_eq!(step(client).await, "none");
    assert_eq!(count(client, "select count(*) from windlass.job_default").await, 0);
    for id in ids {
        assert!(queue.job(DEFAULT_TENANT, id).await.unwrap().is_some());
    }
    assert_is_over(client).await;
}
