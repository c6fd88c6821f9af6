//! A migrated database for one test, with a connected queue.

use uuid::Uuid;
use windlass::{Queue, Settings};

use crate::TestDatabase;

/// A queue in its own database.
#[derive(Debug)]
pub struct TestQueue {
    database: TestDatabase,
    queue: Queue,
}

impl TestQueue {
    pub async fn create() -> Self {
        let database = migrated().await;
        let queue = Queue::connect(settings(database.url()))
            .await
            .unwrap_or_else(|error| panic!("cannot connect: {error}"));
        Self { database, queue }
    }

    /// The same in a database with other settings, such as `("timezone", "'America/New_York'")`.
    pub async fn create_under(defaults: &[(&str, &str)]) -> Self {
        let database = migrated().await;
        let client = crate::postgres::connect(database.url()).await;
        for (name, value) in defaults {
            let set = format!("alter database {} set {name} = {value}", database.name());
            client.batch_execute(&set).await.unwrap_or_else(|error| panic!("cannot run {set:?}: {error:?}"));
        }
        let queue = Queue::connect(settings(database.url()))
            .await
            .unwrap_or_else(|error| panic!("cannot connect: {error}"));
        Self { database, queue }
    }

    pub fn queue(&self) -> &Queue {
        &self.queue
    }

    pub fn url(&self) -> &str {
        self.database.url()
    }

    /// A separate connection as superuser, to inspect the tables.
    pub async fn client(&self) -> tokio_postgres::Client {
        crate::postgres::connect(self.url()).await
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

/// A database with the schema of this release.
pub async fn migrated() -> TestDatabase {
    TestDatabase::create("windlass", &windlass::print_sql(), async |url: String| {
        windlass::migrate(&settings(&url)).await.unwrap_or_else(|error| panic!("cannot migrate: {error}"));
    })
    .await
}

pub fn settings(url: &str) -> Settings {
    Settings::new(url).unwrap_or_else(|error| panic!("invalid database URL: {error}")).connections(4)
}
