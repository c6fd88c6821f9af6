//! Beside Citus, on a coordinator or a worker node: nothing of ours is distributed, so no DDL of ours is propagated to other nodes. Citus itself
//! is in no package source of the tests. An empty extension of its name stands in for it, and an event trigger records its setting
//! before each DDL statement. That Citus obeys the setting is not tested.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use windlass::migrate;
use windlass::setup::embedded::{Postgres, ServerSource};
use windlass_testing::settings;

use crate::embedded::scratch::{Scratch, connect};

const WATCH: &str = "create table public.ddl (tag text, propagation text);
    create function public.watch() returns event_trigger language plpgsql security definer as
      $$ begin insert into public.ddl values (tg_tag, current_setting('citus.enable_ddl_propagation', true)); end $$;
    create event trigger watch on ddl_command_start execute function public.watch()";

#[tokio::test(flavor = "multi_thread")]
async fn no_ddl_is_propagated_where_citus_is_installed() {
    let scratch = Scratch::new();
    let extensions = scratch.path.join("extension");
    fs::create_dir(&extensions).unwrap();
    fs::write(extensions.join("citus.control"), "default_version = '1.0'\n").unwrap();
    fs::write(extensions.join("citus--1.0.sql"), "").unwrap();
    for path in [scratch.path.clone(), extensions.clone()] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    // From 18 on, extensions may be in other directories than that of the server.
    let mut options = scratch.options().source(ServerSource::Version(18));
    options.settings = vec![("extension_control_path".into(), format!("{}:$system", scratch.path.display()))];
    let postgres = Postgres::start(&options).await.unwrap();
    let superuser = connect(&postgres.url()).await;
    superuser.batch_execute("create role dba login createrole").await.unwrap();
    for (database, is_beside) in [("beside", true), ("alone", false)] {
        superuser.batch_execute(&format!("create database {database} owner dba")).await.unwrap();
        let admin = connect(&postgres.database_url(database)).await;
        if is_beside {
            admin.batch_execute("create extension citus").await.unwrap();
        }
        admin.batch_execute(WATCH).await.unwrap();
        let dba = postgres.database_url(database).replacen("windlass@", "dba@", 1);
        migrate(&settings(&dba)).await.unwrap();
        let made = "select made::bigint from windlass.maintain_partitions(9)";
        assert!(admin.query_one(made, &[]).await.unwrap().get::<_, i64>(0) > 0);
        let seen = "select count(*) filter (where propagation = 'off'), count(*) filter (where propagation is null), count(*) from public.ddl";
        let row = admin.query_one(seen, &[]).await.unwrap();
        let (off, unset, all): (i64, i64, i64) = (row.get(0), row.get(1), row.get(2));
        assert!(all > 300, "{all}");
        assert_eq!(if is_beside { off } else { unset }, all, "{database}");
    }
    drop(superuser);
    postgres.stop().await.unwrap();
}
