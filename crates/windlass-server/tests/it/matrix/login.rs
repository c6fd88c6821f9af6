//! The login of a server with the least that it needs: it may become the api's and the admin's role and inherits nothing of
//! them, and may call what workers call, which are functions. Of itself it can read no tenant's row.

use uuid::Uuid;
use windlass::Queue;
use windlass_testing::{TestQueue, settings};

pub(super) struct Login {
    name: String,
    url: String,
    admin: tokio_postgres::Client,
}

impl Login {
    pub(super) async fn without_rights(queue: &TestQueue) -> Self {
        let admin = queue.client().await;
        let name = format!("r_{}", Uuid::now_v7().simple());
        let make = format!(
            "create role {name} login nosuperuser noinherit;
             grant windlass_api, windlass_admin to {name};
             grant usage on schema windlass to {name};
             grant select on windlass.migration, windlass.installed_functions to {name};
             do $$ declare callable text; begin
               for callable in select p.oid::regprocedure::text from pg_proc p where p.pronamespace = 'windlass'::regnamespace
                   and p.prokind = 'f' and has_function_privilege('windlass_worker', p.oid, 'execute') loop
                 execute format('grant execute on function %s to {name}', callable);
               end loop;
             end $$"
        );
        admin.batch_execute(&make).await.unwrap();
        let readable = "select count(*) from pg_class c where c.relnamespace = 'windlass'::regnamespace and c.relkind in ('r', 'p', 'v')
            and has_table_privilege($1, c.oid, 'select') and c.relname not in ('migration', 'installed_functions')";
        assert_eq!(admin.query_one(readable, &[&name]).await.unwrap().get::<_, i64>(0), 0);
        let (before, after) = queue.url().split_once("windlass@").expect("tests log in as windlass");
        let url = format!("{before}{name}@{after}");
        Self { name, url, admin }
    }

    pub(super) async fn queue(&self) -> Queue {
        Queue::connect(settings(&self.url)).await.unwrap()
    }

    /// Roles belong to the whole server, so they go with their test.
    pub(super) async fn drop(self) {
        let end = format!(
            "select pg_terminate_backend(a.pid) from pg_stat_activity a where a.usename = '{0}'; drop owned by {0}; drop role {0}",
            self.name
        );
        self.admin.batch_execute(&end).await.unwrap();
    }
}
