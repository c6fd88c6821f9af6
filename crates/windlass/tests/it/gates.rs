//! Locks and notifications that a login can reach without permission: it blocks no one and learns nothing about others.

use regex::Regex;
use serde_json::json;
use tokio_postgres::Client;
use uuid::Uuid;
use windlass::{DEFAULT_TENANT, NewJob, migrate};
use windlass_testing::{Login, TestQueue, eventually, settings};

use crate::cliffs::listen;
use crate::support::{Hand, count, ending};

/// Every login may take any advisory lock, and pg_locks shows the keys of held ones.
#[tokio::test]
async fn no_function_takes_an_advisory_lock() {
    let queue = TestQueue::create().await;
    let query = "select count(*) from pg_proc p where p.pronamespace = 'windlass'::regnamespace and p.prosrc ilike '%advisory%'";
    assert_eq!(count(&queue.client().await, query).await, 0);
}

/// Takes, in one transaction, every lock that the server grants: on each table the strongest one, those of preparing a statement,
/// which needs no privilege, and advisory locks with every name that was ever used for one.
async fn hold_every_lock(client: &Client, tenant: Uuid) {
    client.batch_execute("begin").await.unwrap();
    let tables = "select c.oid::regclass::text from pg_class c
        where c.relnamespace = 'windlass'::regnamespace and c.relkind in ('r', 'p') and not c.relispartition";
    let attempt = async |sql: &str| {
        client.batch_execute("savepoint s").await.unwrap();
        let end = if client.batch_execute(sql).await.is_ok() { "release s" } else { "rollback to s" };
        client.batch_execute(end).await.unwrap();
        end == "release s"
    };
    for row in client.query(tables, &[]).await.unwrap() {
        let table: &str = row.get(0);
        for mode in ["access exclusive", "exclusive", "share", "share update exclusive", "row exclusive"] {
            assert!(!attempt(&format!("lock table {table} in {mode} mode nowait")).await, "{table}: {mode}");
        }
        attempt(&format!("lock table {table} in access share mode nowait")).await;
        let name = table.replace('.', "_");
        assert!(attempt(&format!("prepare {name}_d as delete from {table}")).await, "{table}");
        assert!(attempt(&format!("prepare {name}_u as select from {table} for update")).await, "{table}");
        assert!(!attempt(&format!("select from {table} for key share")).await, "{table}");
    }
    let names = "waiting tenants_watched seal_audit sample_activity prune_events maintain_partitions fold_tallies prune";
    for name in names.split(' ') {
        client.execute("select pg_advisory_lock(hashtext('windlass.' || $1::text))", &[&name]).await.unwrap();
    }
    let of_all = "select pg_advisory_lock(hashtextextended(p || i, 0))
        from unnest(array['windlass.hold ', 'windlass circle ', 'windlass running ', 'windlass lanes ']) p,
             (select id::text from windlass.job_definitions union all select unnest(array[$1::text, $2::text])) o (i)";
    let ids = [tenant.to_string(), DEFAULT_TENANT.to_string()];
    client.execute(of_all, &[&ids[0], &ids[1]]).await.unwrap();
    client.batch_execute("select pg_advisory_lock(x'0077696e646c6173'::bigint)").await.unwrap();
}

/// A blocked call would time out.
#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_holds_every_lock_it_can_blocks_no_one() {
    let queue = TestQueue::create().await;
    let mut hand = Hand::new(queue.client().await).await;
    hand.define(json!({"key": "held", "max_running": 5})).await;
    let tenant = queue.tenant("a").await;
    hand.client.execute("update windlass.tenants set max_running = 5, max_lanes = 10", &[]).await.unwrap();
    let job = hand.enqueue("'held', ordering_key => 'k'").await;
    let reader = Login::create(&queue, "windlass_reader").await;
    let holding = reader.client().await;
    hold_every_lock(&holding, tenant).await;

    hand.client = queue.client().await;
    hand.client.batch_execute("set lock_timeout = '5s'; set statement_timeout = '60s'").await.unwrap();
    let fence = hand.claim_one().await;
    assert!(hand.settle(&fence, Some(ending::failed())).await);
    assert_eq!(hand.retry(job).await, "queued");
    let calls = [
        format!("windlass.set_waiting({}, true)", hand.worker),
        format!("windlass.set_waiting({}, false)", hand.worker),
        "(windlass.fold_tallies(100)).moved > 0".to_owned(),
        "(windlass.prune(100)).moved >= 0".to_owned(),
        "(windlass.prune_events(100)).moved >= 0".to_owned(),
        "windlass.sample_activity(1) >= 0".to_owned(),
        "(select not m.is_unfinished from windlass.maintain_partitions(0) m)".to_owned(),
        format!("windlass.place_hold('{DEFAULT_TENANT}', null, 's', 's', 'r', 'a') is not null"),
        format!("windlass.purge('{DEFAULT_TENANT}', array['{job}']::uuid[]) = 1"),
        format!("(select p.purged = 0 from windlass.purge_tenant('{tenant}', 10) p)"),
        "windlass.change_tenant(windlass.tenant_for(null), '{\"max_queued\": 100}') is not null".to_owned(),
    ];
    for call in calls {
        let result = hand.client.query_one(&format!("select {call}"), &[]).await;
        let row = result.unwrap_or_else(|error| panic!("{call}: {error:?}"));
        assert!(row.get::<_, bool>(0) || call.contains("set_waiting"), "{call}");
    }
    eventually("the audit trail is sealed", async || {
        // Rows that a transaction of any database is still writing are left for later.
        count(&hand.client, "select moved::bigint from windlass.seal_audit(100)").await > 0
    })
    .await;
    for n in 0..3 {
        queue.enqueue(&NewJob::new("held").queue(format!("q{n}"))).await.unwrap();
    }
    hand.client.batch_execute("update windlass.installed_functions set checksum = ''").await.unwrap();
    assert!(migrate(&settings(queue.url())).await.unwrap().functions_installed);
    let watching = queue.client().await;
    let held =
        "select count(*) from pg_locks where locktype = 'advisory' and granted and pid <> pg_backend_pid()";
    assert!(count(&watching, held).await >= 17, "the reader still holds them");
    drop(holding);
}

/// Every login of the database receives the notifications, regardless of its tenant.
#[tokio::test(flavor = "multi_thread")]
async fn notifications_contain_no_tenant_data() {
    let queue = TestQueue::create().await;
    let hand = Hand::new(queue.client().await).await;
    let tenant = queue.tenant("private").await;
    hand.define(json!({"key": "private-kind", "queue": "private-queue", "max_running": 1})).await;
    hand.client
        .execute("update windlass.tenants set max_running = 1 where id = $1", &[&tenant])
        .await
        .unwrap();
    hand.client.execute("select windlass.set_waiting($1, true)", &[&hand.worker]).await.unwrap();
    let app = Login::create(&queue, "windlass_app").await;
    let (listener, mut notifications) = listen(app.url()).await;
    let of_tenant = format!("'private-kind', tenant_id => '{tenant}'");
    let mut jobs = vec![hand.enqueue(&of_tenant).await, hand.enqueue(&of_tenant).await];
    jobs.push(hand.enqueue(&format!("{of_tenant}, depends_on => array['{}']::uuid[]", jobs[0])).await);
    let fence = hand.claim_one().await;
    assert!(hand.settle(&fence, None).await);
    let fence = hand.claim_one().await;
    let cancel = "select windlass.cancel($1, $2)";
    hand.client.execute(cancel, &[&tenant, &fence.job]).await.unwrap();
    assert!(hand.settle(&fence, Some(ending::failed())).await);
    hand.client
        .batch_execute(
            "insert into windlass.leader (duty, holder, epoch, expires_at, notifies_until)
            values ('dispatch', gen_random_uuid(), 1, now(), now() + interval '1 hour')
            on conflict (duty) do update set notifies_until = excluded.notifies_until",
        )
        .await
        .unwrap();
    let emit = "select windlass.emit('private.event', '{\"x\": 1}', $1)";
    hand.client.execute(emit, &[&tenant]).await.unwrap();
    queue.client().await.batch_execute("notify windlass, 'over'").await.unwrap();

    let form = Regex::new("^([0-9]+|limit [0-9]+|cancel [0-9]+|all|events|schedule|unblock)$").unwrap();
    let mut notified = Vec::new();
    loop {
        let payload = notifications.recv().await.unwrap();
        if payload == "over" {
            break;
        }
        assert!(form.is_match(&payload), "{payload}");
        notified.push(payload);
    }
    for word in ["limit ", "cancel ", "events"] {
        assert!(notified.iter().any(|payload| payload.starts_with(word)), "{word}: {notified:?}");
    }
    drop(listener);
}

/// So that a new one is reviewed: see decision 0016.
#[tokio::test]
async fn every_notification_is_free_of_tenant_data() {
    let queue = TestQueue::create().await;
    let query = "select distinct m[1] from pg_proc p, regexp_matches(p.prosrc, 'pg_notify\\(([^;]*?)\\)(?:;| from|\\s+from)', 'g') m
        where p.pronamespace = 'windlass'::regnamespace order by 1";
    let rows = queue.client().await.query(query, &[]).await.unwrap();
    let notified: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
    let known = [
        "'windlass', 'cancel ' || held.worker",
        "'windlass', 'events'",
        "'windlass', 'limit ' || g.number",
        "'windlass', 'schedule'",
        "'windlass', 'unblock'",
        "'windlass', coalesce(lane::text, 'all')",
        "'windlass', n.lane::text",
        "'windlass', pg_catalog.int4out($3)::pg_catalog.text",
    ];
    assert_eq!(notified, known);
}
