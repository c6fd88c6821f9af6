//! A database login of one test, with exactly the given roles. Roles belong to the whole server, so its name is new and it is
//! dropped with its test.

use tokio_postgres::Client;
use uuid::Uuid;
use windlass::Queue;

use crate::postgres::{connect, run};
use crate::{TestQueue, TestServer, settings};

#[derive(Debug)]
pub struct Login {
    pub name: String,
    url: String,
    admin: Client,
}

impl Login {
    /// Granted these roles, such as `"windlass_worker, windlass_keeper"`, or none with `""`.
    pub async fn create(queue: &TestQueue, roles: &str) -> Self {
        let admin = queue.client().await;
        let name = format!("r_{}", Uuid::now_v7().simple());
        let mut make = format!("create role {name} login nosuperuser");
        if !roles.is_empty() {
            make += &format!("; grant {roles} to {name}");
        }
        run(&admin, &make).await;
        let url = TestServer::url_as(queue.url(), &name);
        Self { name, url, admin }
    }

    pub fn url(&self) -> &str {
        &self.url
    }

    pub async fn client(&self) -> Client {
        connect(&self.url).await
    }

    /// A handle with one connection.
    pub async fn queue(&self) -> Queue {
        let queue = Queue::connect(settings(&self.url).connections(1)).await;
        queue.unwrap_or_else(|error| panic!("cannot connect as {}: {error}", self.name))
    }

    pub async fn drop(self) {
        let end = format!(
            "select pg_terminate_backend(a.pid) from pg_stat_activity a where a.usename = '{0}'; drop owned by {0}; drop role {0}",
            self.name
        );
        run(&self.admin, &end).await;
    }
}
