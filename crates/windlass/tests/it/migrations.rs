//! Migrating the schema: concurrently, repeatedly, and what is rejected.

use std::time::Duration;

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;
use windlass::setup::{Migrated, NEWEST_SCHEMA, OLDEST_SCHEMA};
use windlass::{Error, Queue, migrate};
use windlass_testing::{Login, TestDatabase, TestQueue, settings, until_waits_or_ends};

use crate::access::refusal;
use crate::support::count;

async fn empty() -> TestDatabase {
    TestDatabase::create("empty", "", async |_| {}).await
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_processes_migrate_one_empty_database() {
    let database = empty().await;
    let mut migrating = JoinSet::new();
    for _ in 0..10 {
        let settings = settings(database.url());
        migrating.spawn(async move { migrate(&settings).await.unwrap() });
    }
    let done = migrating.join_all().await;
    // Any of them may create the schema.
    let mut applied: Vec<i32> = done.iter().flat_map(|migrated| migrated.applied.clone()).collect();
    applied.sort_unstable();
    assert_eq!((applied[0], applied[applied.len() - 1]), (1, NEWEST_SCHEMA), "{done:?}");
    assert!(applied.is_sorted_by(|one, next| one < next), "each once: {done:?}");
    assert_eq!(done.iter().filter(|migrated| migrated.functions_installed).count(), 1, "{done:?}");
    Queue::connect(settings(database.url())).await.unwrap();
}

/// Roles belong to the whole server, so concurrent migrations of other databases conflict there.
#[tokio::test(flavor = "multi_thread")]
async fn two_databases_of_one_server_migrate_at_once() {
    let mut databases = Vec::new();
    for _ in 0..4 {
        databases.push(empty().await);
    }
    let mut migrating = JoinSet::new();
    for database in &databases {
        let settings = settings(database.url());
        migrating.spawn(async move { migrate(&settings).await.unwrap() });
    }
    migrating.join_all().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_migration_changes_nothing() {
    let queue = TestQueue::create().await;
    assert_eq!(migrate(&settings(queue.url())).await.unwrap(), Migrated::default());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_edited_migration_is_rejected() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    client
        .batch_execute("update windlass.migration set checksum = 'edited' where version = 2")
        .await
        .unwrap();
    let error = migrate(&settings(queue.url())).await.unwrap_err();
    assert!(matches!(error, Error::MigrationChanged { version: 2 }), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_older_or_newer_schema_is_rejected_with_advice() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    let connect = async || Queue::connect(settings(queue.url())).await;
    let at = async |version: i32| {
        let statement = format!(
            "delete from windlass.migration where version > {NEWEST_SCHEMA};
             insert into windlass.migration (version, name, checksum) values ({version}, 'later', '')"
        );
        client.batch_execute(&statement).await.unwrap();
    };

    at(NEWEST_SCHEMA + 1).await;
    connect().await.unwrap();
    at(NEWEST_SCHEMA + 1000).await;
    let error = connect().await.unwrap_err();
    assert!(matches!(error, Error::SchemaVersion { .. }), "{error}");
    assert!(error.to_string().contains("upgrade this program"), "{error}");

    let statement = format!("delete from windlass.migration where version >= {OLDEST_SCHEMA}");
    client.batch_execute(&statement).await.unwrap();
    let error = connect().await.unwrap_err();
    assert!(error.to_string().contains("run `windlass migrate`"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_database_is_rejected_with_advice() {
    let database = empty().await;
    let error = Queue::connect(settings(database.url())).await.unwrap_err();
    assert!(matches!(error, Error::SchemaVersion { found: 0, .. }), "{error}");
    assert!(error.to_string().contains("run `windlass migrate`"), "{error}");
}

/// What an operator of the previous release requested, before the migration or after it with the functions of that release.
#[tokio::test(flavor = "multi_thread")]
async fn a_drained_worker_stays_drained_during_an_upgrade() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    let register = "select windlass.register_worker($1, 'h', '', '{}', '{}', 60, '{}')";
    for worker in ["before", "between", "never"] {
        client.query_one(register, &[&worker]).await.unwrap();
    }
    let undo = "drop table windlass.drain_request cascade;
        update windlass.job_workers set is_draining = true where worker_id = 'before'";
    client.batch_execute(undo).await.unwrap();
    let migration = include_str!("../../migrations/0028_drain_requests.sql");
    client.batch_execute(&format!("begin; {migration}; commit")).await.unwrap();
    let marked = "select count(*) from windlass.job_workers where is_draining";
    assert_eq!(
        count(&client, marked).await,
        1,
        "the functions of the previous release still read the column"
    );
    let request = "update windlass.job_workers set is_draining = true where worker_id = 'between';
        update windlass.installed_functions set checksum = 'another'";
    client.batch_execute(request).await.unwrap();
    assert!(migrate(&settings(queue.url())).await.unwrap().functions_installed);
    assert_eq!(count(&client, marked).await, 0);
    let beats = "select w.worker_id from windlass.job_workers w, windlass.heartbeat(w.id, 0) b where b.is_draining order by 1";
    let drained: Vec<String> = client.query(beats, &[]).await.unwrap().iter().map(|row| row.get(0)).collect();
    assert_eq!(drained, ["before", "between"]);
}

/// A migrator that dies half-way leaves no partial schema, and no one waits for it.
#[tokio::test(flavor = "multi_thread")]
async fn an_interrupted_migration_can_be_repeated() {
    let database = empty().await;
    let (admin, connection) = tokio_postgres::connect(database.url(), tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    let migrating = settings(database.url());
    let migrating = tokio::spawn(async move { migrate(&migrating).await });
    let cut = "select count(pg_terminate_backend(pid)) from pg_stat_activity
                where datname = current_database() and pid <> pg_backend_pid() and query like '%create table%'";
    windlass_testing::eventually("it was interrupted or has ended", async || {
        migrating.is_finished() || admin.query_one(cut, &[]).await.unwrap().get::<_, i64>(0) > 0
    })
    .await;
    let _ = migrating.await.unwrap();
    migrate(&settings(database.url())).await.unwrap();
    let queue = Queue::connect(settings(database.url())).await.unwrap();
    queue.define(&windlass::Definition::new(format!("d{}", Uuid::new_v4()))).await.unwrap();
}

/// A transaction that never ends holds a lock on everything it has read, like a dump, or written, like an idle application.
#[tokio::test(flavor = "multi_thread")]
async fn installing_functions_waits_for_no_reader_or_writer() {
    for mode in ["access share", "row exclusive"] {
        install_beside(mode).await;
    }
}

async fn install_beside(mode: &str) {
    let queue = TestQueue::create().await;
    let (reader, client) = (queue.client().await, queue.client().await);
    let relations = "select format('lock table windlass.%I in %s mode', c.relname, $1::text) from pg_class c
                      where c.relnamespace = 'windlass'::regnamespace
                        and (c.relkind in ('r', 'p') or c.relkind = 'v' and $1 = 'access share')";
    reader.batch_execute("begin").await.unwrap();
    for row in reader.query(relations, &[&mode]).await.unwrap() {
        reader.batch_execute(row.get(0)).await.unwrap();
    }
    client.batch_execute("update windlass.installed_functions set checksum = 'another'").await.unwrap();
    let migrated = migrate(&settings(queue.url())).await.unwrap();
    assert!(migrated.functions_installed);
    reader.batch_execute("commit").await.unwrap();
}

/// A change of an object in use is abandoned in time, and the error names the blocking session.
#[tokio::test(flavor = "multi_thread")]
async fn a_blocked_migration_names_the_blocking_session() {
    let queue = TestQueue::create().await;
    let (reader, client) = (queue.client().await, queue.client().await);
    let undo = "update windlass.installed_functions set checksum = 'another'; alter table windlass.fire disable row level security";
    client.batch_execute(undo).await.unwrap();
    reader
        .batch_execute("set application_name = 'the dump'; begin; select from windlass.fire")
        .await
        .unwrap();
    let error = migrate(&settings(queue.url())).await.unwrap_err();
    assert!(matches!(&error, Error::MigrationBlocked { by } if by.contains("the dump")), "{error}");
    reader.batch_execute("commit").await.unwrap();
    assert!(migrate(&settings(queue.url())).await.unwrap().functions_installed);
}

/// Postgres acquires the lock of CREATE RULE before it checks privileges, so every login can queue for one. A migration must not
/// wait for such a session while that waits for the migration.
#[tokio::test(flavor = "multi_thread")]
async fn statements_of_a_login_without_privileges_do_not_stop_a_migration() {
    let queue = TestQueue::create().await;
    let login = Login::create(&queue, "windlass_puller").await;
    let client = queue.client().await;
    let is_over = CancellationToken::new();
    let mut others = JoinSet::new();
    for table in ["migration", "installed_functions", "migrating"] {
        let (other, is_over) = (login.client().await, is_over.clone());
        others.spawn(async move {
            let rule = format!("create rule r as on insert to windlass.{table} do nothing");
            while !is_over.is_cancelled() {
                assert_eq!(refusal(other.query(&rule, &[]).await), "42501");
            }
        });
    }
    for _ in 0..3 {
        client.batch_execute("update windlass.installed_functions set checksum = 'another'").await.unwrap();
        let migrated = tokio::time::timeout(Duration::from_secs(60), migrate(&settings(queue.url()))).await;
        assert!(migrated.expect("it ends").unwrap().functions_installed);
    }
    is_over.cancel();
    others.join_all().await;
    login.drop().await;
}

/// With a table of its own, such a login even gets the lock, because Postgres reads the action of the rule under it. Neither the migration
/// nor the doctor waits without an end, and both name the session.
#[tokio::test(flavor = "multi_thread")]
async fn a_lock_of_a_login_without_privileges_ends_a_migration_and_the_doctor_with_its_name() {
    let queue = TestQueue::create().await;
    let login = Login::create(&queue, "windlass_puller").await;
    let admin = queue.client().await;
    admin.batch_execute(&format!("create schema held authorization {}", login.name)).await.unwrap();
    let holder = login.client().await;
    holder.batch_execute("create table held.own ()").await.unwrap();
    holder.batch_execute("begin; lock table held.own").await.unwrap();
    admin.batch_execute("update windlass.installed_functions set checksum = 'another'").await.unwrap();
    for table in ["migrating", "migration"] {
        let locker = login.client().await;
        let pid: i32 = locker.query_one("select pg_backend_pid()", &[]).await.unwrap().get(0);
        let rule = format!("create rule r as on insert to windlass.{table} do also delete from held.own");
        let locking = tokio::spawn(async move { locker.batch_execute(&rule).await });
        until_waits_or_ends(&admin, &locking).await;
        if locking.is_finished() {
            panic!("the rule does not wait for the table of its action: {:?}", locking.await.unwrap());
        }
        let refused = migrate(&settings(queue.url())).await.unwrap_err();
        let named = format!("process {pid} of {}", login.name);
        assert!(matches!(&refused, Error::MigrationBlocked { by } if by.starts_with(&named)), "{refused}");
        if table == "migration" {
            let findings = windlass::setup::examine(&settings(queue.url())).await.unwrap();
            let locks = findings.iter().find(|one| one.check == "locks").expect("it is a finding");
            assert!(locks.found.contains(&named), "{locks:?}");
        }
        let end = format!("select pg_terminate_backend({pid})");
        admin.query_one(&end, &[]).await.unwrap();
        locking.await.unwrap().unwrap_err();
    }
    drop(holder);
    admin.batch_execute("drop schema held cascade").await.unwrap_or_default();
    login.drop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_older_release_keeps_a_newer_ones_functions() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    // The next revision, which may be of the same version of the program.
    let newer = "update windlass.installed_functions set checksum = 'newer', release = release + 1;
                 create function windlass.newer() returns void language sql as '';
                 alter function windlass.newer owner to windlass_owner;
                 grant execute on function windlass.newer to windlass_app";
    client.batch_execute(newer).await.unwrap();
    let migrated = migrate(&settings(queue.url())).await.unwrap();
    assert!(
        migrated.is_newer && migrated.applied.is_empty() && !migrated.functions_installed,
        "{migrated:?}"
    );
    let kept = "select has_function_privilege('windlass_app', 'windlass.newer()', 'execute') and i.checksum = 'newer'
                  from windlass.installed_functions i";
    assert!(client.query_one(kept, &[]).await.unwrap().get::<_, bool>(0));
    Queue::connect(settings(queue.url())).await.unwrap();
}

/// Every build of an unreleased version has the same number, and their functions differ.
#[tokio::test(flavor = "multi_thread")]
async fn the_recorded_revision_is_that_of_the_functions() {
    let queue = TestQueue::create().await;
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/src/store/functions/revision.txt");
    let revision = std::fs::read_to_string(file).unwrap();
    let query = "select format(E'%s %s\n', i.release, i.checksum) from windlass.installed_functions i";
    let recorded: String = queue.client().await.query_one(query, &[]).await.unwrap().get(0);
    assert_eq!(recorded, revision);
}
