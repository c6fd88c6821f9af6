//! Login roles of one test. Roles belong to the whole server, so their names are new and they go with their test.

use tokio_postgres::{Client, NoTls};
use uuid::Uuid;
use windlass_testing::TestQueue;

pub(crate) struct Role {
    pub(crate) name: String,
    url: String,
    admin: Client,
}

impl Role {
    /// Granted one of the groups, or nothing at all.
    pub(crate) async fn create(queue: &TestQueue, group: Option<&str>) -> Self {
        let admin = queue.client().await;
        let name = format!("r_{}", Uuid::now_v7().simple());
        admin.batch_execute(&format!("create role {name} login nosuperuser")).await.unwrap();
        if let Some(group) = group {
            admin.batch_execute(&format!("grant {group} to {name}")).await.unwrap();
        }
        let (before, after) = queue.url().split_once("windlass@").expect("tests log in as windlass");
        let url = format!("{before}{name}@{after}");
        Self { name, url, admin }
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    pub(crate) async fn client(&self) -> Client {
        let (client, connection) = tokio_postgres::connect(&self.url, NoTls).await.unwrap();
        tokio::spawn(connection);
        client
    }

    pub(crate) async fn drop(self) {
        let statement = format!("drop owned by {0}; drop role {0}", self.name);
        self.admin.batch_execute(&statement).await.unwrap();
    }
}

/// The SQLSTATE of what must have been refused.
pub(crate) fn refusal<T>(answer: Result<T, tokio_postgres::Error>) -> String {
    match answer {
        Ok(_) => "nothing refused it".to_owned(),
        Err(error) => error.code().map_or_else(|| error.to_string(), |code| code.code().to_owned()),
    }
}
