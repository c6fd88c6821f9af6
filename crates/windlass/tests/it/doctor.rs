//! The doctor, on databases with the problems that it detects.

use windlass::keeper::{Duty, Keeper, KeeperSettings};
use windlass::setup::{Finding, Severity};
use windlass::{Definition, NewJob, Worker};
use windlass_testing::{Login, TestQueue, TestServer, eventually, settings};

use crate::support;

async fn examine(queue: &TestQueue) -> Vec<Finding> {
    windlass::setup::examine(&settings(queue.url())).await.unwrap()
}

async fn found(queue: &TestQueue, check: &str) -> Vec<(Severity, String)> {
    let findings = examine(queue).await.into_iter().filter(|finding| finding.check == check);
    findings.map(|finding| (finding.severity, finding.found)).collect()
}

#[tokio::test]
async fn a_fresh_queue_has_nothing_dangerous() {
    let queue = TestQueue::create().await;
    let findings = examine(&queue).await;
    let dangers: Vec<&Finding> =
        findings.iter().filter(|finding| finding.severity == Severity::Danger).collect();
    // The server of the tests runs without fsync.
    assert!(dangers.iter().all(|danger| danger.check == "durability"), "{dangers:#?}");
    for check in [
        "server",
        "durability",
        "connections",
        "transactions",
        "schema",
        "bloat",
        "workers",
        "stuck jobs",
        "rate",
        "listen",
    ] {
        assert!(
            findings.iter().any(|finding| finding.check == check),
            "{check} is not checked: {findings:#?}"
        );
    }
}

#[tokio::test]
async fn a_database_without_the_schema_gets_advice_to_migrate() {
    let findings = windlass::setup::examine(&settings(&TestServer::shared().await.url())).await.unwrap();
    let schema = findings.iter().find(|finding| finding.check == "schema").unwrap();
    assert_eq!(schema.severity, Severity::Danger);
    assert!(schema.advice.as_ref().unwrap().contains("windlass migrate"));
}

#[tokio::test]
async fn drift_of_functions_row_security_and_migrations_is_found() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    client
        .batch_execute(
            "create or replace function windlass.fold_tallies(most integer default 0, out moved integer, out has_more boolean)
               language sql as 'select 0, false';
             alter table windlass.live disable row level security;",
        )
        .await
        .unwrap();
    let schema = found(&queue, "schema").await;
    assert!(schema.iter().all(|(severity, _)| *severity == Severity::Danger), "{schema:?}");
    assert!(schema.iter().any(|(_, found)| found.contains("fold_tallies")), "{schema:?}");
    assert!(schema.iter().any(|(_, found)| found.contains("table live was changed")), "{schema:?}");

    client.batch_execute("delete from windlass.migration where version = 2").await.unwrap();
    let schema = found(&queue, "schema").await;
    assert!(schema.iter().any(|(_, found)| found.contains("migration 2")), "{schema:?}");
}

#[tokio::test]
async fn jobs_without_a_live_worker_are_reported_by_key() {
    let queue = TestQueue::create().await;
    queue.define(&Definition::new("orphan")).await.unwrap();
    queue.enqueue(&NewJob::new("orphan")).await.unwrap();
    let stuck = found(&queue, "stuck jobs").await;
    assert!(
        stuck.iter().any(|(severity, found)| *severity == Severity::Danger && found.contains("orphan")),
        "{stuck:?}"
    );
}

#[tokio::test]
async fn overdue_duties_and_paused_queues_are_found() {
    let queue = TestQueue::create().await;
    queue.define(&Definition::new("later")).await.unwrap();
    queue.enqueue(&NewJob::new("later").delay(std::time::Duration::from_secs(600))).await.unwrap();
    let client = queue.client().await;
    client.batch_execute("update windlass.deferred set due_at = now() - interval '5 min'").await.unwrap();
    queue.set_paused("default", true).await.unwrap();
    let stuck = found(&queue, "stuck jobs").await;
    assert!(
        stuck.iter().any(|(severity, found)| *severity == Severity::Danger && found.contains("promoted")),
        "{stuck:?}"
    );
    let paused = found(&queue, "paused queues").await;
    assert!(paused.len() == 1 && paused[0].1.contains("default"), "{paused:?}");
}

#[tokio::test]
async fn a_worker_without_heartbeats_is_stale_and_a_closed_one_is_not() {
    let queue = TestQueue::create().await;
    let worker = Worker::builder(&queue).handler(support::Acting).start().await.unwrap();
    eventually("it listens", async || found(&queue, "listen").await[0].1.contains("1 sessions listen")).await;
    assert!(found(&queue, "stale workers").await.is_empty());
    let client = queue.client().await;
    let worker_id = worker.id().to_owned();
    worker.stop().await.unwrap();
    assert!(found(&queue, "stale workers").await.is_empty(), "it closed its row");
    assert_eq!(status_of_worker(&queue, worker_id.as_str()).await, "stopped");
    let keeper = Keeper::new(queue.queue().clone(), KeeperSettings::default());
    keeper.run_once(Duty::Reap).await.unwrap();
    assert_eq!(status_of_worker(&queue, worker_id.as_str()).await, "stopped", "closed, not lost");

    // A second one dies: stale first, then lost, and it stays so.
    let worker = Worker::builder(&queue).handler(support::Acting).start().await.unwrap();
    let worker_id = worker.id().to_owned();
    worker.abort();
    let silent = "update windlass.job_workers set last_seen_at = now() - interval '1 min', lease_expires_at = now() - interval '30 s'
                   where ended is null";
    client.batch_execute(silent).await.unwrap();
    assert_eq!(found(&queue, "stale workers").await.len(), 1);
    assert_eq!(status_of_worker(&queue, &worker_id).await, "stale");
    keeper.run_once(Duty::Reap).await.unwrap();
    assert_eq!(found(&queue, "stale workers").await.len(), 1, "its row is closed, and it is still reported");
    let long_ago = "update windlass.job_workers set stopped_at = now() - interval '80 days', last_seen_at = now() - interval '80 days'";
    client.batch_execute(long_ago).await.unwrap();
    keeper.run_once(Duty::Prune).await.unwrap();
    assert_eq!(status_of_worker(&queue, &worker_id).await, "lost", "until its row is pruned");
    assert!(found(&queue, "stale workers").await.is_empty(), "which is not reported for this long");
}

async fn status_of_worker(queue: &TestQueue, id: &str) -> String {
    let reading = queue.read(windlass::admin::Reach::Everything).await.unwrap();
    let workers = reading.workers().await.unwrap();
    reading.end().await.unwrap();
    workers.into_iter().find(|worker| worker.worker_id == id).unwrap().status
}

/// A lost response to a claim: the worker renews its lease forever, and no one runs the job.
#[tokio::test]
async fn a_run_that_its_worker_does_not_report_is_found() {
    let queue = TestQueue::create().await;
    let hand = support::Hand::new(queue.client().await).await;
    queue.define(&Definition::new("held")).await.unwrap();
    for _ in 0..2 {
        hand.enqueue("'held'").await;
    }
    assert_eq!(hand.claim_all().await.len(), 2);
    hand.client.batch_execute("update windlass.job_workers set lease_seconds = 60").await.unwrap();
    let says = async |running: i32, claimed_ago: &str| {
        let say = format!(
            "update windlass.job_workers set running_count = {running}, last_seen_at = now(), lease_expires_at = now() + interval '1 min';
             update windlass.live set claimed_at = now() - interval '{claimed_ago}'"
        );
        hand.client.batch_execute(&say).await.unwrap();
        found(&queue, "stuck jobs")
            .await
            .into_iter()
            .filter(|(_, found)| found.contains("than it reports as running"))
            .collect::<Vec<_>>()
    };
    let unknown = says(1, "10 min").await;
    assert!(
        unknown.len() == 1 && unknown[0].0 == Severity::Warning && unknown[0].1.contains("holds 1 more jobs"),
        "{unknown:?}"
    );
    assert_eq!(says(2, "10 min").await, [], "it reports both");
    assert_eq!(says(0, "1 s").await, [], "it has not had the time to report it");
    hand.client.batch_execute("update windlass.job_workers set lease_seconds = 3600").await.unwrap();
    assert_eq!(says(0, "10 min").await, [], "its lease is longer than that");
}

/// The server of the tests has a small `max_wal_size`.
#[tokio::test]
async fn settings_are_compared_with_the_rate_of_the_busiest_minute() {
    let queue = TestQueue::create().await;
    assert!(found(&queue, "rate").await[0].1.starts_with("0 jobs/s"), "nothing ran");
    let busy = "insert into windlass.activity (tenant_id, queue, at, succeeded, failed, queued, running)
                select '00000000-0000-0000-0000-000000000000', 'default', date_trunc('minute', now()) - n * interval '15 s', 74000, 1000, 0, 0
                  from generate_series(1, 8) n";
    queue.client().await.batch_execute(busy).await.unwrap();
    let rate = found(&queue, "rate").await;
    assert!(
        rate.iter().any(|(severity, found)| *severity == Severity::Warning
            && found.starts_with("max_wal_size = 256 MB: at 5000 jobs/s")),
        "{rate:?}"
    );
}

#[tokio::test]
async fn database_settings_bloat_and_the_oldest_transaction_are_found() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    let name: String = client.query_one("select current_database()::text", &[]).await.unwrap().get(0);
    client.batch_execute(&format!("alter database {name} set synchronous_commit = off")).await.unwrap();
    // The server of the tests also runs without fsync, which is a finding of its own.
    let durability = found(&queue, "durability").await;
    assert!(
        durability.iter().any(|(severity, found)| *severity == Severity::Warning
            && found.starts_with("synchronous_commit = off")),
        "{durability:?}"
    );

    client.batch_execute("begin; select pg_current_xact_id()").await.unwrap();
    let transactions = found(&queue, "transactions").await;
    assert!(
        transactions.iter().any(|(_, found)| found.contains("oldest transaction is")),
        "{transactions:?}"
    );
    client.batch_execute("rollback").await.unwrap();

    let dead = "alter table windlass.queues set (autovacuum_enabled = off);
                insert into windlass.queues (name) select 'q' || n from generate_series(1, 120000) n;
                delete from windlass.queues where name like 'q%';
                select pg_stat_force_next_flush()";
    client.batch_execute(dead).await.unwrap();
    eventually("the dead rows are counted", async || {
        found(&queue, "bloat").await.iter().any(|(severity, found)| {
            *severity == Severity::Warning && found.starts_with("queues has 120000 dead rows")
        })
    })
    .await;
}

/// Any login can create both without a privilege.
#[tokio::test]
async fn what_others_left_that_stops_a_backup_is_reported() {
    let queue = TestQueue::create().await;
    assert!(found(&queue, "backup").await.is_empty());
    let login = Login::create(&queue, "windlass_puller").await;
    let leave =
        "select lo_create(0); alter default privileges in schema windlass grant select on tables to public;
        alter default privileges grant usage on sequences to public";
    login.client().await.batch_execute(leave).await.unwrap();
    let backup = found(&queue, "backup").await;
    let shown = |words: &str| {
        backup.iter().any(|(severity, found)| *severity == Severity::Warning && found.contains(words))
    };
    assert!(shown("large objects of") && shown("in all schemas, the schema windlass"), "{backup:?}");
    login.drop().await;
    assert!(found(&queue, "backup").await.is_empty());
}
