//! Installing on every supported version of Postgres, by every kind of login that a server gives: an administrator who may create roles, as
//! on a managed service; a plain owner of a database; a superuser. PostgreSQL 16 changed these privileges.

use tokio_postgres::Client;
use windlass::job::State;
use windlass::keeper::{Duty, Keeper, KeeperSettings};
use windlass::setup::embedded::{Postgres, ServerSource};
use windlass::setup::{Migrated, NEWEST_SCHEMA, Severity, examine, pending, print_roles_sql};
use windlass::{Definition, Error, NewJob, Queue, Worker, migrate};
use windlass_testing::{Plain, eventually, sample, settings};

use crate::embedded::scratch::{Scratch, connect};

#[tokio::test(flavor = "multi_thread")]
async fn every_kind_of_login_installs_on_the_oldest_version() {
    install_on(15).await;
}

/// A normal run tests one of them, which the seed selects.
#[tokio::test(flavor = "multi_thread")]
async fn every_kind_of_login_installs_on_newer_versions() {
    for version in sample(vec![16, 17, 18], 1) {
        install_on(version).await;
    }
}

async fn install_on(version: u32) {
    let scratch = Scratch::new();
    let postgres = Postgres::start(&scratch.options().source(ServerSource::Version(version))).await.unwrap();
    assert_eq!(postgres.major_version(), version);
    let server = Server { superuser: connect(&postgres.url()).await, postgres };
    server.superuser.batch_execute("create role dba login createrole").await.unwrap();
    server.superuser.batch_execute("create role plain login").await.unwrap();
    owner_with_the_statements_of_the_error(&server).await;
    owner_with_the_printed_roles(&server).await;
    administrator(&server).await;
    superuser(&server).await;
    drop(server.superuser);
    server.postgres.stop().await.unwrap();
}

struct Server {
    superuser: Client,
    postgres: Postgres,
}

impl Server {
    fn url(&self, login: &str, database: &str) -> String {
        self.postgres.database_url(database).replacen("windlass@", &format!("{login}@"), 1)
    }

    /// Removes the roles, so that the next login installs on a server without them.
    async fn forget(&self, database: &str) {
        self.superuser.batch_execute(&format!("drop database {database} with (force)")).await.unwrap();
        let drop = "do $$ declare one name; begin
            for one in select rolname from pg_roles where rolname like 'windlass\\_%' loop execute format('drop role %I', one); end loop;
          end $$";
        self.superuser.batch_execute(drop).await.unwrap();
    }
}

fn denied(refused: windlass::Result<Migrated>) -> (String, String, String) {
    match refused {
        Err(Error::MigrationDenied { missing, by, statements, .. }) => (missing, by, statements),
        other => panic!("{other:?}"),
    }
}

/// A plain owner of a database gets the statements, and whoever may create roles runs them.
async fn owner_with_the_statements_of_the_error(server: &Server) {
    server.superuser.batch_execute("create database own owner plain").await.unwrap();
    let plain = settings(&server.url("plain", "own"));
    let (missing, by, statements) = denied(migrate(&plain).await);
    assert!(missing.contains("may not create roles") && by.contains("CREATEROLE"), "{missing} {by}");
    let theirs = connect(&server.url("plain", "own")).await;
    let exists = "select to_regnamespace('windlass') is not null";
    assert!(!theirs.query_one(exists, &[]).await.unwrap().get::<_, bool>(0), "nothing was begun");
    connect(&server.url("dba", "postgres")).await.batch_execute(&statements).await.unwrap();
    assert_eq!(migrate(&plain).await.unwrap().applied.last(), Some(&NEWEST_SCHEMA));
    drop(theirs);
    server.forget("own").await;
}

/// The SQL of `--print-sql roles`, run once by whoever may create roles. It can be run again.
async fn owner_with_the_printed_roles(server: &Server) {
    server.superuser.batch_execute("create database own owner plain").await.unwrap();
    let dba = connect(&server.url("dba", "own")).await;
    for _ in 0..2 {
        dba.batch_execute(&print_roles_sql(&[])).await.unwrap();
    }
    dba.batch_execute(&print_roles_sql(&["plain".to_owned()])).await.unwrap();
    let plain = settings(&server.url("plain", "own"));
    migrate(&plain).await.unwrap();
    assert!(pending(&plain).await.unwrap().is_nothing());
    healthy(&server.url("plain", "own")).await;
    drop(dba);
    server.forget("own").await;
}

/// What RDS, Cloud SQL, Azure, Neon and Supabase give: CREATEROLE, and CREATE on a database that belongs to somebody else.
async fn administrator(server: &Server) {
    let superuser = &server.superuser;
    for statement in [
        "create database managed",
        "create role other_dba login createrole",
        "create database second owner other_dba",
        "create role nobody_special login",
    ] {
        superuser.batch_execute(statement).await.unwrap();
    }
    let managed = settings(&server.url("dba", "managed"));
    let (missing, _, statements) = denied(migrate(&managed).await);
    assert!(missing.contains("may not create a schema in the database managed"), "{missing}");
    superuser.batch_execute(&statements).await.unwrap();
    migrate(&managed).await.unwrap();
    logins_work(server).await;
    upgrades_and_no_privileges(server).await;
    healthy(&server.url("dba", "managed")).await;

    // The roles belong to the whole server, and from PostgreSQL 16 on only who administers them may grant them.
    let second = settings(&server.url("other_dba", "second"));
    if server.postgres.major_version() >= 16 {
        let (_, by, statements) = denied(migrate(&second).await);
        assert_eq!(
            (by.as_str(), statements.as_str()),
            ("dba or a superuser", "grant windlass_migrator to \"other_dba\";")
        );
        connect(&server.url("dba", "managed")).await.batch_execute(&statements).await.unwrap();
    }
    migrate(&second).await.unwrap();
    healthy(&server.url("other_dba", "second")).await;
}

async fn logins_work(server: &Server) {
    let dba = connect(&server.url("dba", "managed")).await;
    for (login, roles) in [
        ("app_login", "windlass_app"),
        ("worker_login", "windlass_worker, windlass_keeper"),
        ("server_login", "windlass_server"),
        ("migrator_login", "windlass_migrator"),
    ] {
        dba.batch_execute(&format!("create role {login} login; grant {roles} to {login}")).await.unwrap();
    }
    let url = |login: &str| server.url(login, "managed");
    let api = Queue::connect_as(settings(&url("server_login")), &["windlass_server"]).await.unwrap();
    api.define(&Definition::new("plain")).await.unwrap();
    let tenant = api.ensure_tenant("a", "a", 1).await.unwrap();
    let theirs = Queue::connect(settings(&url("worker_login"))).await.unwrap();
    let worker = Worker::builder(&theirs).handler(Plain).start().await.unwrap();
    let app = Queue::connect(settings(&url("app_login"))).await.unwrap();
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
}

/// With nothing to do, a migration needs no privilege. Otherwise it needs the role of migrators.
async fn upgrades_and_no_privileges(server: &Server) {
    let url = |login: &str| settings(&server.url(login, "managed"));
    for login in ["nobody_special", "app_login", "server_login", "migrator_login", "dba", "windlass"] {
        assert_eq!(migrate(&url(login)).await.unwrap(), Migrated::default(), "{login}");
        assert!(pending(&url(login)).await.unwrap().is_nothing(), "{login}");
    }
    let outdated = "update windlass.installed_functions set checksum = 'another', release = 0; comment on schema windlass is 'older'";
    let superuser = connect(&server.url("windlass", "managed")).await;
    superuser.batch_execute(outdated).await.unwrap();
    for login in ["nobody_special", "server_login"] {
        assert!(pending(&url(login)).await.unwrap().functions, "{login}");
        let (missing, by, statements) = denied(migrate(&url(login)).await);
        assert_eq!(missing, "it is not a member of windlass_migrator");
        assert_eq!(statements, format!("grant windlass_migrator to \"{login}\";"));
        assert!(by.contains("dba") || server.postgres.major_version() < 16, "{by}");
    }
    assert!(migrate(&url("migrator_login")).await.unwrap().functions_installed);
}

async fn superuser(server: &Server) {
    server.superuser.batch_execute("create database third").await.unwrap();
    migrate(&settings(&server.url("windlass", "third"))).await.unwrap();
    healthy(&server.url("windlass", "third")).await;
}

/// The doctor compares owners, policies, privileges and functions with what this release installs, on every version.
async fn healthy(url: &str) {
    let findings = examine(&settings(url)).await.unwrap();
    let schema: Vec<_> = findings.iter().filter(|one| one.check == "schema").collect();
    assert!(schema.iter().all(|one| one.severity == Severity::Fine), "{schema:#?}");
}

/// Managed services refuse statements that mention these, even to say no.
#[test]
fn no_role_is_created_with_an_attribute_that_only_a_superuser_may_mention() {
    let sql = print_roles_sql(&[]).replace("r.rolsuper", "");
    for word in ["superuser", "bypassrls", "replication", "createrole", "createdb"] {
        assert!(!sql.contains(word), "{word}: {sql}");
    }
}
