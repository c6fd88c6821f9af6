//! What keeps the hot tables fast and the server healthy: no foreign keys, no MultiXacts, claims that update nothing, tenants in every key.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::task::JoinSet;
use tokio_postgres::{Client, NoTls};
use uuid::Uuid;
use windlass::setup::embedded::{Options, Postgres};
use windlass::{Context, Definition, Done, Failure, Handler, NewJob, Queue, Worker};
use windlass_testing::{TestQueue, eventually, settings};

/// A foreign key makes every insert lock its parent row: with many writers for one tenant that is a MultiXact each.
#[tokio::test]
async fn only_cold_tables_have_foreign_keys() {
    let queue = TestQueue::create().await;
    let query = "select distinct c.relname::text from pg_constraint k join pg_class c on c.oid = k.conrelid
                  where k.contype = 'f' and k.connamespace = 'windlass'::regnamespace order by 1";
    let rows = queue.client().await.query(query, &[]).await.unwrap();
    let tables: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
    assert_eq!(
        tables,
        ["drain_request", "invitations", "job_triggers", "members", "password_resets", "sessions"]
    );
    let query = "select count(*) from pg_trigger t join pg_class c on c.oid = t.tgrelid
                  where c.relnamespace = 'windlass'::regnamespace and not t.tgisinternal and c.relname not like 'audit%' and c.relname <> 'key_lock'";
    assert_eq!(queue.client().await.query_one(query, &[]).await.unwrap().get::<_, i64>(0), 0, "triggers");
}

/// So that row-level security, partitions and distribution by tenant remain possible.
#[tokio::test]
async fn the_tenant_is_in_every_unique_key_of_a_tenants_table() {
    let queue = TestQueue::create().await;
    let query = "select i.indexrelid::regclass::text from pg_index i join pg_class c on c.oid = i.indrelid
                   join pg_attribute a on a.attrelid = c.oid and a.attname = 'tenant_id'
                  where c.relnamespace = 'windlass'::regnamespace and i.indisunique and not (a.attnum = any (i.indkey))";
    let rows = queue.client().await.query(query, &[]).await.unwrap();
    let without: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
    // A token is found by its id before its tenant is known. The server draws the id.
    assert_eq!(without, ["api_tokens_by_id"]);
}

struct Count(Arc<AtomicUsize>);

windlass_testing::payload!(CountArgs(serde_json::Value) = "count");

impl Handler for Count {
    type Args = CountArgs;

    async fn run(&self, _: &Context, _: CountArgs) -> Result<Done, Failure> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Ok(Done::new())
    }
}

/// On a separate server: the counter of MultiXacts belongs to the whole server.
#[tokio::test(flavor = "multi_thread")]
async fn sixteen_writers_of_one_tenant_create_no_multixacts() {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(Uuid::new_v4().simple().to_string());
    std::fs::create_dir_all(&directory).unwrap();
    let postgres = Postgres::start(&Options::new(directory.join("data")).unwrap()).await.unwrap();
    windlass::migrate(&settings(&postgres.url())).await.unwrap();
    let queue = Queue::connect(settings(&postgres.url()).connections(20)).await.unwrap();
    let client = connect(&postgres.url()).await;
    let before = next_multixact(&client).await;

    let ran = Arc::new(AtomicUsize::new(0));
    let worker = Worker::builder(&queue).handler(Count(ran.clone())).concurrency(100).start().await.unwrap();
    let mut writers = JoinSet::new();
    for writer in 0..16 {
        let queue = queue.clone();
        writers.spawn(async move {
            for n in 0..50 {
                let plain = NewJob::new("count");
                queue.enqueue(&plain).await.unwrap();
                // Through the entry point as well, which looks up keys and locks rows.
                queue.enqueue(&plain.dedupe_key(format!("{writer} {n}"))).await.unwrap();
            }
        });
    }
    writers.join_all().await;
    eventually("all have run", async || ran.load(Ordering::Relaxed) == 1600).await;
    worker.stop().await.unwrap();
    assert_eq!(next_multixact(&client).await, before);

    drop((queue, client));
    postgres.stop().await.unwrap();
    let _ = std::fs::remove_dir_all(&directory);
}

async fn next_multixact(client: &Client) -> String {
    client.batch_execute("checkpoint").await.unwrap();
    client.query_one("select next_multixact_id::text from pg_control_checkpoint()", &[]).await.unwrap().get(0)
}

async fn connect(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

/// A claim moves whole rows of the line and updates only a row that it splits; an end sets a bit or deletes a block.
#[tokio::test(flavor = "multi_thread")]
async fn jobs_run_and_end_by_blocks() {
    const JOBS: usize = 20_000;
    let queue = TestQueue::create().await;
    queue.define(&Definition::new("count")).await.unwrap();
    let jobs: Vec<NewJob> = (0..1000).map(|_| NewJob::new("count")).collect();
    for _ in 0..JOBS / jobs.len() {
        queue.enqueue_many(&jobs).await.unwrap();
    }
    let client = queue.client().await;
    let rows: i64 = client.query_one("select count(*) from windlass.line", &[]).await.unwrap().get(0);
    assert_eq!(rows, 20 * 16, "64 jobs to a row");
    let ran = Arc::new(AtomicUsize::new(0));
    let worker = Worker::builder(&queue).handler(Count(ran.clone())).concurrency(500).start().await.unwrap();
    eventually("all have run", async || ran.load(Ordering::Relaxed) >= JOBS).await;
    worker.stop().await.unwrap();

    // Backends report their statistics when they are idle or exit.
    let query =
        "select l.n_tup_ins, l.n_tup_upd, l.n_tup_del, s.n_tup_upd from pg_stat_user_tables l, pg_stat_user_tables s
                  where l.relid = 'windlass.live'::regclass and s.relid = 'windlass.line'::regclass";
    let (mut blocks, mut reduced, mut ended, mut cut): (i64, i64, i64, i64) = (0, 0, 0, 0);
    eventually("the statistics have arrived", async || {
        let row = client.query_one(query, &[]).await.unwrap();
        (blocks, reduced, ended, cut) = (row.get(0), row.get(1), row.get(2), row.get(3));
        blocks > 0 && ended == blocks && cut + 20 * 16 >= blocks
    })
    .await;
    let jobs = JOBS as i64;
    assert!(blocks <= jobs / 8, "{blocks} blocks for {jobs} jobs");
    assert!(
        blocks + reduced <= jobs / 2,
        "{blocks} blocks were written and {reduced} updated for {jobs} jobs"
    );
    assert!(cut <= jobs / 10, "{cut} rows of the line were split for {jobs} jobs");
}
