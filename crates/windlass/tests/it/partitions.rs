//! Partitions are created ahead of time, regardless of the contents of the default one.

mod moved;
mod narrow;

use uuid::Uuid;
use windlass::{Definition, NewJob};
use windlass_testing::{Login, TestQueue};

use crate::access::refusal;
use crate::support::count;

/// Days are those of UTC, whatever the session says: two keepers in two zones make one row of partitions without a gap.
#[tokio::test]
async fn partitions_are_bounded_by_days_of_utc_in_every_time_zone() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    for (ahead, zone) in [(3, "America/New_York"), (4, "Asia/Tokyo"), (5, "UTC")] {
        let make = format!("set timezone = '{zone}'; select windlass.maintain_partitions({ahead})");
        client.batch_execute(&make).await.unwrap();
    }
    let gaps = "select count(*) from windlass.partition_bounds('job') b
        where not exists (select from windlass.partition_bounds('job') n where n.low = b.high)";
    assert_eq!(count(&client, gaps).await, 1, "only the last has none after it");
    assert_eq!(count(&client, "select count(*) from windlass.partition_problems()").await, 0);
    assert_eq!(count(&client, "select count(*) from windlass.partition_bounds('history')").await, 6);
}

/// each partition is a cost for every statement of everybody, and is dropped only when its day is over.
#[tokio::test]
async fn partitions_are_created_for_at_most_twelve_days_ahead() {
    let queue = TestQueue::create().await;
    let keeper = Login::create(&queue, "windlass_keeper").await;
    let client = keeper.client().await;
    let (admin, made) = (queue.client().await, "select count(*) from windlass.partition_bounds('job')");
    for days in ["13", "60", "-1", "null"] {
        let make = format!("select windlass.maintain_partitions({days})");
        for client in [&client, &admin] {
            assert_eq!(refusal(client.query(&make, &[]).await), "WL007", "{days}");
        }
    }
    assert_eq!(count(&admin, made).await, 3);
    admin.batch_execute("select windlass.maintain_partitions(12)").await.unwrap();
    assert_eq!(count(&admin, made).await, 13);
    drop(client);
    keeper.drop().await;
}

/// Ids that callers chose accumulate in the default partition. No one waits while it is read: the exclusive lock is held only for
/// steps that do not read it.
#[tokio::test]
async fn a_full_default_partition_is_never_read_under_an_exclusive_lock() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    queue.define(&Definition::new("held")).await.unwrap();
    // None of them is in the range of the day below, whose partition is made.
    let chosen = || Uuid::from_u128(Uuid::new_v4().as_u128() | 1 << 127);
    let ids: Vec<NewJob> = (0..12_000).map(|_| NewJob::new("held").id(chosen())).collect();
    queue.enqueue_many(&ids).await.unwrap();
    let read = "select coalesce(sum(seq_tup_read), 0)::bigint from pg_stat_xact_all_tables where relname = 'job_default'";
    let stops_parent =
        "select count(*) from pg_locks where pid = pg_backend_pid() and mode = 'AccessExclusiveLock'
        and relation = 'windlass.job'::regclass";
    let (mut made, mut steps, mut scans) = (0, 0, 0);
    loop {
        let step = queue.client().await; // a separate session, whose counters start at zero
        step.batch_execute("begin").await.unwrap();
        let row = step
            .query_one("select made, is_unfinished from windlass.maintain_partitions(3)", &[])
            .await
            .unwrap();
        let rows_read = count(&step, read).await;
        assert_eq!(count(&step, stops_parent).await, 0, "the parent is never closed");
        let attaches = row.get::<_, i32>(0) > 0;
        assert!(!(attaches && rows_read > 0), "{rows_read} rows were read to attach a partition");
        step.batch_execute("commit").await.unwrap();
        made += row.get::<_, i32>(0);
        steps += 1;
        scans += i32::from(rows_read > 0);
        if !row.get::<_, bool>(1) {
            break;
        }
    }
    assert_eq!((made, scans), (4, 2), "bodies by a search and a check that read; the others at once");
    // A step that meets a lock, for example of autovacuum, is repeated.
    assert!(steps >= 3, "{steps}");
    assert_eq!(count(&client, "select count(*) from pg_constraint where conname like 'not\\_%'").await, 0);
    assert_eq!(count(&client, "select count(*) from windlass.partition_problems()").await, 0);
}
