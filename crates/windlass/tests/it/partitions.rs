//! Partitions are made ahead of time, whatever lies in the default one.

use jiff::{Timestamp, ToSpan};
use uuid::{NoContext, Uuid};
use windlass::{Definition, NewJob};
use windlass_testing::TestQueue;

#[tokio::test]
async fn a_job_from_a_clock_that_was_ahead_keeps_no_other_week_from_its_partition() {
    let queue = TestQueue::create().await;
    queue.define(&Definition::new("a")).await.unwrap();
    let client = queue.client().await;
    let ahead = Timestamp::now() + (24 * 7 * 5).hours();
    let seconds = u64::try_from(ahead.as_second()).unwrap();
    let id = Uuid::new_v7(uuid::Timestamp::from_unix(NoContext, seconds, 0));
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
