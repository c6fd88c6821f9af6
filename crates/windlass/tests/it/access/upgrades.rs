//! What a login or a site has created beside the schema does not stop an upgrade, and an upgrade does not take it away.

use uuid::Uuid;
use windlass::setup::{Severity, examine, pending};
use windlass::{Error, migrate};
use windlass_testing::{Login, TestQueue, settings};

use super::{GROUPS, refusal};
use crate::support::count;

const OUTDATED: &str = "update windlass.installed_functions set checksum = 'another', release = 0; comment on schema windlass is 'older'";

/// a table cannot be altered while a column of another table has its row type.
#[tokio::test]
async fn no_login_creates_a_column_of_the_type_of_a_table() {
    let queue = TestQueue::create().await;
    let admin = queue.client().await;
    let tables = "select c.relname::text from pg_class c where c.relnamespace = 'windlass'::regnamespace and c.relkind in ('r', 'p')";
    for group in GROUPS {
        let role = Login::create(&queue, group).await;
        let client = role.client().await;
        for row in admin.query(tables, &[]).await.unwrap() {
            let table: &str = row.get(0);
            for kind in [table.to_owned(), format!("{table}[]")] {
                let create = format!("create temp table mine (x windlass.{kind})");
                assert_eq!(refusal(client.batch_execute(&create).await), "42501", "{group}: {create}");
            }
        }
        drop(client);
        role.drop().await;
    }
}

/// a dump does not contain the privileges on these types, and new partitions have types of their own.
#[tokio::test]
async fn the_types_of_restored_and_new_tables_are_closed_by_the_keeper() {
    let queue = TestQueue::create().await;
    let admin = queue.client().await;
    let open = "select count(*) from pg_type t join pg_class c on c.oid = t.typrelid, aclexplode(coalesce(t.typacl, acldefault('T', t.typowner))) a
        where c.relnamespace = 'windlass'::regnamespace and c.relkind in ('r', 'p') and a.grantee = 0";
    assert_eq!(count(&admin, open).await, 0);
    admin.batch_execute("grant usage on type windlass.tenants to public").await.unwrap();
    assert_eq!(count(&admin, open).await, 1);
    let made = "select made::bigint from windlass.maintain_partitions(4)";
    assert!(count(&admin, made).await > 0);
    assert_eq!(count(&admin, open).await, 0);
}

/// Migration 14 adds a column with a default to the tenants, which Postgres refuses while their row type is used.
const WITHOUT_14: &str = "
    alter table windlass.event_pending drop column bytes, drop column after_trigger, drop column problem, drop column retry_at;
    create index event_pending_in_line on windlass.event_pending (seq);
    drop index windlass.sessions_by_token, windlass.deferred_of_tenant, windlass.expiry_of_tenant, windlass.purge_wait_of_tenant,
      windlass.job_triggers_due_of_tenant, windlass.job_workers_of_tenant;
    alter table windlass.tenants drop column max_triggers;
    delete from windlass.migration where version = 14";

/// of an earlier release, whose types everybody could use.
#[tokio::test(flavor = "multi_thread")]
async fn a_migration_that_a_column_of_a_row_type_stops_says_how_to_drop_it() {
    let queue = TestQueue::create().await;
    let admin = queue.client().await;
    admin
        .batch_execute(&format!("create table public.mine (x windlass.tenants); {WITHOUT_14}; {OUTDATED}"))
        .await
        .unwrap();
    let refused = migrate(&settings(queue.url())).await.unwrap_err();
    let Error::MigrationDependents { statements, .. } = &refused else { panic!("{refused}") };
    assert_eq!(statements, "alter table public.mine drop column x");
    admin.batch_execute(statements).await.unwrap();
    assert_eq!(migrate(&settings(queue.url())).await.unwrap().applied, [14]);
}

/// what can depend on a function besides a view, and the statements that create and drop it.
const DEPENDENTS: [(&str, &str); 6] = [
    (
        "create temp table t (a uuid); create policy p on t using (windlass.waiting_behind(a, a) = 1)",
        "drop table t",
    ),
    (
        "create domain pg_temp.d as integer default windlass.waiting_behind(null, null)",
        "drop domain pg_temp.d",
    ),
    (
        "create domain pg_temp.d as integer check (value <> windlass.waiting_behind(null, null))",
        "drop domain pg_temp.d",
    ),
    (
        "create temp table t (a uuid); create statistics pg_temp.s on (windlass.waiting_behind(a, a)), a from t",
        "drop table t",
    ),
    ("create temp table t (a uuid); create index i on t (windlass.waiting_behind(a, a))", "drop table t"),
    (
        "create operator pg_temp.### (function = windlass.waiting_behind, leftarg = uuid, rightarg = uuid)",
        "drop operator pg_temp.### (uuid, uuid)",
    ),
];

/// a migration drops the functions of earlier releases.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_that_depends_on_an_old_function_stops_an_upgrade() {
    let queue = TestQueue::create().await;
    let admin = queue.client().await;
    let role = Login::create(&queue, "windlass_reader").await;
    let reader = role.client().await;
    let old = "set role windlass_owner;
        create function windlass.waiting_behind(a uuid, b uuid) returns integer immutable language sql as 'select 1';
        grant execute on function windlass.waiting_behind to windlass_reader;
        reset role";
    let found = "select p.proname::text from pg_proc p where p.proname ~ 'waiting_behind'";
    for (create, remove) in DEPENDENTS {
        admin.batch_execute(&format!("{old}; {OUTDATED}")).await.unwrap();
        reader.batch_execute(create).await.unwrap_or_else(|error| panic!("{create}: {error:?}"));
        let migrated = migrate(&settings(queue.url())).await;
        assert!(migrated.as_ref().is_ok_and(|one| one.functions_installed), "{create}: {migrated:?}");
        let kept: String = admin.query_one(found, &[]).await.unwrap().get(0);
        assert!(kept.starts_with("replaced_"), "{create}: {kept}");
        reader.batch_execute(remove).await.unwrap();
        admin.batch_execute(&format!("drop function windlass.{kept}")).await.unwrap();
    }
    drop(reader);
    role.drop().await;
}

/// a site names its own roles as it likes.
#[tokio::test(flavor = "multi_thread")]
async fn an_upgrade_keeps_the_grants_of_a_role_whose_name_begins_like_ours() {
    let queue = TestQueue::create().await;
    let admin = queue.client().await;
    let site = format!("windlass_grafana_{}", Uuid::now_v7().simple());
    let grant = format!(
        "create role {site}; grant usage on schema windlass to {site}; grant select on windlass.job_counts to {site};
         grant select (slug) on windlass.tenants to {site}; grant execute on function windlass.problems to {site}"
    );
    admin.batch_execute(&grant).await.unwrap();
    assert!(pending(&settings(queue.url())).await.unwrap().is_nothing());
    admin.batch_execute(OUTDATED).await.unwrap();
    assert!(migrate(&settings(queue.url())).await.unwrap().functions_installed);
    let kept = "select has_schema_privilege($1, 'windlass', 'usage') and has_table_privilege($1, 'windlass.job_counts', 'select')
        and has_column_privilege($1, 'windlass.tenants', 'slug', 'select')
        and has_function_privilege($1, (select p.oid from pg_proc p where p.proname = 'problems'), 'execute')";
    assert!(admin.query_one(kept, &[&site]).await.unwrap().get::<_, bool>(0));
    let findings = examine(&settings(queue.url())).await.unwrap();
    let schema: Vec<_> = findings.iter().filter(|one| one.check == "schema").collect();
    assert!(schema.iter().all(|one| one.severity == Severity::Fine), "{schema:#?}");
    admin.batch_execute(&format!("drop owned by {site}; drop role {site}")).await.unwrap();
}
