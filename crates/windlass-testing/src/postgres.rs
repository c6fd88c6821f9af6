//! One Postgres for a whole test run, and a separate database for every test.
//!
//! nextest runs each test in its own process, so nothing in memory can be shared: the server is shared through its
//! data directory under `target/`, and a migrated template through its name in that server. The server is left
//! running between runs, which saves its start. It stops within a minute of `cargo clean`, when its files are missing, or at once
//! with `kill $(head -1 target/test-postgres/*/postmaster.pid)`.

use std::env;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::sync::OnceCell;
use tokio_postgres::{Client, NoTls};
use uuid::Uuid;
use windlass::embedded::{Options, Postgres};

const ABANDONED_AFTER: Duration = Duration::from_secs(60 * 60);

/// The server that all tests of this checkout share.
#[derive(Debug)]
pub struct TestServer {
    postgres: Postgres,
}

impl TestServer {
    pub async fn shared() -> &'static TestServer {
        static SHARED: OnceCell<TestServer> = OnceCell::const_new();
        SHARED.get_or_init(TestServer::start).await
    }

    /// The URL of the database `postgres`; for tests that need no windlass tables.
    pub fn url(&self) -> String {
        self.postgres.url()
    }

    pub fn postgres(&self) -> &Postgres {
        &self.postgres
    }

    async fn start() -> TestServer {
        let mut options = Options::new(PathBuf::new())
            .unwrap_or_else(|error| panic!("cannot choose a test server: {error}"));
        let major_version = options.source.major_version().await;
        let major_version =
            major_version.unwrap_or_else(|error| panic!("cannot find a test server: {error}"));
        options.data_dir = target_dir().join("test-postgres").join(major_version.to_string());
        // A small cache and no just-in-time compiler suit many small databases; nothing here weakens durability.
        options.settings = [("shared_buffers", "128MB"), ("jit", "off"), ("max_connections", "300")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .to_vec();
        let started = Postgres::start(&options).await;
        let server = TestServer {
            postgres: started.unwrap_or_else(|error| panic!("cannot start a test server: {error}")),
        };
        drop_abandoned(&connect(&server.url()).await).await;
        server
    }
}

/// The database of one test, deleted when dropped.
#[derive(Debug)]
pub struct TestDatabase {
    name: String,
    url: String,
    admin_url: String,
}

impl TestDatabase {
    /// Clones the template, and creates it first if it does not exist: `prepare` gets the URL of an empty database and fills it.
    /// `content` is everything that `prepare` depends on, such as the text of all migrations; a template with other content is
    /// replaced.
    pub async fn create(template: &str, content: &str, prepare: impl AsyncFnOnce(String)) -> TestDatabase {
        let template = Template::new(template, content);
        let server = TestServer::shared().await;
        let admin_url = server.url();
        let admin = connect(&admin_url).await;
        let name = format!("t_{}", Uuid::now_v7().simple());

        // Shared while cloning and exclusive while building, so a template is never replaced while a test clones it. The lock ends
        // with the connection, also when the process is killed.
        run(&admin, &format!("select pg_advisory_lock_shared({})", template.lock)).await;
        if !exists(&admin, &template.database).await {
            run(&admin, &format!("select pg_advisory_unlock_shared({})", template.lock)).await;
            run(&admin, &format!("select pg_advisory_lock({})", template.lock)).await;
            if !exists(&admin, &template.database).await {
                template.build(&admin, server, prepare).await;
            }
        }
        // 30-90 ms for a template of 40 tables, where file_copy takes 145-250 ms for its two checkpoints (Postgres
        // 15, two cores; measure with `\timing` in psql). Dropping takes 55 ms either way.
        run(&admin, &format!("create database {name} template {} strategy wal_log", template.database)).await;
        TestDatabase { url: server.postgres.database_url(&name), name, admin_url }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn url(&self) -> &str {
        &self.url
    }
}

impl Drop for TestDatabase {
    /// On a separate thread and runtime, because the runtime of the test is blocked here or already gone. Errors are ignored, because
    /// a panic here would hide that of the test; the next run cleans up.
    fn drop(&mut self) {
        let (admin_url, name) = (self.admin_url.clone(), self.name.clone());
        let dropping = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            if let Ok(runtime) = runtime {
                runtime.block_on(async {
                    let admin = connect(&admin_url).await;
                    let _ =
                        admin.batch_execute(&format!("drop database if exists {name} with (force)")).await;
                });
            }
        });
        let _ = dropping.join();
    }
}

struct Template {
    /// Shared by all contents of this template.
    prefix: String,
    database: String,
    lock: i64,
}

impl Template {
    fn new(name: &str, content: &str) -> Template {
        let is_plain = name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
        assert!(is_plain && !name.is_empty() && name.len() <= 40, "{name:?} is not a plain template name");
        // Two underscores end the name, so that no prefix is the prefix of another name.
        assert!(!name.contains("__") && !name.ends_with('_'), "{name:?} is not a plain template name");
        let prefix = format!("tpl_{name}__");
        let database = format!("{prefix}{:016x}", hash(content));
        let lock = i64::from_ne_bytes(hash(&prefix).to_ne_bytes());
        Template { prefix, database, lock }
    }

    /// Built under another name and renamed when complete, so that a killed builder leaves no incomplete template.
    async fn build(&self, admin: &Client, server: &TestServer, prepare: impl AsyncFnOnce(String)) {
        for outdated in databases_starting_with(admin, &self.prefix).await {
            run(admin, &format!("alter database {outdated} with is_template false allow_connections true"))
                .await;
            run(admin, &format!("drop database {outdated} with (force)")).await;
        }
        let building = format!("{}building", self.prefix);
        run(admin, &format!("create database {building} template template0")).await;
        prepare(server.postgres.database_url(&building)).await;
        let close = "is_template true allow_connections false";
        run(admin, &format!("alter database {building} with {close}")).await;
        // A connection that `prepare` has just closed may still be ending; only one left open is an error.
        run(
            admin,
            &format!(
                "select pg_terminate_backend(pid, 10000) from pg_stat_activity where datname = '{building}'"
            ),
        )
        .await;
        run(admin, &format!("alter database {building} rename to {}", self.database)).await;
    }
}

/// Drops the databases of killed tests. Without `force`: a database with a connection is still in use.
async fn drop_abandoned(admin: &Client) {
    for name in databases_starting_with(admin, "t_").await {
        if age_of(&name).is_some_and(|age| age > ABANDONED_AFTER) {
            // Another process may drop it at the same time.
            let _ = admin.batch_execute(&format!("drop database if exists {name}")).await;
        }
    }
}

/// The name is a version 7 UUID, which begins with its creation time.
fn age_of(name: &str) -> Option<Duration> {
    let id = Uuid::try_parse(name.strip_prefix("t_")?).ok()?;
    let (seconds, nanoseconds) = id.get_timestamp()?.to_unix();
    SystemTime::now().duration_since(UNIX_EPOCH + Duration::new(seconds, nanoseconds)).ok()
}

async fn databases_starting_with(admin: &Client, prefix: &str) -> Vec<String> {
    let query = "select datname::text from pg_database where starts_with(datname::text, $1)";
    let rows = admin.query(query, &[&prefix]).await;
    let rows = rows.unwrap_or_else(|error| panic!("cannot list the test databases: {error:?}"));
    rows.iter().map(|row| row.get(0)).collect()
}

async fn exists(admin: &Client, database: &str) -> bool {
    databases_starting_with(admin, database).await.iter().any(|name| name == database)
}

pub(crate) async fn run(admin: &Client, statement: &str) {
    admin
        .batch_execute(statement)
        .await
        .unwrap_or_else(|error| panic!("cannot run {statement:?}: {error:?}"));
}

/// The spawned task ends when its client is dropped.
pub(crate) async fn connect(url: &str) -> Client {
    let connected = tokio_postgres::connect(url, NoTls).await;
    let (client, connection) = connected.unwrap_or_else(|error| panic!("cannot connect to {url}: {error:?}"));
    tokio::spawn(connection);
    client
}

fn target_dir() -> PathBuf {
    match env::var_os("CARGO_TARGET_DIR") {
        Some(directory) => PathBuf::from(directory),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target"),
    }
}

fn hash(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use uuid::{NoContext, Timestamp};

    use super::{
        Client, Duration, SystemTime, TestDatabase, TestServer, UNIX_EPOCH, Uuid, connect,
        databases_starting_with, drop_abandoned, exists, run,
    };

    async fn admin() -> Client {
        connect(&TestServer::shared().await.url()).await
    }

    /// A new name in each run, because templates outlive it.
    fn fresh_name() -> String {
        format!("check_{}", Uuid::new_v4().simple())
    }

    async fn remove_template(name: &str) {
        let admin = admin().await;
        for database in databases_starting_with(&admin, &format!("tpl_{name}__")).await {
            run(&admin, &format!("alter database {database} with is_template false")).await;
            run(&admin, &format!("drop database {database}")).await;
        }
    }

    #[tokio::test]
    async fn many_tests_at_once_prepare_their_template_once_and_share_nothing_else() {
        let (name, prepared) = (fresh_name(), AtomicUsize::new(0));
        let create = || {
            TestDatabase::create(&name, "v1", async |url: String| {
                prepared.fetch_add(1, Ordering::SeqCst);
                run(&connect(&url).await, "create table seen (id int primary key)").await;
            })
        };
        let (first, second, third) = tokio::join!(create(), create(), create());
        assert_eq!(prepared.load(Ordering::SeqCst), 1);
        for database in [&first, &second, &third] {
            run(&connect(database.url()).await, "insert into seen values (1)").await;
        }
        drop((first, second, third));
        remove_template(&name).await;
    }

    #[tokio::test]
    async fn a_database_is_dropped_with_its_test_even_while_connected() {
        let name = fresh_name();
        let database = TestDatabase::create(&name, "v1", async |_| {}).await;
        let _open = connect(database.url()).await;
        let database_name = database.name().to_owned();
        assert!(exists(&admin().await, &database_name).await);
        drop(database);
        assert!(!exists(&admin().await, &database_name).await);
        remove_template(&name).await;
    }

    #[tokio::test]
    async fn new_content_or_a_killed_builder_rebuilds_the_template() {
        let (name, admin) = (fresh_name(), admin().await);
        run(&admin, &format!("create database tpl_{name}__building template template0")).await;
        for content in ["v1", "v2"] {
            let database = TestDatabase::create(&name, content, async |url: String| {
                run(&connect(&url).await, &format!("create table {content} ()")).await;
            })
            .await;
            run(&connect(database.url()).await, &format!("select from {content}")).await;
            assert_eq!(databases_starting_with(&admin, &format!("tpl_{name}__")).await.len(), 1);
        }
        remove_template(&name).await;
    }

    #[tokio::test]
    async fn databases_of_killed_tests_are_dropped_after_an_hour() {
        let admin = admin().await;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let [old, young] = [61, 30].map(|minutes| {
            let made = now - Duration::from_secs(minutes * 60);
            let timestamp = Timestamp::from_unix(NoContext, made.as_secs(), 0);
            format!("t_{}", Uuid::new_v7(timestamp).simple())
        });
        for name in [&old, &young] {
            run(&admin, &format!("create database {name} template template0")).await;
        }
        drop_abandoned(&admin).await;
        assert!(!exists(&admin, &old).await);
        assert!(exists(&admin, &young).await);
        run(&admin, &format!("drop database {young}")).await;
    }
}
