//! The documents match the code: each table marked as checked is compared with what it describes.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};

use tokio_postgres::Client;
use windlass::internals::METRICS;
use windlass::job::State;
use windlass::{Context, Definition, Done, Failure, Handler, NewJob, Worker};
use windlass_testing::{TestQueue, eventually};

const SQL: &str = include_str!("../../../../docs/sql.md");
const EVENTS: &str = include_str!("../../../../docs/events.md");
const TELEMETRY: &str = include_str!("../../../../docs/telemetry.md");
const REFERENCE: &str = include_str!("../../../../docs/event-reference.md");
const README: &str = include_str!("../../../../README.md");

#[test]
fn the_documented_metrics_are_the_metrics() {
    let documented: Vec<(String, String)> =
        table(TELEMETRY, "metrics").into_iter().map(|row| (bare(&row[0]), row[2].clone())).collect();
    let declared: Vec<(String, String)> =
        METRICS.iter().map(|(name, meaning)| ((*name).to_owned(), (*meaning).to_owned())).collect();
    assert_eq!(documented, declared);

    let mut emitted = BTreeSet::new();
    for (kind, names) in emitted_metrics(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src")) {
        for row in table(TELEMETRY, "metrics").iter().filter(|row| names.contains(&bare(&row[0]))) {
            assert_eq!(row[1], kind, "{}", row[0]);
        }
        emitted.extend(names);
    }
    let declared: BTreeSet<String> = METRICS.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(emitted, declared, "the counted and the documented labels");
}

/// Names passed to each macro of the facade, anywhere in the source.
fn emitted_metrics(directory: &Path) -> Vec<(&'static str, BTreeSet<String>)> {
    let mut found: Vec<(&str, BTreeSet<String>)> =
        ["counter", "histogram", "gauge"].map(|kind| (kind, BTreeSet::new())).to_vec();
    let mut directories = vec![directory.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                directories.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path).unwrap();
                for (kind, names) in &mut found {
                    let call = format!("{kind}!(");
                    let calls = text.match_indices(&call).map(|(at, _)| text[at + call.len()..].trim_start());
                    names.extend(
                        calls.filter_map(|rest| Some(rest.strip_prefix('"')?.split('"').next()?.to_owned())),
                    );
                }
            }
        }
    }
    found
}

struct Nothing;

windlass_testing::payload!(NothingArgs(serde_json::Value) = "nothing");

impl Handler for Nothing {
    type Args = NothingArgs;

    async fn run(&self, _: &Context, _: NothingArgs) -> Result<Done, Failure> {
        Ok(Done::new())
    }
}

/// On one thread, so that only the subscriber of this test receives it.
#[tokio::test(flavor = "current_thread")]
async fn every_transition_is_logged_with_the_documented_fields() {
    let heard = Heard::default();
    let subscriber = tracing_subscriber::fmt()
        .json()
        .flatten_event(true)
        .with_max_level(tracing_subscriber::filter::LevelFilter::DEBUG)
        .with_writer({
            let heard = heard.clone();
            move || heard.clone()
        })
        .finish();
    let _guard = tracing::subscriber::set_default(subscriber);

    let queue = TestQueue::create().await;
    let worker = Worker::builder(&queue).handler(Nothing).start().await.unwrap();
    let job = queue.enqueue(&NewJob::new("nothing")).await.unwrap().id;
    eventually("it has run", async || {
        queue.job(windlass::DEFAULT_TENANT, job).await.unwrap().unwrap().status == State::Succeeded
    })
    .await;
    let worker_id = worker.id().to_owned();
    worker.stop().await.unwrap();

    let lines: Vec<serde_json::Value> = heard.lines();
    let moves: Vec<_> = lines.iter().filter(|line| line["message"] == "job moved").collect();
    assert_eq!(moves.len(), 2, "to running, and to its end: {lines:#?}");
    for line in &moves {
        let fields: BTreeSet<&str> = line.as_object().unwrap().keys().map(String::as_str).collect();
        let others = ["timestamp", "level", "message", "target"];
        let documented: Vec<String> =
            table(TELEMETRY, "log-fields").iter().map(|row| bare(&row[0])).collect();
        let expected: BTreeSet<&str> = documented.iter().map(String::as_str).chain(others).collect();
        assert_eq!(fields, expected);
        assert_eq!(line["job_id"], job.to_string());
        assert_eq!(line["worker_id"], worker_id);
    }
    assert_eq!((&moves[1]["from"], &moves[1]["to"]), (&"running".into(), &"succeeded".into()));
}

/// The log of a test on one thread, as JSON.
#[derive(Clone, Default)]
pub(crate) struct Heard(Arc<Mutex<Vec<u8>>>);

impl Heard {
    pub(crate) fn lines(&self) -> Vec<serde_json::Value> {
        let bytes = self.0.lock().unwrap();
        bytes.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok()).collect()
    }
}

impl io::Write for Heard {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn the_documented_sql_functions_have_these_arguments() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    for (document, function, name) in [
        (SQL, "enqueue", "sql-enqueue"),
        (SQL, "enqueue_many", "sql-enqueue-many"),
        (EVENTS, "emit", "sql-emit"),
    ] {
        let documented: Vec<(String, String)> =
            table(document, name).iter().map(|row| (bare(&row[0]), row[1].clone())).collect();
        assert_eq!(documented, arguments(&client, function).await, "windlass.{function}");
    }
}

/// `WINDLASS_BLESS=1` writes it again.
#[tokio::test]
async fn the_documented_functions_are_those_that_applications_may_call() {
    let queue = TestQueue::create().await;
    let query = "select p.proname::text, pg_get_function_identity_arguments(p.oid),
            (select string_agg(r, ', ' order by r) from unnest(array['admin', 'app', 'keeper', 'operator', 'puller', 'reader', 'server', 'worker']) r
              where has_function_privilege('windlass_' || r, p.oid, 'execute'))
        from pg_proc p
       where p.pronamespace = 'windlass'::regnamespace
         and (has_function_privilege('windlass_app', p.oid, 'execute') or has_function_privilege('windlass_reader', p.oid, 'execute')
           or has_function_privilege('windlass_puller', p.oid, 'execute') or has_function_privilege('windlass_admin', p.oid, 'execute'))
       order by 1, 2";
    let mut expected = String::from("| function | arguments | roles |\n|---|---|---|\n");
    for row in queue.client().await.query(query, &[]).await.unwrap() {
        let (name, arguments, roles): (String, String, String) = (row.get(0), row.get(1), row.get(2));
        expected += &format!("| `{name}` | {arguments} | {roles} |\n");
    }
    check_table("sql-functions", &expected);
}

/// The tables that somebody can read, and who. `WINDLASS_BLESS=1` writes the table again.
#[tokio::test]
async fn the_documented_tables_are_those_that_roles_can_read() {
    let queue = TestQueue::create().await;
    let query = "
        select format(E'| `%s` | %s%s |\n', c.relname, string_agg(r.role, ', ' order by r.role),
                 max((select ' (without `' || string_agg(a.attname, '`, `' order by a.attnum) || '`)' from pg_attribute a
                   where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
                     and not has_column_privilege('windlass_' || r.role, c.oid, a.attnum, 'select'))))
          from pg_class c cross join unnest(array['app', 'worker', 'keeper', 'server', 'admin', 'operator', 'reader', 'puller']) r (role)
         where c.relnamespace = 'windlass'::regnamespace and c.relkind in ('r', 'p') and c.relname !~ '_[0-9]{8}'
           and has_any_column_privilege('windlass_' || r.role, c.oid, 'select')
         group by c.relname order by c.relname collate \"C\"";
    let rows = queue.client().await.query(query, &[]).await.unwrap();
    let rows: String = rows.iter().map(|row| row.get::<_, String>(0)).collect();
    check_table("sql-tables", &format!("| table | roles that can read it |\n|---|---|\n{rows}"));
}

/// Compares a table of the page on SQL with what it should be, or writes it.
fn check_table(name: &str, expected: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/sql.md");
    let text = fs::read_to_string(&path).unwrap();
    let mark = format!("<!-- checked: {name} -->\n\n");
    let start = text.find(&mark).unwrap() + mark.len();
    let end = start + text[start..].find("\n\n").unwrap() + 1;
    if std::env::var_os("WINDLASS_BLESS").is_some() {
        fs::write(&path, format!("{}{expected}{}", &text[..start], &text[end..])).unwrap();
        return;
    }
    assert_eq!(&text[start..end], expected, "docs/sql.md is out of date: WINDLASS_BLESS=1 writes it again");
}

/// The functions that the page on SQL explains: with their real arguments, and callable by an application, an operator or a SQL worker.
#[tokio::test]
async fn the_explained_functions_have_the_documented_arguments() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    let tables = SQL.split("| function | effect | returns |\n|---|---|---|\n").skip(1);
    let mut seen = 0;
    for row in tables.flat_map(|below| below.lines().take_while(|line| line.starts_with('|'))) {
        let call = row.split('`').nth(1).unwrap().strip_prefix("windlass.").unwrap();
        let (name, given) = call.trim_end_matches(')').split_once('(').unwrap();
        let query = "select (p.pronargs - p.pronargdefaults)::integer, p.pronargs::integer,
                has_function_privilege('windlass_app', p.oid, 'execute') or has_function_privilege('windlass_server', p.oid, 'execute')
                or has_function_privilege('windlass_puller', p.oid, 'execute')
            from pg_proc p where p.pronamespace = 'windlass'::regnamespace and p.proname = $1";
        let row = client.query_one(query, &[&name]).await.unwrap_or_else(|error| panic!("{call}: {error}"));
        let given = i32::try_from(given.split(", ").count()).unwrap();
        assert!((row.get::<_, i32>(0)..=row.get::<_, i32>(1)).contains(&given), "{call}");
        assert!(row.get::<_, bool>(2), "{call} is neither for applications nor for operators");
        seen += 1;
    }
    assert!(seen >= 13, "found only {seen}");
}

#[test]
fn the_documented_fields_of_a_transition_are_its_fields() {
    let source = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("src/telemetry.rs")).unwrap();
    let (_, fields) = source.split_once("pub struct Transition {\n").unwrap();
    let fields = fields.split("\n}").next().unwrap().lines();
    let fields: Vec<&str> =
        fields.filter_map(|line| line.trim().strip_prefix("pub ")?.split(':').next()).collect();
    let documented: Vec<String> =
        table(REFERENCE, "transition-fields").iter().map(|row| bare(&row[0])).collect();
    assert_eq!(documented, fields);
}

/// Names and types of the arguments that a caller passes.
async fn arguments(client: &Client, function: &str) -> Vec<(String, String)> {
    let query = "select a.name, format_type(a.type, null)
        from pg_proc p
        cross join unnest(p.proargnames, p.proallargtypes, p.proargmodes) a (name, type, mode)
       where p.pronamespace = 'windlass'::regnamespace and p.proname = $1 and a.mode = 'i'";
    let rows = client.query(query, &[&function]).await.unwrap();
    rows.iter().map(|row| (row.get(0), row.get(1))).collect()
}

#[tokio::test]
async fn the_documented_errors_are_those_the_functions_raise() {
    let queue = TestQueue::create().await;
    let query =
        "select distinct m[1] from pg_proc p cross join regexp_matches(p.prosrc, '''(WL[0-9]{3})''', 'g') m
                  where p.pronamespace = 'windlass'::regnamespace";
    let raised: BTreeSet<String> =
        queue.client().await.query(query, &[]).await.unwrap().iter().map(|row| row.get(0)).collect();
    let documented: BTreeSet<String> = table(SQL, "sql-errors").iter().map(|row| bare(&row[0])).collect();
    assert_eq!(documented, raised);
}

#[tokio::test]
async fn the_documented_views_have_these_columns() {
    let queue = TestQueue::create().await;
    let query = "select 'windlass.' || c.relname, array_agg(a.attname::text order by a.attnum)
        from pg_class c join pg_attribute a on a.attrelid = c.oid
       where c.relnamespace = 'windlass'::regnamespace and c.relkind = 'v' and a.attnum > 0
       group by c.relname order by 1";
    let mut documented: Vec<(String, Vec<String>)> = table(SQL, "sql-views")
        .iter()
        .map(|row| (bare(&row[0]), row[2].split(", ").map(bare).collect()))
        .collect();
    documented.sort();
    let rows = queue.client().await.query(query, &[]).await.unwrap();
    let present: Vec<(String, Vec<String>)> = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
    assert_eq!(documented, present);
}

#[tokio::test]
async fn the_documented_sql_runs() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    client.batch_execute("create table image (id bigint)").await.unwrap();
    queue.define(&Definition::new("resize")).await.unwrap();
    let blocks: Vec<&str> = blocks(README).chain(blocks(SQL)).collect();
    assert!(blocks.len() >= 5, "found only {}", blocks.len());
    for block in blocks {
        client.batch_execute(block).await.unwrap_or_else(|error| panic!("{block}\n{error:?}"));
    }
    let trigger =
        "create trigger resize after insert on image for each row execute function enqueue_resize();
                   insert into image values (7)";
    client.batch_execute(trigger).await.unwrap();
    let payload = "select count(*) from windlass.jobs where payload = '{\"image\": 7}' and status = 'queued'";
    assert_eq!(client.query_one(payload, &[]).await.unwrap().get::<_, i64>(0), 1);
}

/// The blocks of SQL that no comment `<!-- not run: WHY -->` precedes.
fn blocks(document: &str) -> impl Iterator<Item = &str> {
    let parts = document.split("```sql\n");
    let pairs = parts.clone().zip(parts.skip(1));
    pairs.filter_map(|(before, rest)| {
        let is_run = !before.trim_end().lines().last().is_some_and(|line| line.starts_with("<!-- not run:"));
        rest.split("```").next().filter(|_| is_run)
    })
}

/// The rows of a marked table, without its heading.
fn table(document: &str, name: &str) -> Vec<Vec<String>> {
    let mark = format!("<!-- checked: {name} -->");
    let (_, below) = document.split_once(&mark).unwrap_or_else(|| panic!("no table is marked {name:?}"));
    let rows: Vec<Vec<String>> = below
        .lines()
        .skip_while(|line| line.is_empty())
        .take_while(|line| line.starts_with('|'))
        .map(|line| line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect())
        .collect();
    rows[2..].to_vec()
}

fn bare(cell: &str) -> String {
    cell.trim_matches('`').to_owned()
}
