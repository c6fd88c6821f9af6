//! The statements of the hot paths use their indexes regardless of the planner's statistics (F-22), and a claim takes no more
//! than requested (F-20).

mod dependencies;
mod hand;
mod pages;
mod partitions;
pub(crate) mod watch;

use uuid::Uuid;
use windlass::Definition;
use windlass::job::{Filter, State};
use windlass_testing::TestQueue;

use hand::{claim, lanes, register, settle, settle_plain, single};
use watch::{Plan, Watch};

const ROWS: i32 = 100_000;

/// The states of a tenant's jobs.
struct Shape {
    queued: i32,
    deferred: i32,
    finished: i32,
}

const ALL_QUEUED: Shape = Shape { queued: ROWS, deferred: 0, finished: 0 };
const MOSTLY_DEFERRED: Shape = Shape { queued: ROWS / 100, deferred: ROWS / 100 * 99, finished: 0 };
const MOSTLY_FINISHED: Shape = Shape { queued: ROWS / 100, deferred: 0, finished: ROWS / 100 * 99 };

#[tokio::test]
async fn plans_are_good_on_tables_that_were_never_analyzed() {
    let queue = prepared().await;
    fill(&queue, &ALL_QUEUED).await;
    hot_paths_use_indexes(&queue).await;
}

#[tokio::test]
async fn plans_are_good_on_tables_analyzed_while_empty() {
    let queue = prepared().await;
    queue.client().await.batch_execute("analyze").await.unwrap();
    fill(&queue, &ALL_QUEUED).await;
    hot_paths_use_indexes(&queue).await;
}

#[tokio::test]
async fn plans_are_good_with_nearly_all_jobs_deferred() {
    let queue = prepared().await;
    fill(&queue, &MOSTLY_DEFERRED).await;
    queue.client().await.batch_execute("analyze").await.unwrap();
    hot_paths_use_indexes(&queue).await;
}

#[tokio::test]
async fn plans_are_good_with_nearly_all_jobs_finished() {
    let queue = prepared().await;
    fill(&queue, &MOSTLY_FINISHED).await;
    queue.client().await.batch_execute("analyze").await.unwrap();
    hot_paths_use_indexes(&queue).await;
}

/// A vacuum that finds every row dead and may remove none, because an old transaction could still see them, records pages without
/// rows. The planner must not read all of them because of that.
#[tokio::test]
async fn plans_are_good_on_tables_vacuumed_while_dead() {
    let queue = prepared().await;
    fill(&queue, &ALL_QUEUED).await;
    let books = "update pg_class set reltuples = 0, relpages = 1000
                  where relnamespace = 'windlass'::regnamespace and relname in ('live', 'line', 'deferred', 'dedupe', 'progress')";
    queue.client().await.batch_execute(books).await.unwrap();
    hot_paths_use_indexes(&queue).await;
}

/// In the order of ids a rare tag would be searched among all jobs of the tenant.
#[tokio::test]
async fn a_rare_tag_is_found_by_its_index() {
    let queue = prepared().await;
    fill(&queue, &MOSTLY_FINISHED).await;
    queue.client().await.batch_execute("analyze").await.unwrap();
    let mut watch = Watch::open(queue.url()).await;
    let (tenant, limit, tag) = (windlass::DEFAULT_TENANT, 20_i64, "rare");
    let (no_text, no_time, no_number): (Option<&str>, Option<jiff::Timestamp>, Option<i16>) =
        (None, None, None);
    let no_ids: Option<Vec<Uuid>> = None;
    watch.client.batch_execute("begin").await.unwrap();
    let scope = statement("Limits the rest of the transaction to reads");
    watch.client.query(scope, &[&tenant.to_string(), &"on"]).await.unwrap();
    let text = statement("The same for jobs with a tag");
    let rows = watch
        .client
        .query(
            text,
            &[
                &tenant,
                &Uuid::max(),
                &Uuid::nil(),
                &limit,
                &no_text,
                &no_text,
                &no_time,
                &no_time,
                &no_number,
                &no_number,
                &no_text,
                &no_text,
                &no_text,
                &no_ids,
                &false,
                &tag,
            ],
        )
        .await
        .unwrap();
    assert_eq!(rows.len(), 20);
    for plan in held(&mut watch, "tagged", "windlass.job b").await {
        assert!(plan.uses_index("tags"), "{plan:#?}");
    }
}

/// Regardless of the session's settings: the functions have their own (F-20's matrix).
#[tokio::test]
async fn a_claim_never_takes_more_than_requested() {
    let queue = prepared().await;
    fill(&queue, &Shape { queued: 2000, deferred: 0, finished: 0 }).await;
    let client = queue.client().await;
    let (worker, lanes) = (register(&client).await, lanes(&client).await);
    let switches =
        ["enable_indexscan", "enable_nestloop", "enable_material", "enable_sort", "enable_indexonlyscan"];
    for switch in switches {
        for analysed in [false, true] {
            if analysed {
                client.batch_execute("analyze windlass.line").await.unwrap();
            }
            client.batch_execute(&format!("set {switch} = off; discard plans")).await.unwrap();
            let taken = claim(&client, worker, &lanes, 7).await;
            let mut jobs: Vec<Uuid> = taken.iter().map(|claimed| claimed.job).collect();
            jobs.sort_unstable();
            jobs.dedup();
            assert_eq!((taken.len(), jobs.len()), (7 * lanes.len(), 7 * lanes.len()), "{switch}");
            client.batch_execute(&format!("reset {switch}")).await.unwrap();
        }
    }
}

async fn prepared() -> TestQueue {
    let queue = TestQueue::create().await;
    for key in ["a", "b", "c"] {
        queue.define(&Definition::new(key)).await.unwrap();
    }
    // Autovacuum would analyse in the middle of a test about tables that were not.
    let query =
        "select format('alter table %s set (autovacuum_enabled = false)', c.oid::regclass) from pg_class c
                  where c.relnamespace = 'windlass'::regnamespace and c.relkind = 'r'";
    let client = queue.client().await;
    for row in client.query(query, &[]).await.unwrap() {
        client.batch_execute(row.get(0)).await.unwrap();
    }
    queue
}

/// Rows in their tables, spread over three lanes of the default tenant. Every tenth deferred row is due, every hundredth body has
/// a subject, a request and a tag.
async fn fill(queue: &TestQueue, shape: &Shape) {
    let client = queue.client().await;
    let lanes = "create temp table spread as
        select row_number() over () - 1 as position, (windlass.route_of(null, d.key, null, null)).lane, d.key
          from windlass.job_definitions d";
    client.batch_execute(lanes).await.unwrap();
    let body = |from: i32, to: i32| {
        format!(
            "with new as (insert into windlass.job (tenant_id, id, created_at, lane, source, max_attempts, payload, subject_type, subject_id, correlation_id, tags)
               select '{}', windlass.uuid7(), clock_timestamp(), s.lane, 1, 3, '{{}}',
                      case when n % 100 = 0 then 'image' end, case when n % 100 = 0 then n::text end,
                      case when n % 100 = 0 then 'request ' || n end, case when n % 1000 = 0 then array['rare'] end
                 from generate_series({from}, {to} - 1) n join spread s on s.position = n % 3
             returning tenant_id, id, lane)",
            windlass::DEFAULT_TENANT
        )
    };
    let (queued, deferred) = (shape.queued, shape.queued + shape.deferred);
    let finished = deferred + shape.finished;
    let statements = [
        format!("{} insert into windlass.line (tenant_id, job_id, lane, max_attempts, ids) select tenant_id, id, lane, 3, array[id] from new", body(0, queued)),
        format!(
            "{} insert into windlass.deferred (tenant_id, job_id, due_at, lane, max_attempts)
               select tenant_id, id, now() + case when random() < 0.1 then interval '-1 s' else interval '1 hour' end, lane, 3 from new",
            body(queued, deferred)
        ),
        format!(
            "{} insert into windlass.history (tenant_id, job_id, started_at, finished_at, attempt, lane, outcome, job_status)
               select tenant_id, id, now(), now(), 1, lane, 1, 1 from new",
            body(deferred, finished)
        ),
    ];
    for statement in statements {
        client.batch_execute(&statement).await.unwrap();
    }
}

async fn hot_paths_use_indexes(queue: &TestQueue) {
    let mut watch = Watch::open(queue.url()).await;
    let worker = register(&watch.client).await;
    let lanes = lanes(&watch.client).await;
    assert_eq!(lanes.len(), 3);
    held(&mut watch, "active_lanes", "recursive walk").await;

    let taken = claim(&watch.client, worker, &lanes, 10).await;
    assert_eq!(taken.len(), 30);
    for plan in held(&mut watch, "claim", "locked as materialized").await {
        // The next eight of each lane to guess by, and those that are locked.
        assert!(
            plan.rows_read("line") <= 3 * 8 + 30,
            "the claim read {} rows of the line",
            plan.rows_read("line")
        );
    }

    // One of each kind: a success, a retry, a release.
    let details = [
        None,
        Some(r#"{"outcome": 2, "next": 7, "delay_ms": 1, "failures": 1, "lost": 0, "snoozes": 0}"#),
        Some(r#"{"outcome": 7, "next": 5}"#),
    ];
    for (chunk, detail) in taken.chunks(5).zip(details) {
        assert_eq!(settle(&watch.client, chunk, detail).await, 5);
        for plan in held(&mut watch, "settle", "named as materialized").await {
            assert!(plan.rows_read("live") <= 4 * 5, "settle read {} live rows", plan.rows_read("live"));
        }
    }

    assert_eq!(settle_plain(&watch.client, &taken[15..20]).await, 0);
    for plan in held(&mut watch, "settle_plain", "named as materialized").await {
        assert!(plan.rows_read("live") <= 4 * 5, "settle_plain read {} live rows", plan.rows_read("live"));
    }

    let promoted: i32 = single(&watch.client, "select promoted from windlass.promote(10)").await;
    for plan in held(&mut watch, "promote", "order by d.due_at limit most").await {
        assert!(!plan.sorts("deferred"), "promote sorts deferred rows: {plan:#?}");
        assert!(
            plan.rows_read("deferred") <= 2 * 10,
            "for {promoted} rows, {} were read",
            plan.rows_read("deferred")
        );
    }

    watch
        .client
        .batch_execute("update windlass.job_workers set lease_expires_at = now() - interval '1 s'")
        .await
        .unwrap();
    watch.plans().await;
    let lost: i64 = single(&watch.client, "select count(*) from windlass.lost_jobs(5)").await;
    assert_eq!(lost, 5, "of the ten unsettled ones");
    for plan in held(&mut watch, "lost_jobs", "held as materialized").await {
        assert!(!plan.sorts("live"), "lost_jobs sorts live rows: {plan:#?}");
    }
    lists_use_indexes(queue, &mut watch).await;
}

/// A worker without heartbeats that holds nothing is closed without reading every live row.
#[tokio::test]
async fn closing_an_empty_worker_uses_indexes_only() {
    let queue = prepared().await;
    fill(&queue, &Shape { queued: 1000, deferred: 0, finished: 0 }).await;
    let mut watch = Watch::open(queue.url()).await;
    register(&watch.client).await;
    let expire = "update windlass.job_workers set lease_expires_at = now() - interval '1 s'";
    watch.client.batch_execute(expire).await.unwrap();
    watch.plans().await;
    let lost: i64 = single(&watch.client, "select count(*) from windlass.lost_jobs(5)").await;
    assert_eq!(lost, 0);
    held(&mut watch, "lost_jobs", "held as materialized").await;
    let closed: i64 =
        single(&watch.client, "select count(*) from windlass.job_workers where stopped_at is not null").await;
    assert_eq!(closed, 1);
}

/// The statement of `Queue::list`, in a session that is watched.
async fn lists_use_indexes(queue: &TestQueue, watch: &mut Watch) {
    let scope = statement("Limits the rest of the transaction to reads");
    let tenant = windlass::DEFAULT_TENANT;
    let (below, from, limit) = (Uuid::max(), Uuid::nil(), 20_i64);
    let (no_text, no_time, no_number): (Option<&str>, Option<jiff::Timestamp>, Option<i16>) =
        (None, None, None);
    let no_ids: Option<Vec<Uuid>> = None;
    watch.client.batch_execute("begin").await.unwrap();
    watch.client.query(scope, &[&tenant.to_string(), &"off"]).await.unwrap();
    watch.plans().await;
    for (name, state) in [
        ("queued", 5_i16),
        ("running", 6),
        ("scheduled", 7),
        ("blocked", 8),
        ("jobs that ended in one status", 1),
    ] {
        let text = statement(&format!("Ids of a tenant's {name}")[..]).to_owned();
        let mut params: Vec<&(dyn tokio_postgres::types::ToSql + Sync)> =
            vec![&tenant, &below, &from, &limit, &no_text, &no_text, &no_time, &no_time, &no_number];
        match state {
            1 => params.push(&state),
            5 => params.push(&i64::MAX),
            6 => params.extend([&i64::MAX as &(dyn tokio_postgres::types::ToSql + Sync), &false]),
            _ => {}
        }
        let rows = watch.client.query(&text, &params).await.unwrap();
        for plan in held(watch, name, "windlass.").await {
            if let 5 | 6 = state {
                let table = if state == 5 { "line" } else { "live" };
                // A page of each lane is read and merged, and no more.
                assert!(plan.rows_read(table) <= 3 * 21, "{} rows of {table}", plan.rows_read(table));
            } else {
                assert!(
                    plan.nodes().iter().all(|node| node["Node Type"] != "Sort"),
                    "{name} sorts: {plan:#?}"
                );
            }
        }
        assert!(rows.len() <= 20);
    }
    let newest = statement("Ids of a tenant's jobs, newest first").to_owned();
    let narrow: [(&str, Option<&str>, Option<&str>, &str); 3] = [
        ("newest", None, None, "pkey"),
        ("subject", Some("100"), None, "subject"),
        ("correlation", None, Some("request 100"), "correlation"),
    ];
    for (name, subject, correlation, index) in narrow {
        let kind = subject.map(|_| "image");
        watch
            .client
            .query(
                &newest,
                &[
                    &tenant,
                    &below,
                    &from,
                    &limit,
                    &no_text,
                    &no_text,
                    &no_time,
                    &no_time,
                    &no_number,
                    &no_number,
                    &kind,
                    &subject,
                    &correlation,
                    &no_ids,
                    &false,
                ],
            )
            .await
            .unwrap();
        for plan in held(watch, name, "windlass.job b").await {
            assert!(plan.uses_index(index), "{name} does not use its index: {plan:#?}");
        }
    }
    let page: Vec<Uuid> = watch
        .client
        .query("select id from windlass.job limit 20", &[])
        .await
        .unwrap()
        .iter()
        .map(|row| row.get(0))
        .collect();
    watch.plans().await;
    watch.client.query(statement("Jobs by id, in the given order"), &[&tenant, &page]).await.unwrap();
    for plan in held(watch, "read", "windlass.jobs v").await {
        assert!(plan.rows_read("live") <= 20, "reading a page read {} live rows", plan.rows_read("live"));
    }
    watch.client.batch_execute("commit").await.unwrap();

    // And through the public API: the page exists.
    let listed = queue.list(&Filter::new(tenant).state(State::Queued).limit(5)).await.unwrap();
    assert_eq!(listed.jobs.len(), 5);
}

/// The plans since the last call that contain the words, all of which use indexes.
async fn held(watch: &mut Watch, what: &str, words: &str) -> Vec<Plan> {
    let plans = watch.plans().await;
    for plan in &plans {
        let scanned = plan.scanned_whole();
        assert!(
            scanned.is_empty(),
            "{what} scans {scanned:?} completely:\n{}\n{:#?}",
            plan.query,
            plan.nodes()[0]
        );
        assert!(plan.names_the_tenant_of_a_body(), "{what} searches a body without its tenant: {plan:#?}");
    }
    let meant: Vec<Plan> = plans.into_iter().filter(|plan| plan.query.contains(words)).collect();
    assert!(!meant.is_empty(), "{what}: no plan was recorded");
    meant
}

fn statement(words: &str) -> &'static str {
    let found =
        windlass::internals::statements().into_iter().map(|(text, _)| text).find(|text| text.contains(words));
    found.unwrap_or_else(|| panic!("no statement contains {words:?}"))
}
