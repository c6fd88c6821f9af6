//! A logical backup, made by the login that migrates and restored into a fresh cluster: without our roles, with them, and without owners
//! and privileges. The rows are all there at once; `migrate` restores the rest.

use std::path::{Path, PathBuf};

use serde_json::json;
use tokio::process::Command;
use windlass::keeper::Duty;
use windlass::setup::embedded::{Options, Postgres, ServerSource};
use windlass::setup::{Finding, Severity, examine, pending};
use windlass::{Error, Queue, migrate};
use windlass_testing::{Login, TestQueue, eventually, settings};

use crate::embedded::scratch::{Scratch, connect};
use crate::schedule::{create, define, each_minute, look_back};
use crate::support::{Hand, count, everything, keeper, status};

/// The programs of the same version, or of the newest one, which also reads older servers.
async fn programs() -> PathBuf {
    let own = Options::new("/").unwrap().source.bin_dir().await.unwrap();
    if own.join("pg_dump").is_file() {
        return own;
    }
    ServerSource::Pip.bin_dir().await.unwrap()
}

/// The lines of its errors.
async fn run(program: &Path, arguments: &[&str]) -> Vec<String> {
    let output = Command::new(program).args(arguments).env("LC_ALL", "C").output().await.unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let errors = text.lines().filter(|line| line.contains("error:"));
    // Programs of 17 and newer set this for every server, and one of 16 does not know it.
    let errors: Vec<String> =
        errors.filter(|line| !line.contains("transaction_timeout")).map(str::to_owned).collect();
    assert!(output.status.success() || text.contains("error"), "{program:?} {arguments:?}: {text}");
    errors
}

async fn schema(url: &str) -> Vec<Finding> {
    let findings = examine(&settings(url)).await.unwrap();
    findings.into_iter().filter(|one| one.check == "schema" && one.severity != Severity::Fine).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dump_of_the_migrating_login_is_complete_in_a_fresh_cluster() {
    let bin = programs().await;
    let queue = TestQueue::create().await;
    let hand = Hand::new(queue.client().await).await;
    let leased = fill(&queue, &hand).await;
    let rows = everything(&hand.client).await;
    let objects = windlass::internals::catalog_lines(&settings(queue.url())).await.unwrap();

    let scratch = Scratch::new();
    let dump = scratch.path.join("windlass.dump");
    let dump = dump.to_str().unwrap();
    let backup = Login::create(&queue, "windlass_migrator").await;
    let errors = run(&bin.join("pg_dump"), &["-Fc", "-d", backup.url(), "-f", dump]).await;
    assert_eq!(errors, Vec::<String>::new(), "the login that migrates can dump");
    backup.drop().await;

    let postgres = Postgres::start(&scratch.options()).await.unwrap();
    let url = |login: &str, database: &str| {
        postgres.database_url(database).replacen("windlass@", &format!("{login}@"), 1)
    };
    let superuser = connect(&postgres.url()).await;
    superuser.batch_execute("create role dba login createrole").await.unwrap();
    let restore = async |database: &str, login: &str, more: &[&str]| {
        superuser.batch_execute(&format!("create database {database} owner dba")).await.unwrap();
        let url = url(login, database);
        let arguments: Vec<&str> = [&["-d", &url], more, &[dump]].concat();
        run(&bin.join("pg_restore"), &arguments).await
    };

    // Without the roles: the rows are there, and whoever restored them owns everything.
    let errors = restore("bare", "dba", &[]).await;
    assert!(
        errors.iter().any(|error| error.contains("role \"windlass_owner\" does not exist")),
        "{errors:?}"
    );
    let bare = url("dba", "bare");
    let dangers = schema(&bare).await;
    assert!(dangers.iter().any(|one| one.found.contains("belongs to the role dba")), "{dangers:#?}");
    assert!(dangers.iter().any(|one| one.found.contains("policy")), "{dangers:#?}");
    let refused = migrate(&settings(&url("windlass", "bare"))).await.unwrap_err();
    assert!(matches!(&refused, Error::SchemaTaken { owner } if owner == "dba"), "{refused}");
    let migrated = migrate(&settings(&bare)).await.unwrap();
    assert!(migrated.applied.is_empty() && !migrated.functions_installed && migrated.repaired.len() > 300);
    assert_restored(&bare, &rows, &objects).await;

    // With the roles nothing is to do.
    assert_eq!(restore("whole", "dba", &[]).await, Vec::<String>::new());
    assert!(pending(&settings(&url("dba", "whole"))).await.unwrap().is_nothing());
    assert_restored(&url("dba", "whole"), &rows, &objects).await;

    // As a superuser, without owners and privileges; only a superuser may then give them away.
    assert_eq!(restore("plain", "windlass", &["--no-owner", "--no-privileges"]).await, Vec::<String>::new());
    let refused = migrate(&settings(&url("dba", "plain"))).await.unwrap_err();
    assert!(
        matches!(&refused, Error::MigrationDenied { by, .. } if by == "windlass or a superuser"),
        "{refused}"
    );
    migrate(&settings(&url("windlass", "plain"))).await.unwrap();
    assert_restored(&url("windlass", "plain"), &rows, &objects).await;

    works(&bare, leased).await;
    drop(superuser);
    postgres.stop().await.unwrap();
}

async fn assert_restored(url: &str, rows: &str, objects: &str) {
    assert_eq!(schema(url).await, [], "{url}");
    let found = windlass::internals::catalog_lines(&settings(url)).await.unwrap();
    let difference: Vec<&str> =
        found.lines().filter(|line| !objects.lines().any(|one| one == *line)).collect();
    assert_eq!(difference, Vec::<&str>::new());
    let client = connect(url).await;
    // When the repair installed the functions is the only row that differs.
    let without = |rows: &str| {
        let lines = rows.lines().skip_while(|line| *line != "windlass.job").map(str::to_owned);
        lines.collect::<Vec<_>>()
    };
    assert_eq!(without(&everything(&client).await), without(rows));
}

/// A job in each situation that depends on time, on keys or on transaction ids. Returns the one that runs.
async fn fill(queue: &TestQueue, hand: &Hand) -> uuid::Uuid {
    define(queue).await;
    hand.define(json!({"key": "unique", "uniqueness": "active"})).await;
    let leased = hand.enqueue("'held'").await;
    assert_eq!(hand.claim_one().await.job, leased);
    let first = hand.enqueue("'unique', dedupe_key => 'one'").await;
    hand.enqueue(&format!("'held', depends_on => array['{first}'::uuid]")).await;
    hand.enqueue("'held', delay => '1 hour'").await;
    let trigger = create(queue, &each_minute()).await;
    look_back(&hand.client, &trigger, jiff::SignedDuration::from_hours(3)).await;
    eventually("the audit trail is sealed", async || {
        keeper(queue).run_once(Duty::Seal).await.unwrap();
        count(&hand.client, "select count(*) from windlass.audit_seals").await > 0
    })
    .await;
    leased
}

/// In a cluster whose transaction ids are far behind those of the old one.
async fn works(url: &str, leased: uuid::Uuid) {
    let queue = Queue::connect(settings(url)).await.unwrap();
    let hand = Hand::new(connect(url).await).await;
    let keeper = keeper(&queue);
    // The worker does not exist here. Its lease expires, and the job is retried.
    let expire = "update windlass.job_workers set lease_expires_at = clock_timestamp() - interval '1 s' where id <> $1";
    hand.client.execute(expire, &[&hand.worker]).await.unwrap();
    keeper.run_once(Duty::Reap).await.unwrap();
    assert_ne!(status(&hand.client, leased).await, "running");
    // A dedupe key is still held.
    let again = "select is_duplicate from windlass.enqueue('unique', dedupe_key => 'one')";
    assert!(hand.client.query_one(again, &[]).await.unwrap().get::<_, bool>(0));
    // The instants that were missed are due, and fired as the schedule says.
    keeper.run_once(Duty::Schedule).await.unwrap();
    assert!(count(&hand.client, "select count(*) from windlass.fire").await > 0);
    // What depends on a job starts when that job ends here.
    for fence in hand.claim_all().await {
        assert!(hand.settle(&fence, None).await);
    }
    keeper.run_once(Duty::Unblock).await.unwrap();
    assert_eq!(count(&hand.client, "select count(*) from windlass.blocked").await, 0);
    // The chains continue.
    let sealed = "select count(*) from windlass.audit_seals";
    let before = count(&hand.client, sealed).await;
    hand.client
        .batch_execute("insert into windlass.audit (tenant_id, actor, action, target) select id, 'a', 'b', 'c' from windlass.tenants")
        .await
        .unwrap();
    eventually("new rows are sealed", async || {
        keeper.run_once(Duty::Seal).await.unwrap();
        count(&hand.client, sealed).await > before
    })
    .await;
    assert_eq!(count(&hand.client, "select count(*) from windlass.verify_audit()").await, 0);
    for duty in Duty::ALL {
        keeper.run_once(duty).await.unwrap_or_else(|error| panic!("{}: {error}", duty.as_str()));
    }
}
