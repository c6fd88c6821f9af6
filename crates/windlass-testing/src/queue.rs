//! A migrated database for one test, with a connected queue.

use std::time::UNIX_EPOCH;

use uuid::Uuid;
use windlass::{Queue, Settings};

use crate::postgres::ADMINISTRATOR;
use crate::{TestDatabase, TestServer};

/// A queue in its own database.
#[derive(Debug)]
pub struct TestQueue {
    database: TestDatabase,
    queue: Queue,
}

/// Defaults of every database of a test, such as `timezone = 'UTC'; lock_timeout = '2s'`, so that the same tests run with hostile ones.
pub const DEFAULTS: &str = "WINDLASS_TEST_DEFAULTS";

/// Statements that run in every database of a test before it is used: objects of another program.
pub const CONTENT: &str = "WINDLASS_TEST_CONTENT";

/// `administrator`: the databases of the tests are migrated by a login that may create roles and is not a superuser, and used with it.
pub const INSTALLER: &str = "WINDLASS_TEST_INSTALLER";

impl TestQueue {
    pub async fn create() -> Self {
        Self::create_on(TestServer::shared().await).await
    }

    /// For tests that hold transactions open for long or wait until there is none: see [`TestServer::apart`].
    pub async fn create_apart() -> Self {
        Self::create_on(TestServer::apart().await).await
    }

    async fn create_on(server: &TestServer) -> Self {
        let given = std::env::var(DEFAULTS).unwrap_or_default();
        let defaults: Vec<_> = given.split(';').filter_map(|one| one.trim().split_once(" = ")).collect();
        let database = migrated_on(server).await;
        if let Ok(content) = std::env::var(CONTENT) {
            crate::postgres::run(&crate::postgres::connect(database.url()).await, &content).await;
        }
        set_defaults(&database, &defaults).await;
        Self::connect(database).await
    }

    /// The same in a database with other settings, such as `("timezone", "'America/New_York'")`.
    pub async fn create_under(defaults: &[(&str, &str)]) -> Self {
        let database = migrated().await;
        set_defaults(&database, defaults).await;
        Self::connect(database).await
    }

    /// Migrated only after the database has these defaults and this content.
    pub async fn migrated_under(defaults: &[(&str, &str)], content: &str) -> Self {
        let database = TestDatabase::create("empty", "", async |_| {}).await;
        crate::postgres::run(&crate::postgres::connect(database.url()).await, content).await;
        set_defaults(&database, defaults).await;
        let migrated = windlass::migrate(&settings(database.url())).await;
        migrated.unwrap_or_else(|error| panic!("cannot migrate: {error}"));
        Self::connect(database).await
    }

    async fn connect(database: TestDatabase) -> Self {
        let url = installer_url(database.url());
        let queue = Queue::connect(settings(&url)).await;
        Self { database, queue: queue.unwrap_or_else(|error| panic!("cannot connect: {error}")) }
    }

    pub fn queue(&self) -> &Queue {
        &self.queue
    }

    pub fn url(&self) -> &str {
        self.database.url()
    }

    /// A separate connection as superuser, to inspect the tables. It does not depend on the default isolation and search path.
    pub async fn client(&self) -> tokio_postgres::Client {
        let client = crate::postgres::connect(self.url()).await;
        if std::env::var_os(DEFAULTS).is_some() {
            let usual = "set default_transaction_isolation = 'read committed'; set search_path = public";
            crate::postgres::run(&client, usual).await;
        }
        client
    }

    pub async fn tenant(&self, slug: &str) -> Uuid {
        self.queue
            .ensure_tenant(slug, slug, 1)
            .await
            .unwrap_or_else(|error| panic!("cannot create tenant {slug}: {error}"))
    }
}

impl std::ops::Deref for TestQueue {
    type Target = Queue;

    fn deref(&self) -> &Queue {
        &self.queue
    }
}

async fn set_defaults(database: &TestDatabase, defaults: &[(&str, &str)]) {
    if defaults.is_empty() {
        return;
    }
    let client = crate::postgres::connect(database.url()).await;
    for (name, value) in defaults {
        crate::postgres::run(&client, &format!("alter database {} set {name} = {value}", database.name()))
            .await;
    }
}

/// A database with the schema of this release.
pub async fn migrated() -> TestDatabase {
    migrated_on(TestServer::shared().await).await
}

async fn migrated_on(server: &TestServer) -> TestDatabase {
    let template = if is_administrator() { "windlass_managed" } else { "windlass" };
    // A migration creates partitions for the current day, so a template of yesterday differs from a new database.
    let day = UNIX_EPOCH.elapsed().unwrap_or_default().as_secs() / 86400;
    let content = format!("{}\n{day}", windlass::setup::print_sql());
    TestDatabase::create_on(server, template, &content, async |url: String| {
        if is_administrator() {
            let grant = format!(
                "do $$ begin execute format('grant create on database %I to {ADMINISTRATOR}', current_database()); end $$"
            );
            crate::postgres::run(&crate::postgres::connect(&url).await, &grant).await;
        }
        let migrated = windlass::migrate(&settings(&installer_url(&url))).await;
        migrated.unwrap_or_else(|error| panic!("cannot migrate: {error}"));
    })
    .await
}

fn is_administrator() -> bool {
    std::env::var(INSTALLER).is_ok_and(|installer| installer == ADMINISTRATOR)
}

fn installer_url(url: &str) -> String {
    if is_administrator() { TestServer::url_as(url, ADMINISTRATOR) } else { url.to_owned() }
}

pub fn settings(url: &str) -> Settings {
    Settings::new(url).unwrap_or_else(|error| panic!("invalid database URL: {error}")).connections(4)
}
