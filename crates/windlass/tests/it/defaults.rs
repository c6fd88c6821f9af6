//! Databases with unusual defaults. The guarantees of a queue must not depend on them.

mod core;
mod isolation;
mod levels;
mod old_snapshot;

use windlass::job::Filter;
use windlass::{DEFAULT_TENANT, Definition, NewJob, Queue};
use windlass_testing::{Login, SHADOWS, TestQueue, settings};

/// Names that precede Postgres's own, in a schema that every role may write.
pub(crate) const HOSTILE_PATH: (&str, &str) = ("search_path", "hostile, public, pg_catalog");
pub(crate) const HOSTILE_NAMES: &str = "set search_path = pg_catalog;
        create schema hostile; grant all on schema hostile to public;
        create table hostile.job (id int); create table hostile.jobs (id int); create table hostile.line (id int);
        create table hostile.tenants (id int); create table hostile.history (id int);
        create function hostile.clock_timestamp() returns timestamptz language plpgsql as 'begin raise exception ''hostile''; end';
        create function hostile.now() returns timestamptz language plpgsql as 'begin raise exception ''hostile''; end';
        create function hostile.unnest(uuid[]) returns setof uuid language plpgsql as 'begin raise exception ''hostile''; end';
        create function hostile.cardinality(uuid[]) returns int language plpgsql as 'begin raise exception ''hostile''; end';
        create function hostile.eq(uuid, uuid) returns boolean language plpgsql as 'begin raise exception ''hostile''; end';
        create operator hostile.= (leftarg = uuid, rightarg = uuid, function = hostile.eq);
        create function hostile.eq(text, text) returns boolean language plpgsql as 'begin raise exception ''hostile''; end';
        create operator hostile.= (leftarg = text, rightarg = text, function = hostile.eq);";

/// One database with each of these, and the core of the library on it.
#[tokio::test(flavor = "multi_thread")]
async fn the_core_works_with_another_time_zone_and_value_formats() {
    core::run(&[
        ("timezone", "'America/New_York'"),
        ("datestyle", "'German, DMY'"),
        ("intervalstyle", "sql_standard"),
        ("bytea_output", "escape"),
        ("extra_float_digits", "-5"),
        ("standard_conforming_strings", "off"),
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_core_works_where_transactions_are_repeatable_read_by_default() {
    core::run(&[("default_transaction_isolation", "'repeatable read'")]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_core_works_where_transactions_are_serializable_by_default() {
    core::run(&[("default_transaction_isolation", "serializable"), ("default_transaction_deferrable", "on")])
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_core_works_with_short_timeouts_and_late_commits() {
    core::run(&[
        ("synchronous_commit", "off"),
        ("statement_timeout", "'5s'"),
        ("lock_timeout", "'2s'"),
        ("idle_in_transaction_session_timeout", "'5s'"),
    ])
    .await;
}

/// Names that precede Postgres's own in the search path, in a schema that every role may write.
#[tokio::test(flavor = "multi_thread")]
async fn the_core_works_where_hostile_names_come_first() {
    let queue = TestQueue::create_under(&[HOSTILE_PATH]).await;
    queue.client().await.batch_execute(HOSTILE_NAMES).await.unwrap();
    core::run_on(&queue).await;
}

/// With the usual search path, where an application that may create functions in `public` has one for exactly our arguments.
#[tokio::test(flavor = "multi_thread")]
async fn no_function_of_public_runs_in_our_own_statements() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    client.batch_execute(SHADOWS).await.unwrap();
    let path: String = client.query_one("show search_path", &[]).await.unwrap().get(0);
    assert!(path.contains("public"), "{path}");
    core::run_on(&queue).await;
    // Behind a pooler there are no options of a connection.
    let pooled = Queue::connect(settings(queue.url()).pooled()).await.unwrap();
    pooled.enqueue_many(&[NewJob::new("held"), NewJob::new("held")]).await.unwrap();
    pooled.list(&Filter::new(DEFAULT_TENANT)).await.unwrap();
    pooled.enqueue(&NewJob::new("held").dedupe_key("a")).await.unwrap();
    let calls = "select is_called from public.shadow_calls";
    assert!(!client.query_one(calls, &[]).await.unwrap().get::<_, bool>(0));
}

/// The migrations and the functions are installed under all of them at once, and what they make is what the core needs.
#[tokio::test(flavor = "multi_thread")]
async fn an_empty_database_with_hostile_defaults_is_migrated() {
    let queue = TestQueue::migrated_under(
        &[
            HOSTILE_PATH,
            ("timezone", "'America/New_York'"),
            ("datestyle", "'German, DMY'"),
            ("intervalstyle", "sql_standard"),
            ("bytea_output", "escape"),
            ("extra_float_digits", "-5"),
            ("default_transaction_isolation", "serializable"),
            ("default_transaction_deferrable", "on"),
            ("synchronous_commit", "off"),
            ("statement_timeout", "'5s'"),
            ("lock_timeout", "'2s'"),
            ("idle_in_transaction_session_timeout", "'5s'"),
        ],
        HOSTILE_NAMES,
    )
    .await;
    core::run_on(&queue).await;
    // The same as without hostile defaults.
    let objects = "set search_path = pg_catalog; create temp table objects as
        select p.oid::regprocedure::text as name, p.prosrc || coalesce(p.proconfig::text, '') as content from pg_proc p where p.pronamespace = 'windlass'::regnamespace
        union all select conname, pg_get_constraintdef(oid) from pg_constraint where connamespace = 'windlass'::regnamespace and conrelid::regclass::text !~ '_[0-9]{8}'
        union all select c.relname, coalesce(string_agg(a.attname || format_type(a.atttypid, a.atttypmod) || coalesce(pg_get_expr(d.adbin, d.adrelid), ''), ',' order by a.attnum), '')
          from pg_class c left join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 left join pg_attrdef d on d.adrelid = c.oid and d.adnum = a.attnum
         where c.relnamespace = 'windlass'::regnamespace and c.relname !~ '_[0-9]{8}' group by c.relname";
    let digest = "select md5(string_agg(name || content, ',' order by name, content)) from objects";
    let mut digests = Vec::new();
    for client in [queue.client().await, TestQueue::create().await.client().await] {
        client.batch_execute(objects).await.unwrap();
        digests.push(client.query_one(digest, &[]).await.unwrap().get::<_, String>(0));
    }
    assert_eq!(digests[0], digests[1]);
}

/// Nothing can be written there, and the caller gets the reason.
#[tokio::test]
async fn a_read_only_database_is_rejected_with_its_reason() {
    let queue = TestQueue::create_under(&[("default_transaction_read_only", "on")]).await;
    let error = queue.define(&Definition::new("held")).await.unwrap_err().to_string();
    assert!(error.contains("read-only transaction"), "{error}");
}

/// Row-level security is the second barrier; a login that disables it reads nothing at all. The functions do not depend on it.
#[tokio::test]
async fn a_database_without_row_security_is_rejected_with_its_reason() {
    let queue = TestQueue::create().await;
    queue.define(&Definition::new("held")).await.unwrap();
    let client = queue.client().await;
    let name: String = client.query_one("select current_database()::text", &[]).await.unwrap().get(0);
    client.batch_execute(&format!("alter database {name} set row_security = off")).await.unwrap();
    let role = Login::create(&queue, "windlass_app").await;
    let theirs = role.client().await;
    theirs.batch_execute(&format!("set windlass.tenant_id = '{DEFAULT_TENANT}'")).await.unwrap();
    for table in ["jobs", "job", "job_counts"] {
        let error = theirs.query(&format!("select from windlass.{table}"), &[]).await.unwrap_err();
        let message = error.as_db_error().map(|error| error.message().to_owned()).unwrap_or_default();
        assert!(message.contains("row-level security"), "{table}: {error}");
    }
    theirs.query("select windlass.enqueue('held')", &[]).await.unwrap();
    role.drop().await;
}
