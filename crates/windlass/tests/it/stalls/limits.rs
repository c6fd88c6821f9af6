//! Limits on the server: it continues a statement whose client has disconnected, so every connection of a worker has a timeout there.

use std::time::Duration;

use tokio_postgres::Client;
use windlass::{NewJob, Queue, Settings};
use windlass_testing::{TestQueue, eventually};

use crate::support::{Held, count, worker};

/// Records the limit under which each statement of a worker runs: its claims and endings by `live`, its heartbeats by `job_workers`.
const WATCH: &str = "create table public.seen (of_table text, action text, limit_ms integer);
    create function public.see() returns trigger language plpgsql security definer as $$
    begin
      insert into public.seen select tg_table_name, tg_op, s.setting::integer from pg_settings s where s.name = 'statement_timeout';
      return coalesce(new, old);
    end $$;
    create trigger see before insert or delete on windlass.live for each row execute function public.see();
    create trigger see before update on windlass.job_workers for each row execute function public.see()";

async fn watched() -> (TestQueue, Client) {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    client.batch_execute(WATCH).await.unwrap();
    (queue, client)
}

/// Runs one job, waits for a heartbeat, and returns how many statements ran without a limit.
async fn unlimited(queue: &Queue, client: &Client) -> i64 {
    let (handler, mut desk) = Held::new();
    let running = worker(queue).handler(handler).heartbeat(Duration::from_millis(50)).start().await.unwrap();
    queue.enqueue(&NewJob::new("held")).await.unwrap();
    desk.next().await.succeed();
    for seen in ["action = 'INSERT'", "action = 'DELETE'", "of_table = 'job_workers'"] {
        let query = format!("select count(*) from public.seen where {seen}");
        eventually(seen, async || count(client, &query).await > 0).await;
    }
    let unlimited = count(client, "select count(*) from public.seen where limit_ms = 0").await;
    running.stop().await.unwrap();
    unlimited
}

#[tokio::test(flavor = "multi_thread")]
async fn every_statement_of_a_worker_has_a_limit_on_the_server() {
    let (queue, client) = watched().await;
    assert_eq!(unlimited(&queue, &client).await, 0);
}

/// As behind a transaction pooler, where a connection keeps no settings.
#[tokio::test(flavor = "multi_thread")]
async fn every_statement_of_a_worker_behind_a_pooler_has_a_limit_on_the_server() {
    let (queue, client) = watched().await;
    let pooled = Queue::connect(Settings::new(queue.url()).unwrap().pooled()).await.unwrap();
    assert_eq!(unlimited(&pooled, &client).await, 0);
}
