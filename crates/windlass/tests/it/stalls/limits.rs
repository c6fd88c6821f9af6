//! Limits on the server: it continues a statement whose client has disconnected, so every connection of a worker has a timeout there.

use std::time::Duration;

use serde_json::json;
use tokio_postgres::Client;
use windlass::keeper::Duty;
use windlass::{NewJob, Queue, Settings};
use windlass_testing::{TestQueue, eventually};

use crate::support::{Hand, Held, count, keeper, worker};

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

/// The keeper has the connections of its queue, which have no limit of their own.
#[tokio::test(flavor = "multi_thread")]
async fn every_statement_of_a_keeper_has_a_limit_on_the_server() {
    let (queue, client) = watched().await;
    let watch = "create trigger see before delete on windlass.deferred for each row execute function public.see();
        create trigger see before insert or delete on windlass.line for each row execute function public.see()";
    client.batch_execute(watch).await.unwrap();
    let hand = Hand::new(queue.client().await).await;
    hand.define(json!({"key": "held"})).await;
    hand.enqueue("'held'").await;
    hand.claim_one().await;
    hand.miss_heartbeats().await;
    hand.enqueue("'held', delay => '1 h'").await;
    client.batch_execute("update windlass.deferred set due_at = now(); truncate public.seen").await.unwrap();
    for (duty, seen) in
        [(Duty::Promote, "of_table = 'deferred'"), (Duty::Reap, "of_table = 'live' and action = 'DELETE'")]
    {
        keeper(&queue).run_once(duty).await.unwrap();
        assert!(
            count(&client, &format!("select count(*) from public.seen where {seen}")).await > 0,
            "{duty:?}"
        );
    }
    assert_eq!(count(&client, "select count(*) from public.seen where limit_ms = 0").await, 0);
}
