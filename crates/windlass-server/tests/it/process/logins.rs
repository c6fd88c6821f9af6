//! The table of logins in the guide on security, with the real program: each row becomes a login with exactly those roles. The
//! task of the row works, and other tasks are rejected with the name of the missing role.

mod operator;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Child;
use uuid::Uuid;
use windlass::job::State;
use windlass::keeper::Duty;
use windlass::{DEFAULT_TENANT, Definition, NewJob, Queue, Worker, migrate};
use windlass_testing::{Login, Plain, TestQueue, eventually, settings};

use crate::cli::{Ran, run, windlass};

const GUIDE: &str = include_str!("../../../../../docs/guides/security.md");

/// The rows of the table: the task, and the roles of its login.
fn rows() -> Vec<(String, String)> {
    let (_, rest) = GUIDE.split_once("<!-- checked: database-logins -->").unwrap();
    let table = rest.lines().skip_while(|line| !line.starts_with("|---")).skip(1);
    let cells =
        table.take_while(|line| line.starts_with('|')).map(|line| line.split('|').collect::<Vec<_>>());
    cells.map(|cells| (cells[1].trim().to_owned(), cells[2].replace('`', "").trim().to_owned())).collect()
}

#[tokio::test(flavor = "multi_thread")]
#[expect(clippy::too_many_lines, reason = "one scenario, in its order")]
async fn each_documented_login_can_do_its_work_and_nothing_else() {
    let place = Place::new().await;
    let rows = rows();
    assert!(rows.len() >= 11, "{rows:?}");
    for (who, roles) in rows {
        let login = Login::create(&place.queue, &roles).await;
        let url = login.url();
        match who.as_str() {
            "application that enqueues" => {
                place.enqueues(url).await;
                refused(&["jobs", "list"], url, "windlass_operator").await;
                place.refuses_worker(url, "windlass_worker, windlass_keeper").await;
            }
            "PostgREST: the role that a JWT names" => {
                let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await.unwrap();
                tokio::spawn(connection);
                client.query("select windlass.enqueue('hello')", &[]).await.unwrap();
                refused(&["serve", "--listen", "127.0.0.1:0"], url, "windlass_server").await;
            }
            "application that embeds a worker" => {
                place.enqueues(url).await;
                let theirs = Queue::connect(settings(url)).await.unwrap();
                let worker = Worker::builder(&theirs).handler(Plain).start().await.unwrap();
                place.runs("plain").await;
                worker.stop().await.unwrap();
                refused(&["audit", "verify"], url, "windlass_operator").await;
            }
            "`windlass worker`" => {
                let mut worker = place.worker(url, &[]).await;
                // Promoted by its keeper.
                let later = NewJob::new("hello").delay(std::time::Duration::from_secs(1));
                let job = place.queue.enqueue(&later).await.unwrap().id;
                place.ends(job).await;
                worker.ends_in_order().await;
                refused(&["tokens", "list"], url, "windlass_operator").await;
            }
            "`windlass worker --no-keeper`" => {
                let mut worker = place.worker(url, &["--no-keeper"]).await;
                place.runs("hello").await;
                worker.ends_in_order().await;
                let message = place.refuses_worker(url, "windlass_keeper").await;
                assert!(message.contains("--no-keeper"), "{message}");
                refused(&["keeper"], url, "windlass_keeper").await;
            }
            "`windlass keeper`" => {
                for duty in Duty::ALL {
                    run(&["keeper", "--once", duty.as_str(), "--database-url", url]).await.expect(0);
                }
                place.refuses_worker(url, "windlass_worker").await;
                refused(&["doctor"], url, "windlass_operator").await;
            }
            "scheduler of the database that calls `windlass.tick`" => {
                let client = login.client().await;
                let duties = client.query("select duty from windlass.tick()", &[]).await.unwrap();
                assert_eq!(duties.len(), Duty::ALL.len(), "a row for each duty of a keeper");
                refused(&["doctor"], url, "windlass_operator").await;
            }
            "SQL worker, such as an edge function" => {
                place.queue.enqueue(&NewJob::new("hello")).await.unwrap();
                let client = login.client().await;
                let taken = client
                    .query_one("select id, token from windlass.take(array['hello'])", &[])
                    .await
                    .unwrap();
                let (job, token) = (taken.get::<_, Uuid>(0), taken.get::<_, Uuid>(1));
                client.query("select windlass.finish($1, $2)", &[&job, &token]).await.unwrap();
                place.ends(job).await;
                client.query("select windlass.enqueue('hello')", &[]).await.unwrap_err();
                refused(&["serve", "--listen", "127.0.0.1:0"], url, "windlass_server").await;
            }
            "`windlass serve`, also with `--with-keeper`" => {
                let arguments = ["serve", "--with-keeper", "--listen", "127.0.0.1:0"];
                let mut server = Process::start(&place, &arguments, url).await;
                let token = ["tokens", "create", "t", "--role", "super_admin", "--database-url", url];
                let token = run(&token).await.expect(0).out.trim().to_owned();
                for call in [vec!["jobs", "enqueue", "hello", "--tenant", "default"], vec!["tenants", "list"]]
                {
                    let mut command = windlass(&call);
                    command.args(["--server", &server.ready, "--token", &token]);
                    Ran::of(command.output().await.unwrap()).expect(0);
                }
                server.ends_in_order().await;
                place.outdate().await;
                refused(&["migrate"], url, "windlass_migrator").await;
                refused(&["serve", "--migrate", "--listen", "127.0.0.1:0"], url, "windlass_migrator").await;
                migrate(&settings(place.queue.url())).await.unwrap();
            }
            "`windlass up` with your own database" => {
                place.outdate().await;
                let data = place.directory.join("up");
                let up = ["up", "--no-demo", "--listen", "127.0.0.1:0", "--data-dir", data.to_str().unwrap()];
                let mut process = Process::start(&place, &up, url).await;
                let mut command =
                    windlass(&["jobs", "list", "--tenant", "default", "--server", &process.ready]);
                command.arg("--token-file").arg(data.join("admin-token"));
                Ran::of(command.output().await.unwrap()).expect(0);
                process.ends_in_order().await;
                let half = Login::create(&place.queue, "windlass_migrator").await;
                refused(&up, half.url(), "windlass_server").await;
                half.drop().await;
            }
            "operator with `--database-url`" => {
                operator::every_command_works(&place, url).await;
                operator::has_no_other_rights(url).await;
                refused(&["serve", "--listen", "127.0.0.1:0"], url, "windlass_server").await;
                place.outdate().await;
                refused(&["migrate"], url, "windlass_migrator").await;
            }
            "`windlass migrate`" => {
                place.outdate().await;
                let done = run(&["migrate", "--database-url", url]).await.expect(0);
                assert!(done.out.contains("functions installed"), "{done:?}");
                refused(&["serve", "--listen", "127.0.0.1:0"], url, "windlass_server").await;
                refused(&["jobs", "list"], url, "windlass_operator").await;
            }
            "analyst who only reads" => {
                let theirs = Queue::connect(settings(url)).await.unwrap();
                place.queue.enqueue(&NewJob::new("hello")).await.unwrap();
                assert!(
                    !theirs.list(&windlass::job::Filter::new(DEFAULT_TENANT)).await.unwrap().jobs.is_empty()
                );
                let error = theirs.enqueue(&NewJob::new("hello")).await.unwrap_err().to_string();
                assert!(error.contains("windlass_app"), "{error}");
                refused(&["jobs", "list"], url, "windlass_operator").await;
            }
            new => panic!("nothing tests the login of {new}"),
        }
        login.drop().await;
    }
}

/// A login without any role gets the name of the role that it needs, for every command.
#[tokio::test(flavor = "multi_thread")]
async fn a_login_without_roles_gets_the_roles_that_it_needs() {
    let place = Place::new().await;
    let login = Login::create(&place.queue, "pg_monitor").await;
    place.refuses_worker(login.url(), "windlass_worker, windlass_keeper").await;
    for (arguments, role) in [
        (vec!["keeper"], "windlass_keeper"),
        (vec!["serve", "--listen", "127.0.0.1:0"], "windlass_server"),
        (vec!["jobs", "list"], "windlass_operator"),
        (vec!["doctor"], "windlass_operator"),
        (vec!["audit", "head"], "windlass_operator"),
    ] {
        refused(&arguments, login.url(), role).await;
    }
    login.drop().await;
}

/// Ends with the exit code of a missing permission, and names the role.
async fn refused(arguments: &[&str], url: &str, roles: &str) -> String {
    let ran = Ran::of(windlass(arguments).args(["--database-url", url]).output().await.unwrap()).expect(4);
    // `migrate` prints the statements to run.
    let advice = [format!("grant the role {roles} to this login"), format!("grant {roles} to \"")];
    assert!(advice.iter().any(|advice| ran.err.contains(advice)), "{arguments:?}: {ran:#?}");
    ran.err
}

/// A database with the definitions `plain` and `hello`, and a directory with a worker file.
struct Place {
    queue: TestQueue,
    directory: PathBuf,
    file: PathBuf,
}

impl Place {
    async fn new() -> Self {
        let queue = TestQueue::create().await;
        for key in ["plain", "hello"] {
            queue.define(&Definition::new(key)).await.unwrap();
        }
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(Uuid::new_v4().simple().to_string());
        fs::create_dir_all(&directory).unwrap();
        let file = directory.join("worker.toml");
        fs::write(&file, "[commands.hello]\nargv = [\"/bin/true\"]\n").unwrap();
        Self { queue, directory, file }
    }

    async fn enqueues(&self, url: &str) {
        let app = Queue::connect(settings(url)).await.unwrap();
        let job = app.enqueue(&NewJob::new("hello").payload(&json!({"n": 1}))).await.unwrap().id;
        app.cancel(DEFAULT_TENANT, job).await.unwrap();
        assert_eq!(app.job(DEFAULT_TENANT, job).await.unwrap().unwrap().status, State::Canceled);
    }

    async fn runs(&self, key: &str) {
        let job = self.queue.enqueue(&NewJob::new(key)).await.unwrap().id;
        self.ends(job).await;
    }

    async fn ends(&self, job: Uuid) {
        eventually("the job has run", async || {
            let job = self.queue.job(DEFAULT_TENANT, job).await.unwrap().unwrap();
            job.status == State::Succeeded
        })
        .await;
    }

    async fn worker(&self, url: &str, more: &[&str]) -> Process {
        let arguments: Vec<&str> =
            ["worker", "--config", self.file.to_str().unwrap()].iter().chain(more).copied().collect();
        Process::start(self, &arguments, url).await
    }

    async fn refuses_worker(&self, url: &str, roles: &str) -> String {
        refused(&["worker", "--config", self.file.to_str().unwrap()], url, roles).await
    }

    /// As if the functions were of another release.
    async fn outdate(&self) {
        let other = "update windlass.installed_functions set checksum = 'another'";
        self.queue.client().await.batch_execute(other).await.unwrap();
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// A process that runs until it is stopped.
struct Process {
    child: Child,
    /// Its output when it was ready: its address or its id.
    ready: String,
    words: PathBuf,
}

impl Process {
    async fn start(place: &Place, arguments: &[&str], url: &str) -> Self {
        let words = place.directory.join(format!("{}.words", Uuid::new_v4().simple()));
        let mut command = windlass(arguments);
        command
            .args(["--database-url", url])
            .stdout(Stdio::piped())
            .stderr(fs::File::create(&words).unwrap());
        let mut child = command.spawn().unwrap();
        let first = BufReader::new(child.stdout.take().unwrap()).lines().next_line().await.unwrap();
        let said = fs::read_to_string(&words).unwrap();
        let first = first.unwrap_or_else(|| panic!("{arguments:?} ended before it was ready: {said}"));
        let ready = first.strip_prefix("ready: ").unwrap_or_else(|| panic!("{first:?}")).to_owned();
        Self { child, ready, words }
    }

    /// Without any denied operation.
    async fn ends_in_order(&mut self) {
        let id = i32::try_from(self.child.id().unwrap()).unwrap();
        kill_process(Pid::from_raw(id).unwrap(), Signal::TERM).unwrap();
        let code = self.child.wait().await.unwrap().code();
        let said = fs::read_to_string(&self.words).unwrap();
        assert_eq!(code, Some(0), "{said}");
        assert!(!said.contains("denied") && !said.contains("grant the role"), "{said}");
    }
}
