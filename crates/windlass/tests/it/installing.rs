//! Installing on the system's Postgres and on the newest one that we fetch, as on a managed Postgres: by an administrator who may
//! create roles and owns the database, but is not a superuser. PostgreSQL 16 changed these rights.

use windlass::job::State;
use windlass::keeper::{Duty, Keeper, KeeperSettings};
use windlass::setup::embedded::{Postgres, ServerSource};
use windlass::{Definition, Error, NewJob, Queue, Worker, migrate};
use windlass_testing::{Plain, eventually, settings};

use crate::embedded::scratch::{Scratch, connect};

#[tokio::test(flavor = "multi_thread")]
async fn an_administrator_installs_on_the_system_postgres_and_its_logins_work() {
    install(ServerSource::System).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_administrator_installs_on_the_fetched_postgres_and_its_logins_work() {
    install(ServerSource::Npm).await;
}

async fn install(source: ServerSource) {
    let scratch = Scratch::new();
    let postgres = Postgres::start(&scratch.options().source(source)).await.unwrap();
    let url = |login: &str, database: &str| {
        postgres.database_url(database).replacen("windlass@", &format!("{login}@"), 1)
    };
    let superuser = connect(&postgres.url()).await;
    for statement in [
        "create role dba login createrole createdb",
        "create database managed owner dba",
        "create role other_dba login createrole createdb",
        "create database second owner other_dba",
    ] {
        superuser.batch_execute(statement).await.unwrap();
    }
    migrate(&settings(&url("dba", "managed"))).await.unwrap();
    let dba = connect(&url("dba", "managed")).await;
    for (login, roles) in [
        ("app_login", "windlass_app"),
        ("worker_login", "windlass_worker, windlass_keeper"),
        ("server_login", "windlass_server"),
        ("migrator_login", "windlass_migrator"),
    ] {
        dba.batch_execute(&format!("create role {login} login; grant {roles} to {login}")).await.unwrap();
    }

    let server =
        Queue::connect_as(settings(&url("server_login", "managed")), &["windlass_server"]).await.unwrap();
    server.define(&Definition::new("plain")).await.unwrap();
    let tenant = server.ensure_tenant("a", "a", 1).await.unwrap();
    let theirs = Queue::connect(settings(&url("worker_login", "managed"))).await.unwrap();
    let worker = Worker::builder(&theirs).handler(Plain).start().await.unwrap();
    let app = Queue::connect(settings(&url("app_login", "managed"))).await.unwrap();
    let job = app.enqueue(&NewJob::new("plain").tenant(tenant)).await.unwrap().id;
    eventually("the job has run", async || {
        app.job(tenant, job).await.unwrap().is_some_and(|job| job.status == State::Succeeded)
    })
    .await;
    worker.stop().await.unwrap();
    let keeper = Keeper::new(theirs.clone(), KeeperSettings::default());
    for duty in Duty::ALL {
        keeper.run_once(duty).await.unwrap_or_else(|error| panic!("{}: {error}", duty.as_str()));
    }

    let outdated = "update windlass.installed_functions set checksum = 'another'";
    connect(&url("windlass", "managed")).await.batch_execute(outdated).await.unwrap();
    let refused = migrate(&settings(&url("server_login", "managed"))).await;
    assert!(
        matches!(&refused, Err(Error::MissingRole { roles, .. }) if roles == "windlass_migrator"),
        "{refused:?}"
    );
    assert!(migrate(&settings(&url("migrator_login", "managed"))).await.unwrap().functions_installed);

    // The roles belong to the whole server, and since PostgreSQL 16 only their creator may grant them.
    if postgres.major_version() >= 16 {
        let refused = migrate(&settings(&url("other_dba", "second"))).await;
        assert!(
            matches!(&refused, Err(Error::MissingRole { roles, .. }) if roles == "windlass_migrator"),
            "{refused:?}"
        );
        dba.batch_execute("grant windlass_migrator to other_dba").await.unwrap();
    }
    migrate(&settings(&url("other_dba", "second"))).await.unwrap();
    drop((app, server, theirs, keeper));
    postgres.stop().await.unwrap();
}
