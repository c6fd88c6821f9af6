//! `docs/guides/backup-and-restore.md`: a server that is backed up, another one into which it is restored, and the same one as it was at an
//! earlier point in time.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;

use tokio_postgres::{Client, NoTls};
use windlass::keeper::{Duty, Keeper, KeeperSettings};
use windlass::schedule::NewTrigger;
use windlass::setup::embedded::{Options, Postgres, ServerSource};
use windlass::{DEFAULT_TENANT, Definition, NewJob, Queue, Settings};
use windlass_testing::eventually;

use super::{Block, Desk, blocks};

const PAGE: &str = "docs/guides/backup-and-restore.md";

#[tokio::test(flavor = "multi_thread")]
async fn every_block_of_backup_and_restore_runs() {
    let mut desk = Desk::new("");
    let archive = desk.folder.join("archive");
    fs::create_dir(&archive).unwrap();
    let keep = format!("cp %p {}/%f", archive.display());
    let old = start(&desk, "old", &[("archive_mode", "on"), ("archive_command", &keep)]).await;
    let new = start(&desk, "new", &[]).await;
    give_to_server(&desk, &old);
    let url = |server: &Postgres, login: &str, database: &str| {
        server.database_url(database).replacen("windlass@", &format!("{login}@"), 1)
    };
    let admin = connect(&old.url()).await;
    for statement in ["create role dba login createrole", "create database app owner dba"] {
        admin.batch_execute(statement).await.unwrap();
    }
    let elsewhere = connect(&new.url()).await;
    for statement in [
        "create role dba login createrole",
        "create database app owner dba",
        "create database second owner dba",
    ] {
        elsewhere.batch_execute(statement).await.unwrap();
    }
    let migrating = url(&old, "dba", "app");
    windlass::migrate(&Settings::new(&migrating).unwrap()).await.unwrap();
    let roles = "create role ops login; grant windlass_operator to ops";
    connect(&migrating).await.batch_execute(roles).await.unwrap();
    let app = connect(&url(&old, "windlass", "app")).await;
    let queue = Queue::connect(Settings::new(&migrating).unwrap()).await.unwrap();
    for key in ["resize", "report"] {
        queue.define(&Definition::new(key)).await.unwrap();
    }
    queue.enqueue(&NewJob::new("resize").dedupe_key("first")).await.unwrap();
    desk.set("DATABASE_URL", &migrating);
    desk.set("NEW_URL", url(&new, "dba", "app"));
    desk.set("SECOND_URL", url(&new, "dba", "second"));
    desk.set("ADMIN_URL", old.url());
    desk.set("RESTORED_URL", url(&old, "ops", "app"));

    let all = blocks(PAGE);
    let [dump, bare, with_roles, copy, to_a_point, look] = &all[..] else { panic!("{} blocks", all.len()) };
    desk.run(dump).await;
    let found = desk.run(bare).await;
    assert!(
        found.contains("the roles are missing") && found.contains("as expected by this release"),
        "{found}"
    );
    for repaired in ["to-repair.txt", "repaired.txt"] {
        let lines = fs::read_to_string(desk.folder.join(repaired)).unwrap();
        assert!(lines.contains("policy tenant_reads_own on job is missing"), "{repaired}: {lines}");
    }
    let found = desk.run(with_roles).await;
    assert!(found.contains("nothing to do"), "{found}");
    for database in ["app", "second"] {
        let restored = connect(&url(&new, "dba", database)).await;
        assert_eq!(number(&restored, "select count(*) from windlass.jobs").await, 1, "{database}");
    }
    desk.run(copy).await;

    // At the point in time a job runs and a schedule exists. Later the job succeeds, and another one is enqueued.
    let (token, worker) = (
        "00000000-0000-4000-8000-000000000001",
        "select windlass.register_worker('w', 'h', '', '{}', '{}', 3600, '{}')",
    );
    app.batch_execute(worker).await.unwrap();
    let claim = format!(
        "select windlass.claim((select max(id) from windlass.job_workers), '{token}', array_agg(id), array_agg(0::bigint), array_agg(9))
           from windlass.lane"
    );
    app.batch_execute(&claim).await.unwrap();
    let yearly = NewTrigger::schedule("report", "* * * * *", "report");
    let operator = Queue::connect(Settings::new(&url(&old, "windlass", "app")).unwrap()).await.unwrap();
    operator.create_trigger(DEFAULT_TENANT, &yearly, "tester").await.unwrap();
    let overdue = "update windlass.job_triggers set next_due_at = next_due_at - interval '1 hour', created_at = created_at - interval '2 hours'";
    app.batch_execute(overdue).await.unwrap();
    let point: String = app.query_one("select clock_timestamp()::text", &[]).await.unwrap().get(0);
    desk.set("POINT_IN_TIME", point);
    queue.enqueue(&NewJob::new("report").dedupe_key("later")).await.unwrap();
    let last: String = admin.query_one("select pg_walfile_name(pg_switch_wal())", &[]).await.unwrap().get(0);
    eventually("the log is archived", async || archive.join(&last).is_file()).await;
    drop((queue, operator, app, admin));
    old.stop().await.unwrap();

    desk.run(to_a_point).await;
    let restored = connect(&migrating).await;
    eventually("it is promoted", async || {
        number(&restored, "select case when pg_is_in_recovery() then 0 else 1 end::bigint").await == 1
    })
    .await;
    let listed = desk.run(look).await;
    assert!(listed.contains("resize"), "{listed}");
    as_it_was(&restored, &migrating).await;
    drop((restored, elsewhere));
    new.stop().await.unwrap();
    desk.run(&Block {
        language: "sh".into(),
        text: "pg_ctl --pgdata=base --mode=fast stop".into(),
        posted_to: None,
    })
    .await;
}

/// What the table of the page says.
async fn as_it_was(client: &Client, url: &str) {
    let queue = Queue::connect(Settings::new(url).unwrap()).await.unwrap();
    let keeper = Keeper::new(queue.clone(), KeeperSettings::default());
    assert_eq!(number(client, "select count(*) from windlass.jobs").await, 1, "the later job is lost");
    let again = queue.enqueue(&NewJob::new("report").dedupe_key("later")).await.unwrap();
    assert!(!again.is_duplicate, "its key is free");
    let again = queue.enqueue(&NewJob::new("resize").dedupe_key("first")).await.unwrap();
    assert!(again.is_duplicate, "the earlier key is not");
    let expired = "update windlass.job_workers set lease_expires_at = clock_timestamp() - interval '1 s'";
    client.batch_execute(expired).await.unwrap(); // the test does not wait for the lease of an hour
    keeper.run_once(Duty::Reap).await.unwrap();
    let running = "select count(*) from windlass.jobs where status = 'running'";
    assert_eq!(number(client, running).await, 0, "the job that ran is retried");
    keeper.run_once(Duty::Schedule).await.unwrap();
    assert!(number(client, "select count(*) from windlass.fire").await > 0, "a missed instant is due");
    eventually("the audit trail is sealed", async || {
        keeper.run_once(Duty::Seal).await.unwrap();
        number(client, "select count(*) from windlass.audit_seals").await > 0
    })
    .await;
    assert!(queue.verify_audit(&[]).await.unwrap().is_empty());
}

/// With the installed programs, because the packages have no pg_dump of each version.
async fn start(desk: &Desk, name: &str, settings: &[(&str, &str)]) -> Postgres {
    let settings = settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let options =
        Options::new(desk.folder.join(name)).unwrap().source(ServerSource::System).settings(settings);
    Postgres::start(&options).await.unwrap()
}

/// The page's reader is the user that runs the server. Here that may be root, who cannot run one.
fn give_to_server(desk: &Desk, server: &Postgres) {
    let owner = fs::metadata(server.data_dir()).unwrap().uid();
    for path in [desk.folder.clone(), desk.folder.join("archive")] {
        chown(path, Some(owner), None).unwrap();
    }
    let is_other = owner != fs::metadata("/proc/self").unwrap().uid();
    for program in ["pg_dump", "pg_restore", "psql", "pg_basebackup", "pg_ctl"] {
        let become_it = if is_other && ["pg_basebackup", "pg_ctl"].contains(&program) {
            format!("setpriv --reuid={owner} --clear-groups ")
        } else {
            String::new()
        };
        write_program(
            &desk.folder.join("bin").join(program),
            &format!("exec {become_it}{} \"$@\"", server.bin_dir().join(program).display()),
        );
    }
}

fn write_program(path: &Path, text: &str) {
    fs::write(path, format!("#!/bin/sh\n{text}\n")).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

async fn connect(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

async fn number(client: &Client, query: &str) -> i64 {
    client.query_one(query, &[]).await.unwrap().get(0)
}
