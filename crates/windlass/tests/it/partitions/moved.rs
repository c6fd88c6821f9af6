//! Ids that callers choose can be in the range of any day. Whoever enqueues one must not keep that day's partition from being created.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use jiff::{Timestamp, ToSpan};
use tokio::task::JoinSet;
use tokio_postgres::Client;
use uuid::{NoContext, Uuid};
use windlass::{DEFAULT_TENANT, Definition, NewJob};
use windlass_testing::{Login, TestQueue};

use crate::support::{Hand, count};

/// An id of version 4 in the range of a day to come. Ids of version 7 are refused there; others carry no time.
fn ahead(days: i64) -> Uuid {
    let then = Timestamp::now() + (24 * days).hours();
    let seconds = u64::try_from(then.as_second()).unwrap();
    let id = Uuid::new_v7(uuid::Timestamp::from_unix(NoContext, seconds, 0));
    uuid::Builder::from_bytes(id.into_bytes()).with_version(uuid::Version::Random).into_uuid()
}

/// Rounds of the duty, as the keeper does them, until nothing is left to do. Returns how many partitions were created.
async fn maintain(client: &Client, days: i32) -> i32 {
    let mut made = 0;
    for _ in 0..100 {
        let round = "select made, is_unfinished from windlass.maintain_partitions($1)";
        let row = client.query_one(round, &[&days]).await.unwrap();
        made += row.get::<_, i32>(0);
        if !row.get::<_, bool>(1) {
            return made;
        }
    }
    panic!("the partitions are not finished after a hundred rounds");
}

async fn partition_of(client: &Client, id: Uuid) -> String {
    let query = "select tableoid::regclass::text from windlass.job where id = $1";
    client.query_one(query, &[&id]).await.unwrap().get(0)
}

#[tokio::test]
async fn an_applications_job_of_a_day_ahead_keeps_no_day_from_its_partition() {
    let queue = TestQueue::create().await;
    queue.define(&Definition::new("a")).await.unwrap();
    let client = queue.client().await;
    let app = Login::create(&queue, "windlass_app").await;
    let (queued, ended) = (ahead(5), ahead(5));
    for id in [queued, ended] {
        app.client().await.query("select windlass.enqueue('a', job_id => $1)", &[&id]).await.unwrap();
    }
    Hand::new(queue.client().await).await.cancel(ended).await;

    // Three of the nine days are there since the migration.
    assert_eq!(maintain(&client, 8).await, 4 * 6);
    assert_eq!(count(&client, "select count(*) from windlass.job_default").await, 0);
    assert_eq!(count(&client, "select count(*) from windlass.history_default").await, 0);
    for (id, status) in [(queued, "queued"), (ended, "canceled")] {
        assert!(!partition_of(&client, id).await.contains("default"), "{status}");
        assert_eq!(queue.job(DEFAULT_TENANT, id).await.unwrap().unwrap().status.as_str(), status);
    }
    let problems = "select count(*) from windlass.problems() where duty = 'partition'";
    assert_eq!(count(&client, problems).await, 0);
    app.drop().await;
}

/// The constraint that proves what the default partition holds is checked without a lock that stops anybody; see `make_partition`.
#[tokio::test]
async fn a_job_of_a_day_ahead_is_moved_out_of_a_large_default_partition() {
    let queue = TestQueue::create().await;
    queue.define(&Definition::new("a")).await.unwrap();
    let client = queue.client().await;
    let first = queue.enqueue(&NewJob::new("a").id(ahead(3))).await.unwrap().id;
    let fill = "insert into windlass.job (tenant_id, id, created_at, lane, source, max_attempts, payload)
        select b.tenant_id, gen_random_uuid(), now(), b.lane, 1, 3, to_json(repeat('x', 1500))
          from windlass.job b, generate_series(1, 6000)";
    client.batch_execute(fill).await.unwrap();
    assert_eq!(maintain(&client, 3).await, 4);
    assert!(!partition_of(&client, first).await.contains("default"));
    assert_eq!(count(&client, "select count(*) from pg_constraint where conname like 'not\\_%'").await, 0);
}

/// 16 MB are not moved while the tables are locked.
#[tokio::test]
async fn large_jobs_of_a_day_ahead_keep_no_day_from_its_partition() {
    let queue = TestQueue::create().await;
    queue.define(&Definition::new("a")).await.unwrap();
    let client = queue.client().await;
    let mut ids = Vec::new();
    for _ in 0..40 {
        let text: String = (0..25_000).map(|_| Uuid::new_v4().simple().to_string()).collect();
        let job = NewJob::new("a").payload(&serde_json::json!(text)).id(ahead(3));
        ids.push(queue.enqueue(&job).await.unwrap().id);
    }
    assert_eq!(maintain(&client, 4).await, 8);
    assert_eq!(count(&client, "select count(*) from windlass.job_default").await, 0);
    for id in ids {
        assert!(partition_of(&client, id).await.contains("_20"));
    }
    assert_eq!(count(&client, "select count(*) from windlass.problems() where duty = 'partition'").await, 0);
    assert_eq!(count(&client, "select count(*) from pg_constraint where conname like 'not\\_%'").await, 0);
}

#[tokio::test]
async fn too_many_jobs_of_a_day_ahead_stay_and_are_reported_until_few_are_left() {
    let queue = TestQueue::create().await;
    queue.define(&Definition::new("a")).await.unwrap();
    let client = queue.client().await;
    let tenant = queue.tenant("noisy").await;
    let first = queue.enqueue(&NewJob::new("a").tenant(tenant).id(ahead(3))).await.unwrap().id;
    // Their ids follow that of the first one.
    let fill = "insert into windlass.job (tenant_id, id, created_at, lane, source, max_attempts, payload)
        select b.tenant_id, (left($1::uuid::text, 24) || lpad(to_hex(n), 12, '0'))::uuid, now(), b.lane, 1, 3, '{}'
          from windlass.job b, generate_series(1, 100000) n where b.id = $1";
    assert_eq!(client.execute(fill, &[&first]).await.unwrap(), 100_000);
    assert_eq!(
        maintain(&client, 4).await,
        7,
        "those of the other tables, and that of the bodies for the other day"
    );
    let problems = "select subject, reason from windlass.problems() where duty = 'partition' and reason like 'was not created%'";
    let rows = client.query(problems, &[]).await.unwrap();
    assert_eq!(rows.len(), 1);
    let (subject, reason): (String, String) = (rows[0].get(0), rows[0].get(1));
    assert!(subject.starts_with("job_"), "{subject}");
    assert!(reason.contains("100001 rows") && reason.contains(&tenant.to_string()), "{reason}");

    let purge =
        "select windlass.purge($1, array(select id from windlass.job where tenant_id = $1 limit 100))";
    client.query(purge, &[&tenant]).await.unwrap();
    assert_eq!(maintain(&client, 4).await, 0, "the default partition is not read again within the hour");
    let later = "update windlass.problem set seen_at = seen_at - interval '2 hours'";
    client.execute(later, &[]).await.unwrap();
    assert_eq!(maintain(&client, 4).await, 1);
    assert_eq!(client.query(problems, &[]).await.unwrap().len(), 0);
    assert_eq!(count(&client, "select count(*) from windlass.job_default").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn enqueues_and_reads_while_rows_are_moved_neither_fail_nor_miss_a_job() {
    let queue = Arc::new(TestQueue::create().await);
    queue.define(&Definition::new("a")).await.unwrap();
    let client = queue.client().await;
    let is_over = Arc::new(AtomicBool::new(false));
    let mut tasks = JoinSet::new();
    for _ in 0..4 {
        let (queue, is_over) = (queue.clone(), is_over.clone());
        tasks.spawn(async move {
            let reader = queue.client().await;
            let mut ids = Vec::new();
            for day in (3..=10).cycle() {
                if is_over.load(Ordering::Relaxed) && !ids.is_empty() {
                    return ids;
                }
                let id = queue.enqueue(&NewJob::new("a").id(ahead(day))).await.unwrap().id;
                let read = "select from windlass.jobs where id = $1 and status = 'queued'";
                assert_eq!(reader.query(read, &[&id]).await.unwrap().len(), 1, "{id} was not found");
                ids.push(id);
            }
            ids
        });
    }
    let mut made = 0;
    for days in 3..=10 {
        let mut rounds = 0;
        while made < 4 * (days - 2) {
            let at_once = "update windlass.partition_rate set busy_at = null";
            client.batch_execute(at_once).await.unwrap();
            let round = "select made from windlass.maintain_partitions($1)";
            made += client.query_one(round, &[&days]).await.unwrap().get::<_, i32>(0);
            rounds += 1;
            assert!(rounds < 500, "{made} partitions after {rounds} rounds");
        }
    }
    is_over.store(true, Ordering::Relaxed);
    let ids: Vec<Uuid> = tasks.join_all().await.into_iter().flatten().collect();
    let found = "select count(*) from windlass.jobs where id = any ($1) and status = 'queued'";
    let found: i64 = client.query_one(found, &[&ids]).await.unwrap().get(0);
    assert_eq!(usize::try_from(found).unwrap(), ids.len());
    assert_eq!(count(&client, "select count(*) from windlass.job_default").await, 0);
}
