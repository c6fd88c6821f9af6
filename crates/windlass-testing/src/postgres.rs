//! One Postgres for a whole test run, and a separate database for every test.
//!
//! nextest runs each test in its own process, so they share the server through its data directory (see [`place`]), and a migrated
//! template through its name in that server. The server is left running between runs, which saves its start. It stops with
//! `kill $(head -1 target/test-postgres/*/postmaster.pid)`.

use std::path::{Path, PathBuf};

use tokio::sync::OnceCell;
use tokio_postgres::{Client, NoTls};
use windlass::setup::embedded::{Options, Postgres};
use windlass::testing::Throwaway;

use crate::{place, running};

/// A login that may create roles, and nothing else that is special.
pub(crate) const ADMINISTRATOR: &str = "administrator";

/// The server that all tests of this checkout share.
#[derive(Debug)]
pub struct TestServer {
    pub(crate) url: String,
    pub(crate) data_dir: PathBuf,
}

impl TestServer {
    pub async fn shared() -> &'static TestServer {
        static SHARED: OnceCell<TestServer> = OnceCell::const_new();
        SHARED.get_or_init(|| TestServer::start("")).await
    }

    /// A second server, for tests that hold transactions open for long, or that wait until there is none. Sealing, deleting tenants and
    /// retiring lanes wait for every older transaction of the whole server, so these tests would stop all others, or be stopped by them.
    /// The test group `apart` in `.config/nextest.toml` runs one of them at a time.
    pub async fn apart() -> &'static TestServer {
        static APART: OnceCell<TestServer> = OnceCell::const_new();
        APART.get_or_init(|| TestServer::start("-apart")).await
    }

    /// The URL of the database `postgres`; for tests that need no windlass tables.
    pub fn url(&self) -> String {
        self.url.clone()
    }

    pub fn data_dir(&self) -> &Path {
        &self.data_dir
    }

    /// `suffix` is that of its data directory.
    async fn start(suffix: &str) -> TestServer {
        let mut options = Options::new(PathBuf::new())
            .unwrap_or_else(|error| panic!("cannot choose a test server: {error}"));
        // A small cache and no just-in-time compiler suit many small databases. Without fsync the server survives everything that a test
        // does to it: only a crash of the operating system loses data then. With it, every dropped database waits for the disk, which
        // was most of the time of a test run. Tests of the embedded server run one with its own settings.
        options.settings = [
            ("shared_buffers", "128MB"),
            ("jit", "off"),
            ("max_connections", "300"),
            ("fsync", "off"),
            ("full_page_writes", "off"),
            ("max_wal_size", "256MB"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .to_vec();
        let directory = place::directory();
        let file = running::file(&directory, &format!("{options:?}{suffix}"));
        if let Some(server) = running::find(&file) {
            return server;
        }
        let major_version = options.source.major_version().await;
        let major_version =
            major_version.unwrap_or_else(|error| panic!("cannot find a test server: {error}"));
        options.data_dir = directory.join(format!("{major_version}{suffix}"));
        let started = Postgres::start(&options).await;
        let postgres = started.unwrap_or_else(|error| panic!("cannot start a test server: {error}"));
        let server = TestServer { url: postgres.url(), data_dir: postgres.data_dir().to_owned() };
        let cleaned = Throwaway::drop_abandoned(&server.url()).await;
        cleaned.unwrap_or_else(|error| panic!("cannot drop abandoned test databases: {error}"));
        server.create_administrator().await;
        running::remember(&file, &server);
        server
    }

    /// The URL of a database as another login.
    pub(crate) fn url_as(url: &str, login: &str) -> String {
        let parts = url.split_once("windlass@");
        let (before, after) = parts.unwrap_or_else(|| panic!("tests log in as windlass"));
        format!("{before}{login}@{after}")
    }

    /// Creates a login as on a managed server, which may create roles and is not a superuser, and lets it create the roles of windlass. From
    /// PostgreSQL 16 on, only their creator may grant them.
    async fn create_administrator(&self) {
        let superuser = connect(&self.url()).await;
        let ready = "select count(*) = 1 from pg_auth_members m
            where m.member = to_regrole($1::text) and m.grantor = m.member and m.roleid = to_regrole('windlass_puller')";
        let is_ready =
            async || superuser.query_one(ready, &[&ADMINISTRATOR]).await.is_ok_and(|row| row.get(0));
        if is_ready().await {
            return;
        }
        // Tests start at the same time; the lock ends with the session.
        run(&superuser, "select pg_advisory_lock(7341)").await;
        if is_ready().await {
            return;
        }
        let create = format!("do $$ begin
            if to_regrole('{ADMINISTRATOR}') is null then create role {ADMINISTRATOR} login createrole; end if; end $$");
        run(&superuser, &create).await;
        // A server that an older build of the tests left running has roles of the superuser.
        let older = format!("do $$ begin
            if to_regrole('windlass_migrator') is not null then grant windlass_owner, windlass_migrator to {ADMINISTRATOR}; end if; end $$");
        run(&superuser, &older).await;
        let theirs = connect(&Self::url_as(&self.url(), ADMINISTRATOR)).await;
        run(&theirs, &windlass::setup::print_roles_sql(&[])).await;
        // It also operates what it installs.
        let own = "windlass_app, windlass_worker, windlass_keeper, windlass_server, windlass_admin, windlass_operator, windlass_reader, windlass_puller";
        run(&theirs, &format!("grant {own} to {ADMINISTRATOR}")).await;
    }
}

/// The database of one test, deleted when dropped.
#[derive(Debug)]
pub struct TestDatabase(Throwaway);

impl TestDatabase {
    /// Clones the template, and creates it first if it does not exist: `prepare` gets the URL of an empty database and fills it.
    /// `content` is everything that `prepare` depends on, such as the text of all migrations; a template with other content is
    /// replaced.
    pub async fn create(template: &str, content: &str, prepare: impl AsyncFnOnce(String)) -> TestDatabase {
        Self::create_on(TestServer::shared().await, template, content, prepare).await
    }

    pub async fn create_on(
        server: &TestServer,
        template: &str,
        content: &str,
        prepare: impl AsyncFnOnce(String),
    ) -> TestDatabase {
        let prepare = async |url: String| {
            prepare(url).await;
            Ok(())
        };
        let created = Throwaway::cloned(&server.url(), template, content, prepare).await;
        TestDatabase(created.unwrap_or_else(|error| panic!("cannot create a test database: {error}")))
    }

    pub fn name(&self) -> &str {
        self.0.name()
    }

    pub fn url(&self) -> &str {
        self.0.url()
    }
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

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use std::time::{Duration, SystemTime, UNIX_EPOCH};

    use uuid::{NoContext, Timestamp, Uuid};

    use super::{Client, TestDatabase, TestServer, Throwaway, connect, run};

    async fn databases_starting_with(admin: &Client, prefix: &str) -> Vec<String> {
        let query = "select datname::text from pg_database where starts_with(datname::text, $1)";
        admin.query(query, &[&prefix]).await.unwrap().iter().map(|row| row.get(0)).collect()
    }

    async fn exists(admin: &Client, database: &str) -> bool {
        databases_starting_with(admin, database).await.iter().any(|name| name == database)
    }

    async fn admin() -> Client {
        connect(&TestServer::shared().await.url()).await
    }

    /// A new name in each run, because templates outlive it.
    fn fresh_name() -> String {
        format!("check_{:016x}", Uuid::new_v4().as_u64_pair().0)
    }

    async fn remove_template(name: &str) {
        let admin = admin().await;
        for database in databases_starting_with(&admin, &format!("windlass_template_{name}__")).await {
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
        run(&admin, &format!("create database windlass_template_{name}__building template template0")).await;
        for content in ["v1", "v2"] {
            let database = TestDatabase::create(&name, content, async |url: String| {
                run(&connect(&url).await, &format!("create table {content} ()")).await;
            })
            .await;
            run(&connect(database.url()).await, &format!("select from {content}")).await;
            assert_eq!(
                databases_starting_with(&admin, &format!("windlass_template_{name}__")).await.len(),
                1
            );
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
            format!("windlass_test_{}", Uuid::new_v7(timestamp).simple())
        });
        for name in [&old, &young] {
            run(&admin, &format!("create database {name} template template0")).await;
        }
        Throwaway::drop_abandoned(&TestServer::shared().await.url()).await.unwrap();
        assert!(!exists(&admin, &old).await);
        assert!(exists(&admin, &young).await);
        run(&admin, &format!("drop database {young}")).await;
    }
}
