//! A database login of one test, with exactly the roles it was given.

use uuid::Uuid;
use windlass::Queue;
use windlass_testing::{TestQueue, settings};

pub(crate) struct Login {
    name: String,
    url: String,
    admin: tokio_postgres::Client,
}

impl Login {
    pub(crate) async fn create(queue: &TestQueue, roles: &str) -> Self {
        let admin = queue.client().await;
        let name = format!("r_{}", Uuid::now_v7().simple());
        let make = format!("create role {name} login nosuperuser; grant {roles} to {name}");
        admin.batch_execute(&make).await.unwrap();
        let (before, after) = queue.url().split_once("windlass@").expect("tests log in as windlass");
        let url = format!("{before}{name}@{after}");
        Self { name, url, admin }
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    pub(crate) async fn queue(&self) -> Queue {
        Queue::connect(settings(&self.url).connections(1)).await.unwrap()
    }

    /// Roles belong to the whole server, so they go with their test.
    pub(crate) async fn drop(self) {
        let end = format!(
            "select pg_terminate_backend(a.pid) from pg_stat_activity a where a.usename = '{0}'; drop owned by {0}; drop role {0}",
            self.name
        );
        self.admin.batch_execute(&end).await.unwrap();
    }
}
