//! Partitions are made ahead of time, whatever lies in the default one.

use jiff::{Timestamp, ToSpan};
use uuid::{NoContext, Uuid};
use windlass::{Definition, NewJob};
use windlass_testing::TestQueue;

use crate::support::count;

#[tokio::test]
async fn a_job_of_a_week_ahead_keeps_no_other_week_from_its_partition() {
    let queue = TestQueue::create().await;
    queue.define(&Definition::new("a")).await.unwrap();
    let client = queue.client().await;
    let ahead = Timestamp::now() + (24 * 7 * 5).hours();
    let seconds = u64::try_from(ahead.as_second()).unwrap();
    let id = Uuid::new_v7(uuid::Timestamp::from_unix(NoContext, seconds, 0));
    let id = uuid::Builder::from_bytes(id.into_bytes()).with_version(uuid::Version::Random).into_uuid();
    queue.enqueue(&NewJob::new("a").id(id)).await.unwrap();

    // Three of the nine weeks are there since the migration; one cannot be made for the bodies.
    let made: i32 =
        client.query_one("select made from windlass.maintain_partitions(8)", &[]).await.unwrap().get(0);
    assert_eq!(made, 6 + 5);
    let again: i32 =
        client.query_one("select made from windlass.maintain_partitions(8)", &[]).await.unwrap().get(0);
    assert_eq!(again, 0);
    assert!(queue.job(windlass::DEFAULT_TENANT, id).await.unwrap().is_some());
}

/// Weeks are those of UTC, whatever the session says: two keepers in two zones make one row of partitions without a gap.
#[tokio::test]
async fn partitions_are_bounded_by_weeks_of_utc_in_every_time_zone() {
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

/// Ids that callers chose pile up in the default partition. Nobody waits while it is read: the lock that stops everybody is held
/// only for steps that read nothing of it.
#[tokio::test]
async fn a_full_default_partition_is_never_read_under_a_lock_that_stops_everybody() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    queue.define(&Definition::new("held")).await.unwrap();
    let ids: Vec<NewJob> = (0..12_000).map(|_| NewJob::new("held").id(Uuid::new_v4())).collect();
    queue.enqueue_many(&ids).await.unwrap();
    let read = "select coalesce(sum(seq_tup_read), 0)::bigint from pg_stat_xact_all_tables where relname = 'job_default'";
    let stops_parent =
        "select count(*) from pg_locks where pid = pg_backend_pid() and mode = 'AccessExclusiveLock'
        and relation = 'windlass.job'::regclass";
    let (mut made, mut steps, mut scans) = (0, 0, 0);
    loop {
        let step = queue.client().await; // a session of its own, whose counters begin at nothing
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
    assert_eq!((made, scans), (2, 2), "bodies by a look and a check that read; history at once");
    // A step that meets a lock, of autovacuum for one, is done again.
    assert!(steps >= 3, "{steps}");
    assert_eq!(count(&client, "select count(*) from pg_constraint where conname like 'not\\_%'").await, 0);
    assert_eq!(count(&client, "select count(*) from windlass.partition_problems()").await, 0);
}
