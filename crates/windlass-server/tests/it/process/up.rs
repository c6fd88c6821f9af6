//! `windlass up`, from an empty directory to finished jobs, without leftovers.

use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use uuid::Uuid;
use windlass_testing::{eventually, migrated};

use crate::cli::{Ran, run, windlass};

#[tokio::test]
async fn up_on_an_empty_directory_runs_jobs_and_leaves_nothing_behind() {
    let scratch = Scratch::new();
    let mut up = Up::start(&scratch, &[]).await;

    let token = scratch.0.join("data/admin-token");
    let mode = fs::metadata(&token).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "no other user may read the token");

    let enqueued = ["jobs", "enqueue", "train-keyword-models", "--set", "keywords=2", "--tenant", "acme"];
    let id = up.ask(&enqueued).await.expect(0).out.trim().to_owned();
    let waited = up.ask(&["jobs", "wait", &id, "--tenant", "acme", "--timeout", "60s"]).await.expect(0);
    assert_eq!(waited.out.trim(), format!("{id} succeeded"));
    let shown = up.ask(&["jobs", "show", &id, "--tenant", "acme", "--json"]).await.expect(0).json();
    assert_eq!(shown["job"]["status"], "succeeded");
    assert_eq!(shown["attempts"][0]["attempt_no"], 1);

    let failing =
        ["jobs", "enqueue", "train-keyword-models", "--set", "keywords=13", "--tenant", "acme", "--wait"];
    let failed = up.ask(&failing).await.expect(1);
    assert!(failed.out.contains("has no pictures to train on"), "{failed:?}");

    let metrics = reqwest::Client::new().get(format!("{}/metrics", up.address));
    let metrics = metrics.bearer_auth(fs::read_to_string(&token).unwrap().trim());
    let metrics = metrics.send().await.unwrap().text().await.unwrap();
    assert!(metrics.contains("windlass_jobs{queue=\"default\",status=\"succeeded\"}"), "{metrics}");

    let code = up.interrupt().await;
    assert_eq!(code, 0, "{}", up.said());
    assert!(
        !scratch.0.join("data/postgres/postmaster.pid").exists(),
        "its Postgres must have stopped with it"
    );
}

/// What a new user sees: jobs that start automatically, and why.
#[tokio::test]
async fn the_demo_has_the_four_events_and_a_schedule_at_work() {
    let (scratch, database) = (Scratch::new(), migrated().await);
    let mut up = Up::start(&scratch, &["--database-url", database.url()]).await;
    let (client, connection) = tokio_postgres::connect(database.url(), tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    let number = async |query: &str| client.query_one(query, &[]).await.unwrap().get::<_, i64>(0);
    let of_both = "select count(*) from (select t.id from windlass.tenants t join windlass.job_triggers g on g.tenant_id = t.id
        where t.slug in ('acme', 'bcg') group by t.id
        having count(*) filter (where g.trigger_type = 'event') = 4 and bool_or(g.cron_expr = '* * * * *')) both_of_them";
    eventually("both tenants have their triggers", async || number(of_both).await == 2).await;
    for event in
        ["provider.folder.updated", "provider.connection.changed", "list.created", "images.ingest.completed"]
    {
        let caused = format!(
            "select count(*) from windlass.event e join windlass.event_dispatch d on d.tenant_id = e.tenant_id and d.event_id = e.id
              join windlass.job b on b.id = d.job_id and b.source_ref = e.id::text where e.name = '{event}'"
        );
        eventually(event, async || number(&caused).await > 0).await;
    }
    // A minute is long: its instant is moved closer.
    client
        .batch_execute(
            "update windlass.job_triggers set next_due_at = clock_timestamp() where cron_expr = '* * * * *'",
        )
        .await
        .unwrap();
    let scheduled = "select count(*) from windlass.fire f join windlass.jobs j on j.id = f.job_id
        where j.source = 'schedule' and j.status = 'succeeded'";
    eventually("the job of the schedule has run", async || number(scheduled).await > 0).await;
    eventually("runs leave log lines", async || number("select count(*) from windlass.job_log").await > 0)
        .await;
    let output = up.ask(&["jobs", "list", "--tenant", "acme", "--json"]).await.expect(0).out;
    assert!(output.contains("\"event\"") && output.contains("\"schedule\""), "{output}");
    up.interrupt().await;
}

#[tokio::test]
async fn up_continues_where_it_stopped_with_the_same_token() {
    let scratch = Scratch::new();
    let mut up = Up::start(&scratch, &["--no-demo"]).await;
    let token = fs::read_to_string(scratch.0.join("data/admin-token")).unwrap();
    up.ask(&["tenants", "create", "shop"]).await.expect(0);
    up.interrupt().await;

    let mut again = Up::start(&scratch, &["--no-demo"]).await;
    assert_eq!(fs::read_to_string(scratch.0.join("data/admin-token")).unwrap(), token);
    let tenants = again.ask(&["tenants", "list", "--json"]).await.expect(0).json();
    let slugs: Vec<&str> =
        tenants.as_array().unwrap().iter().filter_map(|tenant| tenant["slug"].as_str()).collect();
    assert!(slugs.contains(&"shop") && !slugs.contains(&"acme"), "{slugs:?}");
    assert_eq!(again.interrupt().await, 0);
}

#[tokio::test]
async fn up_on_a_used_port_starts_no_worker() {
    let (scratch, database) = (Scratch::new(), migrated().await);
    let used = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, data) = (used.local_addr().unwrap().to_string(), scratch.0.join("data"));
    let arguments = ["up", "--listen", &address, "--database-url", database.url(), "--data-dir"];
    let ran = Ran::of(windlass(&arguments).arg(&data).output().await.unwrap()).expect(3);
    assert!(ran.err.contains("the address is in use"), "{}", ran.err);
    let (client, connection) = tokio_postgres::connect(database.url(), tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    let workers = client.query("select worker_id from windlass.job_workers", &[]).await.unwrap();
    assert!(workers.is_empty(), "{workers:?}");
}

/// Whatever fails before or after its Postgres has started.
#[tokio::test]
async fn up_that_cannot_start_leaves_no_postgres_running() {
    let scratch = Scratch::new();
    let data = scratch.0.join("data");
    let used = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = used.local_addr().unwrap().to_string();
    let up = |listen: &str| {
        let mut command = windlass(&["up", "--no-demo", "--listen", listen, "--data-dir"]);
        command.arg(&data);
        command
    };
    let ran = Ran::of(up(&address).output().await.unwrap()).expect(3);
    assert!(ran.err.contains("the address is in use"), "{}", ran.err);
    assert!(!data.join("postgres/postmaster.pid").exists(), "{}", ran.err);

    // The address of the metrics is bound after Postgres was started.
    let ran = up("127.0.0.1:0").env("WINDLASS_METRICS_LISTEN", &address).output().await.unwrap();
    let ran = Ran::of(ran).expect(3);
    assert!(ran.err.contains("for metrics"), "{}", ran.err);
    assert!(data.join("postgres/PG_VERSION").exists(), "it was started: {}", ran.err);
    assert!(!data.join("postgres/postmaster.pid").exists(), "its Postgres still runs: {}", ran.err);
    assert!(!data.join("database-url").exists());

    // So is the file of its URL created.
    fs::create_dir_all(data.join("database-url/x")).unwrap();
    let ran = Ran::of(up("127.0.0.1:0").output().await.unwrap()).expect(2);
    assert!(ran.err.contains("database-url"), "{}", ran.err);
    assert!(!data.join("postgres/postmaster.pid").exists(), "its Postgres still runs: {}", ran.err);
}

/// The doctor and the audit need the database, whose URL nobody has to copy.
#[tokio::test]
async fn commands_find_the_database_of_up_while_it_runs() {
    let scratch = Scratch::new();
    let data = scratch.0.join(".windlass");
    let mut up = Up::start_in(&scratch, &data, &["--no-demo"]).await;
    let file = data.join("database-url");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    for arguments in [vec!["audit", "verify"], vec!["audit", "head"], vec!["doctor"]] {
        let ran = Ran::of(windlass(&arguments).current_dir(&scratch.0).output().await.unwrap());
        assert!([0, 1].contains(&ran.code), "{arguments:?}: {ran:?}");
    }
    let said = up.said();
    assert!(
        said.contains(&format!("{} jobs list", env!("CARGO_BIN_EXE_windlass"))),
        "not in the PATH: {said}"
    );
    assert_eq!(up.interrupt().await, 0);
    assert!(!file.exists());
}

#[tokio::test]
async fn up_on_a_given_database_starts_none_and_a_second_signal_ends_it_at_once() {
    let (scratch, database) = (Scratch::new(), migrated().await);
    let mut up = Up::start(&scratch, &["--database-url", database.url()]).await;
    assert!(!scratch.0.join("data/postgres").exists());
    let long = ["jobs", "enqueue", "train-keyword-models", "--set", "keywords=900", "--tenant", "acme"];
    let id = up.ask(&long).await.expect(0).out.trim().to_owned();
    eventually("the long job runs", async || {
        up.ask(&["jobs", "show", &id, "--tenant", "acme", "--json"]).await.json()["job"]["status"]
            == "running"
    })
    .await;
    up.signal();
    eventually("it reports that it stops", async || up.said().contains("ctrl-C again")).await;
    assert_eq!(up.interrupt().await, 130, "{}", up.said());
}

#[tokio::test]
async fn serve_needs_a_migrated_database() {
    let server = windlass_testing::TestServer::shared().await;
    let ran = run(&["serve", "--database-url", &server.url(), "--listen", "127.0.0.1:0"]).await;
    assert!(ran.code != 0 && ran.err.contains("windlass migrate"), "{ran:?}");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let database = migrated().await;
    let address = taken.local_addr().unwrap().to_string();
    let ran = run(&["serve", "--database-url", database.url(), "--listen", &address]).await.expect(3);
    assert!(ran.err.contains("--listen"), "{}", ran.err);
}

/// A `windlass up` of one test.
struct Up {
    child: Child,
    address: String,
    token_file: PathBuf,
    words: PathBuf,
}

impl Up {
    async fn start(scratch: &Scratch, more: &[&str]) -> Self {
        Self::start_in(scratch, &scratch.0.join("data"), more).await
    }

    async fn start_in(scratch: &Scratch, data: &Path, more: &[&str]) -> Self {
        let words = scratch.0.join("words");
        let token_file = data.join("admin-token");
        let mut command = windlass(&["up", "--listen", "127.0.0.1:0", "--data-dir", data.to_str().unwrap()]);
        command.args(more).stdout(Stdio::piped()).stderr(fs::File::create(&words).unwrap());
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let first = lines.next_line().await.unwrap();
        let said = fs::read_to_string(&words).unwrap();
        let first = first.unwrap_or_else(|| panic!("it ended before it was ready: {said}"));
        let address = first
            .strip_prefix("ready: ")
            .unwrap_or_else(|| panic!("{first:?} is not the ready line"))
            .to_owned();
        Self { child, address, token_file, words }
    }

    /// Another command, with the address of this one.
    async fn ask(&self, arguments: &[&str]) -> Ran {
        let mut command: Command = windlass(arguments);
        command.args(["--server", &self.address, "--token-file", self.token_file.to_str().unwrap()]);
        Ran::of(command.output().await.unwrap())
    }

    fn signal(&self) {
        let id = i32::try_from(self.child.id().unwrap()).unwrap();
        kill_process(Pid::from_raw(id).unwrap(), Signal::INT).unwrap();
    }

    /// As ctrl-C does; returns the exit code.
    async fn interrupt(&mut self) -> i32 {
        self.signal();
        self.child.wait().await.unwrap().code().unwrap_or(-1)
    }

    fn said(&self) -> String {
        let mut text = String::new();
        fs::File::open(&self.words).unwrap().read_to_string(&mut text).unwrap();
        text
    }
}

struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Self {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(Uuid::new_v4().simple().to_string());
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
