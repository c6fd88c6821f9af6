//! A partition is decided about and copied in pages, and everything can change between two of them.

use tokio_postgres::Client;
use uuid::Uuid;
use windlass::DEFAULT_TENANT;
use windlass::retention::HoldOn;

use super::{BLOCK, aged, assert_is_over, end_old, enqueue_old, step, until_step};
use crate::retention::statuses;
use crate::support::{count, ending};

/// Each call does one page of two jobs, or copies one job.
pub(crate) const SMALL_PAGES: &str = "do $$ begin execute replace(replace(replace(
    pg_get_functiondef('windlass.retire_copy'::regproc), '20000', '2'), '5000', '1'), '1 s', '0 s'); end $$";

/// Steps until every job of the first so many was decided about. Their order is that of their ids.
async fn decide(client: &Client, jobs: &[Uuid]) {
    let last = jobs.iter().max().unwrap();
    let is_done = format!("select count(*) from windlass.retiring where done_to[2] >= '{last}'");
    while count(client, &is_done).await == 0 {
        assert_eq!(step(client).await, "copying");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_happens_to_jobs_before_and_after_their_page_is_kept() {
    let (queue, hand) = aged().await;
    let client = &hand.client;
    client.batch_execute(SMALL_PAGES).await.unwrap();
    let mut jobs = Vec::new();
    for _ in 0..24 {
        jobs.push(end_old(&hand, "", None).await);
    }
    jobs.sort();
    assert_eq!(step(client).await, "begun");
    let waits =
        [hand.enqueue("'held', delay => '1 hour'").await, hand.enqueue("'held', delay => '1 hour'").await];
    decide(client, &jobs[..12]).await;
    for (half, waits) in [&jobs[..12], &jobs[12..]].into_iter().zip(waits) {
        assert_eq!(hand.retry(half[0]).await, "queued");
        assert_eq!(queue.purge(DEFAULT_TENANT, &[half[1]]).await.unwrap(), 1);
        client.execute(BLOCK, &[&half[2], &waits]).await.unwrap();
        queue.hold(DEFAULT_TENANT, &HoldOn::Job(half[3]), "case 12", "counsel").await.unwrap();
        assert_eq!(hand.retry(half[4]).await, "queued");
        assert_eq!(hand.cancel(half[4]).await, "canceled");
        assert_eq!(hand.retry(half[5]).await, "queued");
        assert_eq!(queue.purge(DEFAULT_TENANT, &[half[5]]).await.unwrap(), 1);
    }
    let new = enqueue_old(&hand, "").await;
    until_step(client, "dropped").await;
    for half in [&jobs[..12], &jobs[12..]] {
        let expected = ["queued", "missing", "succeeded", "succeeded", "canceled", "missing"];
        assert_eq!(statuses(&hand, &half[..6]).await, expected);
        assert_eq!(statuses(&hand, &half[6..]).await, ["missing"; 6]);
    }
    assert_eq!(statuses(&hand, &[new]).await, ["queued"]);
    assert_is_over(client).await;
    let purged = count(client, "select sum(purged)::bigint from windlass.job_counts").await;
    assert_eq!(purged, 4 + 12, "by hand, and by the exchange");
}

/// Nobody's transaction is long because a tenant has many large jobs that stay.
#[tokio::test(flavor = "multi_thread")]
async fn large_jobs_that_stay_are_copied_in_several_transactions() {
    let (_queue, hand) = aged().await;
    let client = &hand.client;
    let mut stays = Vec::new();
    for _ in 0..4 {
        // Random, so that it cannot be compressed.
        let large = "payload => (select jsonb_build_object('x', string_agg(md5(random()::text), '')) from generate_series(1, 8000))";
        stays.push(end_old(&hand, &format!(", {large}"), Some(ending::failed())).await);
    }
    end_old(&hand, "", None).await;
    let small = "do $$ begin execute replace(replace(
        pg_get_functiondef('windlass.retire_copy'::regproc), '16777216', '300000'), '1 s', '0 s'); end $$";
    client.batch_execute(small).await.unwrap();
    assert_eq!(step(client).await, "begun");
    let mut calls = 0;
    while step(client).await == "copying" {
        calls += 1;
    }
    assert!((3..=6).contains(&calls), "{calls}: two of them at once");
    until_step(client, "dropped").await;
    assert_eq!(statuses(&hand, &stays).await, ["failed"; 4]);
    assert_is_over(client).await;
}

/// Vacuum may be unable to truncate it, and reading its dead rows under the locks of a drop would stop everybody.
#[tokio::test(flavor = "multi_thread")]
async fn a_large_partition_without_rows_is_replaced_by_nothing() {
    let (_queue, hand) = aged().await;
    let client = &hand.client;
    end_old(&hand, "", None).await;
    let fill = "do $$ declare part text := (select b.name from windlass.partition_bounds('job') b
          where b.high < windlass.uuid7_floor(now() - interval '2 days'));
      begin
        execute format('alter table windlass.%I set (autovacuum_enabled = false)', part);
        execute format('insert into windlass.%I select b.tenant_id, (left(b.id::text, 24) || lpad(to_hex(n), 12, ''0''))::uuid, b.created_at, b.lane, 1, 3,
                 b.line_seq, b.payload, null, null, null, null, repeat(''x'', 400) from windlass.job b, generate_series(1, 20000) n', part);
        execute format('delete from windlass.%I', part);
        delete from windlass.history;
        delete from windlass.tally; delete from windlass.total;
      end $$";
    client.batch_execute(fill).await.unwrap();
    let dropped = "select dropped from windlass.maintain_partitions(2)";
    assert_eq!(client.query_one(dropped, &[]).await.unwrap().get::<_, i32>(0), 0, "it would have to be read");
    until_step(client, "dropped").await;
    assert_eq!(super::parts(client).await, Vec::<String>::new());
}
