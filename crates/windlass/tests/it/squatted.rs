//! The schema `windlass` is in the search path of functions that run as its owner, so nobody else may have put anything there.

use tokio_postgres::Client;
use uuid::Uuid;
use windlass::setup::{Finding, Severity, examine};
use windlass::{Error, migrate};
use windlass_testing::{Login, TestDatabase, TestQueue, settings};

async fn connect(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

/// A database without windlass, and a login that may create schemas in it.
async fn empty() -> (TestDatabase, Client, String) {
    let database = TestDatabase::create("empty", "", async |_| {}).await;
    let admin = connect(database.url()).await;
    let squatter = format!("r_{}", Uuid::now_v7().simple());
    let make =
        format!("create role {squatter} login; grant create on database {} to {squatter}", database.name());
    admin.batch_execute(&make).await.unwrap();
    (database, admin, squatter)
}

async fn gone(admin: &Client, squatter: &str) {
    admin.batch_execute(&format!("drop owned by {squatter} cascade; drop role {squatter}")).await.unwrap();
}

/// More specific than Postgres's own `unnest(anyarray)`, so it is the one that a call with that path finds.
const HOSTILE: &str = "create function windlass.unnest(uuid[]) returns setof uuid language plpgsql as
    $$ begin raise exception 'hostile code ran as %', current_user; end $$";

#[tokio::test(flavor = "multi_thread")]
async fn a_schema_that_another_role_created_first_is_refused() {
    let (database, admin, squatter) = empty().await;
    let theirs = connect(&database.url().replacen("windlass@", &format!("{squatter}@"), 1)).await;
    theirs.batch_execute(&format!("create schema windlass; {HOSTILE}")).await.unwrap();
    let refused = migrate(&settings(database.url())).await.unwrap_err();
    assert!(matches!(&refused, Error::SchemaTaken { owner } if *owner == squatter), "{refused}");
    assert!(refused.to_string().contains("rename"), "{refused}");

    // Also where it looks installed. What they would run when they are read is never read.
    let books = "create function windlass.version() returns integer language plpgsql as
          $$ begin raise exception 'hostile code ran as %', current_user; end $$;
        create view windlass.migration as select windlass.version() as version, '' as name, '' as checksum;
        create table windlass.installed_functions (checksum text, release integer)";
    theirs.batch_execute(books).await.unwrap();
    let refused = migrate(&settings(database.url())).await.unwrap_err();
    assert!(matches!(&refused, Error::SchemaTaken { .. }), "{refused}");
    let findings = examine(&settings(database.url())).await.unwrap();
    assert!(dangers(&findings).iter().any(|one| one.found.contains(&squatter)), "{findings:#?}");

    admin.batch_execute("alter schema windlass rename to theirs").await.unwrap();
    migrate(&settings(database.url())).await.unwrap();
    drop(theirs);
    gone(&admin, &squatter).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_in_the_schema_before_the_first_migration_are_refused() {
    let (database, admin, squatter) = empty().await;
    admin
        .batch_execute(&format!("create schema windlass; grant all on schema windlass to {squatter}"))
        .await
        .unwrap();
    let theirs = connect(&database.url().replacen("windlass@", &format!("{squatter}@"), 1)).await;
    theirs.batch_execute(HOSTILE).await.unwrap();
    let refused = migrate(&settings(database.url())).await.unwrap_err();
    let Error::ForeignObjects { objects } = &refused else { panic!("{refused}") };
    assert_eq!(objects, "drop function windlass.unnest(pg_catalog.uuid[])");
    let exists = "select to_regclass('windlass.migration') is not null";
    assert!(!admin.query_one(exists, &[]).await.unwrap().get::<_, bool>(0), "nothing was installed");
    admin.batch_execute(&windlass::setup::print_sql()).await.unwrap_err();
    admin.batch_execute("rollback").await.unwrap();

    admin.batch_execute(objects).await.unwrap();
    migrate(&settings(database.url())).await.unwrap();
    let late = theirs.batch_execute(HOSTILE).await.unwrap_err();
    assert_eq!(late.code().unwrap().code(), "42501", "the privilege from before is revoked");
    drop(theirs);
    gone(&admin, &squatter).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_function_of_another_role_in_the_schema_stops_migrate_and_is_a_danger_until_it_is_dropped() {
    let queue = TestQueue::create().await;
    let admin = queue.client().await;
    let login = Login::create(&queue, "windlass_app").await;
    admin.batch_execute(&format!("grant create on schema windlass to {}", login.name)).await.unwrap();
    login.client().await.batch_execute(HOSTILE).await.unwrap();
    let refused = migrate(&settings(queue.url())).await.unwrap_err();
    assert!(
        matches!(&refused, Error::ForeignObjects { objects } if objects.contains("windlass.unnest")),
        "{refused}"
    );

    let findings = examine(&settings(queue.url())).await.unwrap();
    let [found] = dangers(&findings)[..] else { panic!("{findings:#?}") };
    let advice = found.advice.as_deref().unwrap();
    let remove = advice.split('`').nth(1).unwrap();
    admin.batch_execute(remove).await.unwrap();
    migrate(&settings(queue.url())).await.unwrap();
    assert!(dangers(&examine(&settings(queue.url())).await.unwrap()).is_empty());
    login.drop().await;
}

fn dangers(findings: &[Finding]) -> Vec<&Finding> {
    let schema = findings.iter().filter(|one| one.check == "schema");
    schema.filter(|one| one.severity == Severity::Danger).collect()
}
