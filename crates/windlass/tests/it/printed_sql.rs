//! The SQL for people's own migration tools creates the same schema as `migrate`.

use tokio_postgres::Client;
use windlass::setup::{Migrated, NEWEST_SCHEMA, print_sql, print_sql_from};
use windlass::{internals, migrate};
use windlass_testing::{TestDatabase, TestQueue, settings};

async fn empty() -> (TestDatabase, Client) {
    let database = TestDatabase::create("empty", "", async |_| {}).await;
    let (client, connection) = tokio_postgres::connect(database.url(), tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    (database, client)
}

/// Every column, index and constraint; owners, policies, privileges and functions are compared by `internals::catalog_lines`.
const SHAPE: &str = "select string_agg(l.line, E'\n' order by l.line collate \"C\") from (
    select format('%s.%s %s %s %s %s', c.relname, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull, a.attidentity,
             pg_get_expr(d.adbin, d.adrelid)) as line
      from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
      left join pg_attrdef d on d.adrelid = c.oid and d.adnum = a.attnum
     where c.relnamespace = 'windlass'::regnamespace and c.relkind in ('r', 'p', 'v')
    union all select pg_get_indexdef(i.indexrelid) from pg_index i join pg_class c on c.oid = i.indexrelid
     where c.relnamespace = 'windlass'::regnamespace
    union all select format('%s %s %s', t.conrelid::regclass, t.conname, pg_get_constraintdef(t.oid)) from pg_constraint t
     where t.connamespace = 'windlass'::regnamespace
    union all select pg_get_triggerdef(t.oid) from pg_trigger t join pg_class c on c.oid = t.tgrelid
     where c.relnamespace = 'windlass'::regnamespace and not t.tgisinternal
    union all select format('%s %s %s', m.version, m.name, m.checksum) from windlass.migration m
    union all select format('%s %s', i.checksum, i.release) from windlass.installed_functions i
    union all select format('%s %s', n.nspname, obj_description(n.oid)) from pg_namespace n where n.nspname = 'windlass') l";

async fn assert_same_as_migrate(database: &TestDatabase, client: &Client) {
    assert_eq!(migrate(&settings(database.url())).await.unwrap(), Migrated::default());
    let queue = TestQueue::create().await;
    let ours = queue.client().await;
    let shape = async |client: &Client| client.query_one(SHAPE, &[]).await.unwrap().get::<_, String>(0);
    let (by_hand, by_us) = (shape(client).await, shape(&ours).await);
    assert!(by_us.lines().count() > 500, "{by_us}");
    similar(&by_hand, &by_us);
    let by_hand = internals::catalog_lines(&settings(database.url())).await.unwrap();
    similar(&by_hand, &internals::catalog_lines(&settings(queue.url())).await.unwrap());
}

#[track_caller]
fn similar(one: &str, other: &str) {
    let only = |one: &str, other: &str| {
        one.lines().filter(|line| !other.lines().any(|l| l == *line)).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!((only(one, other), only(other, one)), (vec![], vec![]));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_printed_sql_creates_the_same_schema_as_migrate() {
    let (database, client) = empty().await;
    client.batch_execute(&format!("begin;\n{}\ncommit", print_sql())).await.unwrap();
    assert_same_as_migrate(&database, &client).await;
    client.batch_execute(&print_sql()).await.unwrap_err();
}

/// Statement by statement, as psql does without `--single-transaction`. psql cuts the text, as it does for people.
#[tokio::test(flavor = "multi_thread")]
async fn the_printed_sql_also_works_outside_of_a_transaction() {
    let (database, client) = empty().await;
    let mut psql = tokio::process::Command::new("psql");
    psql.args(["-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", database.url()]);
    psql.stdin(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    let mut running = psql.spawn().unwrap();
    let mut stdin = running.stdin.take().unwrap();
    tokio::io::AsyncWriteExt::write_all(&mut stdin, print_sql().as_bytes()).await.unwrap();
    drop(stdin);
    let output = running.wait_with_output().await.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_same_as_migrate(&database, &client).await;
}

/// An upgrade from an earlier version, which here ends before the functions: the migrations are cut from the whole.
#[tokio::test(flavor = "multi_thread")]
async fn the_sql_from_a_version_on_completes_a_database_of_that_version() {
    let (database, client) = empty().await;
    let version = 13;
    let all = print_sql();
    let next = all.find("\n-- migration 14 ").unwrap();
    client.batch_execute(&format!("begin;\n{}\nreset role; commit", &all[..next])).await.unwrap();
    let refused = client.batch_execute(&print_sql_from(NEWEST_SCHEMA)).await.unwrap_err();
    assert!(refused.as_db_error().unwrap().message().contains("has version 13"), "{refused:?}");
    client.batch_execute(&format!("begin;\n{}\ncommit", print_sql_from(version))).await.unwrap();
    assert_same_as_migrate(&database, &client).await;
}

/// The list that `doctor` and `migrate` compare a database with. `WINDLASS_BLESS=1` writes it.
#[tokio::test(flavor = "multi_thread")]
async fn the_list_of_objects_is_that_of_a_fresh_database() {
    // Not by `migrate`, which refuses a database that differs from the list.
    let (database, client) = empty().await;
    client.batch_execute(&print_sql()).await.unwrap();
    let fresh = internals::catalog_lines(&settings(database.url())).await.unwrap();
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/src/store/catalog.txt");
    if std::env::var_os("WINDLASS_BLESS").is_some() {
        std::fs::write(file, fresh).unwrap();
        return;
    }
    let listed = std::fs::read_to_string(file).unwrap();
    let only = |one: &str, other: &str| {
        one.lines().filter(|line| !other.lines().any(|l| l == *line)).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(
        (only(&fresh, &listed), only(&listed, &fresh)),
        (vec![], vec![]),
        "the objects of a fresh database are not those of {file}: run this test with WINDLASS_BLESS=1, and read what it changes"
    );
}
