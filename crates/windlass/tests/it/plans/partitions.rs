//! What concerns one job costs the same with any number of partitions: years of days, or weeks of hours.

use tokio_postgres::Client;
use tokio_postgres::types::ToSql;
use uuid::Uuid;
use windlass::{DEFAULT_TENANT, Definition, NewJob};
use windlass_testing::TestQueue;

use super::statement;
use crate::support::count;

/// Partitions of `count` days before those that exist.
async fn partition_the_past(client: &Client, count: i32) {
    let create = format!(
        "do $$ declare day date; parent text; begin
           for ago in 10..{} loop
             day := (now() at time zone 'UTC')::date - ago;
             foreach parent in array array['job', 'history', 'progress', 'job_log'] loop
               execute format('create table windlass.%I partition of windlass.%I for values from (%L) to (%L)',
                 parent || to_char(day, '_YYYYMMDD'), parent, windlass.uuid7_floor(day::timestamp at time zone 'UTC'),
                 windlass.uuid7_floor((day + 1)::timestamp at time zone 'UTC'));
             end loop;
           end loop;
         end $$",
        10 + count - 1
    );
    client.batch_execute(&create).await.unwrap();
}

/// The relations that a transaction with one statement has locked, in a session that has planned it several times: a session prefers a
/// generic plan after five calls.
async fn locked_by(queue: &TestQueue, settings: &str, text: &str, params: &[&(dyn ToSql + Sync)]) -> i64 {
    let client = queue.client().await;
    let mut locked = 0;
    for _ in 0..7 {
        client.batch_execute(&format!("begin; {settings}")).await.unwrap();
        client.query(text, params).await.unwrap();
        let query = "select count(*) from pg_locks where pid = pg_backend_pid() and locktype = 'relation'";
        locked = count(&client, query).await;
        client.batch_execute("rollback").await.unwrap();
    }
    locked
}

/// a read or a cancel of one job locked, and planned for, 10 relations of each partition.
#[tokio::test]
async fn one_job_is_read_and_changed_in_its_own_partitions() {
    let queue = TestQueue::create().await;
    queue.define(&Definition::new("a")).await.unwrap();
    let queued = queue.enqueue(&NewJob::new("a")).await.unwrap().id;
    let ended = queue.enqueue(&NewJob::new("a")).await.unwrap().id;
    let client = queue.client().await;
    let cancel: &[&(dyn ToSql + Sync)] = &[&DEFAULT_TENANT, &ended];
    client.query("select windlass.cancel($1, $2)", cancel).await.unwrap();
    let as_list = "set local plan_cache_mode = force_custom_plan; set local enable_seqscan = off; set local enable_hashjoin = off;
        set local enable_mergejoin = off; set local enable_bitmapscan = off";
    let (after, most) = (0_i32, 100_i64);
    let measure = async || {
        let mut found: Vec<(&str, i64)> = Vec::new();
        for job in [&queued, &ended] {
            let of_job: [&(dyn ToSql + Sync); 2] = [&DEFAULT_TENANT, job];
            for text in [
                "select windlass.cancel($1, $2)",
                "select windlass.retry($1, $2, 'me')",
                "select windlass.cancel_many($1, array[$2::uuid], null)",
                "select windlass.retry_many($1, array[$2::uuid], null, 'me')",
                "select windlass.state_of($1, $2)",
            ] {
                found.push((text, locked_by(&queue, "", text, &of_job).await));
            }
            for words in
                ["One job by id", "All facts that keep one job", "Whether a job exists, and whether it"]
            {
                found.push((words, locked_by(&queue, as_list, statement(words), &of_job).await));
            }
            let of_attempts: [&(dyn ToSql + Sync); 4] = [&DEFAULT_TENANT, job, &after, &most];
            let attempts = statement("The attempts of one job after");
            found.push(("attempts", locked_by(&queue, as_list, attempts, &of_attempts).await));
        }
        found
    };
    let few = measure().await;
    partition_the_past(&client, 60).await;
    let many = measure().await;
    // The number varies by a few catalogs and indexes; a statement that reads all partitions locks hundreds more.
    let is_as_few = |((_, before), (_, after)): (&(&str, i64), &(&str, i64))| *after <= before + 10;
    assert!(few.iter().zip(&many).all(is_as_few), "{few:?} {many:?}");
    assert!(few.iter().all(|(_, locked)| *locked <= 120), "{few:?}");
}

/// The page has one statement for any ids; one id has its own.
#[tokio::test]
async fn one_job_is_read_like_a_page() {
    let queue = TestQueue::create().await;
    queue.define(&Definition::new("a")).await.unwrap();
    let job = queue.enqueue(&NewJob::new("a")).await.unwrap().id;
    let client = queue.client().await;
    let ids: Vec<Uuid> = vec![job];
    let page = client
        .query_one(statement("Jobs by id, in the given order"), &[&DEFAULT_TENANT, &ids])
        .await
        .unwrap();
    let one = client.query_one(statement("One job by id"), &[&DEFAULT_TENANT, &job]).await.unwrap();
    let shown = |row: &tokio_postgres::Row| {
        let columns = row.columns().iter().map(|column| column.name().to_owned());
        (columns.collect::<Vec<_>>(), row.get::<_, Uuid>("id"))
    };
    assert_eq!(shown(&one), shown(&page));
}

/// just-in-time compilation of such a plan took minutes. Every function that reads partitions is planned without it, whatever the
/// settings of the caller are.
#[tokio::test]
async fn no_function_that_reads_partitions_is_compiled() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    let reads = "with parted as (
          select c.oid, c.relname from pg_class c where c.relnamespace = 'windlass'::regnamespace and c.relkind = 'p'
          union
          select v.oid, v.relname from pg_class v join pg_rewrite r on r.ev_class = v.oid join pg_depend d on d.objid = r.oid
            join pg_class c on c.oid = d.refobjid
           where v.relnamespace = 'windlass'::regnamespace and v.relkind = 'v' and c.relnamespace = v.relnamespace and c.relkind = 'p')
        select p.proname::text, coalesce(p.proconfig @> '{jit=off}', false) from pg_proc p
         where p.pronamespace = 'windlass'::regnamespace and exists (select from parted t
           where p.prosrc ~* ('\\m(from|join|update|using)\\s+windlass\\.' || t.relname || '\\M(?!\\()'))";
    let rows = client.query(reads, &[]).await.unwrap();
    assert!(rows.len() > 50, "found only {}", rows.len());
    let compiled: Vec<String> =
        rows.iter().filter(|row| !row.get::<_, bool>(1)).map(|row| row.get(0)).collect();
    assert!(compiled.is_empty(), "these need `set jit = off`: {compiled:?}");
}
