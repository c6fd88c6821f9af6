//! The engine's own statements end on the server too: a backend continues a statement whose client has abandoned it.

use std::time::Duration;

use windlass::keeper::Duty;
use windlass::{Definition, NewJob};
use windlass_testing::{TestQueue, eventually};

use crate::support::{Acting, count, keeper, worker};

/// Each abandoned claim left a backend that continued to wait.
#[tokio::test(flavor = "multi_thread")]
async fn a_claim_abandoned_by_its_worker_ends_on_the_server() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    let worker = worker(&queue).handler(Acting).lease(Duration::from_secs(1)).start().await.unwrap();
    let held = queue.client().await;
    held.batch_execute("begin; lock table windlass.line in access exclusive mode").await.unwrap();
    let waiting = "select coalesce(min(pid), 0)::bigint from pg_stat_activity
                    where datname = current_database() and state = 'active' and wait_event_type = 'Lock' and query like '%windlass.%'";
    let mut first = 0;
    eventually("a statement waits", async || {
        first = count(&client, waiting).await;
        first > 0
    })
    .await;
    let is_active = format!("select count(*) from pg_stat_activity where pid = {first} and state = 'active'");
    eventually("it ends while the lock is still held", async || count(&client, &is_active).await == 0).await;
    held.batch_execute("rollback").await.unwrap();
    worker.stop().await.unwrap();
}

/// Replaces functions by ones that record the limit under which they were called.
#[tokio::test(flavor = "multi_thread")]
async fn the_server_cancels_a_slow_check_and_a_slow_duty() {
    let queue = TestQueue::create().await;
    queue.define(&Definition::new("acting")).await.unwrap();
    let client = queue.client().await;
    let record = "create table windlass.seen (what text, how_long text);
        grant insert on windlass.seen to public; grant usage on schema windlass to public;
        create or replace function windlass.fold_tallies(most integer default 0, out moved integer, out has_more boolean)
          language plpgsql security definer as $$
          begin insert into windlass.seen values ('fold', current_setting('statement_timeout')); moved := 0; has_more := false; end $$;
        create or replace function windlass.active_lanes(definition_keys text[], queues text[])
          returns table (lane integer, tenant_id uuid, definition_key text, queue text, priority smallint, weight integer, limits integer[])
          language plpgsql security definer as $$
          begin
            insert into windlass.seen values ('look', current_setting('statement_timeout'));
            return query select n.id, n.tenant_id, d.key, n.queue, n.priority, 1, '{}'::integer[]
              from windlass.lane n join windlass.job_definitions d on d.id = n.definition_id;
          end $$;";
    client.batch_execute(record).await.unwrap();
    keeper(&queue).run_once(Duty::Fold).await.unwrap();
    let worker = worker(&queue).handler(Acting).start().await.unwrap();
    queue.enqueue(&NewJob::new("acting")).await.unwrap();
    let seen = async |what: &str, how_long: &str| {
        let query =
            format!("select count(*) from windlass.seen where what = '{what}' and how_long = '{how_long}'");
        count(&client, &query).await
    };
    eventually("it has checked", async || seen("look", "15s").await > 0).await;
    worker.stop().await.unwrap();
    assert!(seen("fold", "5min").await > 0);
    assert_eq!(count(&client, "select count(*) from windlass.seen where how_long = '0'").await, 0);
}
