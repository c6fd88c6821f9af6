//! Through Debian's pgbouncer in transaction mode: no transaction keeps its connection.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt, chown};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use rustix::process::geteuid;
use serde_json::json;
use tokio::process::{Child, Command};
use tokio_postgres::NoTls;
use tokio_postgres::config::Host;
use uuid::Uuid;
use windlass::job::Canceled;
use windlass::{DEFAULT_TENANT, NewJob, Queue, Settings, enqueue_in};
use windlass_testing::{TestQueue, TestServer, eventually, times};

use super::accounting::{make_effect_table, number, settle_accounts};
use super::fleet::Fleet;
use super::load::{job, send, send_many};

/// Invariants 9 to 16, 21, 22 and 40 to 42 behind a configured pooler.
#[tokio::test(flavor = "multi_thread")]
async fn everything_works_behind_a_pooler() {
    core(&[("--pooled", "true")], |settings| settings.pooled()).await;
}

/// The same behind an unconfigured one: the first statement that it loses reveals it.
#[tokio::test(flavor = "multi_thread")]
async fn everything_works_behind_an_unconfigured_pooler() {
    core(&[], |settings| settings).await;
}

/// The same without a direct connection to the server: work is found by polling.
#[tokio::test(flavor = "multi_thread")]
async fn everything_works_behind_a_pooler_without_listen() {
    core(&[("--pooled", "true"), ("--listen", "false")], |settings| settings.pooled().without_listen()).await;
}

/// X-04 behind a pooler: callers that disconnect in the middle of a read leave no current tenant.
#[tokio::test(flavor = "multi_thread")]
async fn tenants_are_isolated_behind_a_pooler() {
    let direct = TestQueue::create().await;
    direct.define(&windlass::Definition::new("a")).await.unwrap();
    let tenants = [direct.tenant("a").await, direct.tenant("b").await];
    for tenant in tenants {
        direct.enqueue(&NewJob::new("a").tenant(tenant)).await.unwrap();
    }
    let bouncer = Bouncer::start(&direct).await;
    let settings = Settings::new(&bouncer.url).unwrap().direct_url(direct.url()).unwrap().pooled();
    let queue = Queue::connect(settings.connections(2)).await.unwrap();
    for round in 0..times(400, 2000_usize) {
        let tenant = tenants[round % 2];
        let look = async {
            let reading = queue.read(windlass::admin::Reach::Tenant(tenant)).await?;
            let page = reading.list(&windlass::job::Filter::new(tenant)).await?;
            let counts = reading.counts().await?;
            reading.end().await?;
            Ok::<_, windlass::Error>((page.jobs, counts))
        };
        if round % 3 == 0 {
            let moment = Duration::from_micros((round * 7 % 3000) as u64);
            let _ = tokio::time::timeout(moment, look).await;
            continue;
        }
        let (jobs, counts) = look.await.unwrap();
        assert!(jobs.len() == 1 && jobs[0].tenant_id == tenant, "round {round}: {jobs:?}");
        assert!(counts.iter().all(|count| count.tenant_id == tenant), "round {round}");
    }
}

/// If the pooler's address is configured as the server's own, the doctor reports that notifications do not arrive there.
#[tokio::test(flavor = "multi_thread")]
async fn the_doctor_finds_that_listen_is_lost_behind_a_pooler() {
    let direct = TestQueue::create().await;
    let bouncer = Bouncer::start(&direct).await;
    let findings = windlass::setup::examine(&Settings::new(&bouncer.url).unwrap()).await.unwrap();
    let listen = findings.iter().find(|finding| finding.check == "listen").unwrap();
    assert_eq!(listen.severity, windlass::setup::Severity::Danger, "{listen:?}");
    assert!(listen.advice.as_ref().unwrap().contains("direct_url"), "{listen:?}");
    let both = Settings::new(&bouncer.url).unwrap().direct_url(direct.url()).unwrap();
    let findings = windlass::setup::examine(&both).await.unwrap();
    let listen = findings.iter().find(|finding| finding.check == "listen").unwrap();
    assert_eq!(listen.severity, windlass::setup::Severity::Fine, "{listen:?}");
    assert!(listen.found.contains("use a pooler"), "{listen:?}");
}

async fn core(flags: &[(&str, &str)], say: fn(Settings) -> Settings) {
    let (direct, fleet) = (TestQueue::create().await, Fleet::new());
    let client = direct.client().await;
    make_effect_table(&client).await;
    let bouncer = Bouncer::start(&direct).await;
    let settings = say(Settings::new(&bouncer.url).unwrap().direct_url(direct.url()).unwrap());
    let queue = Queue::connect(settings).await.unwrap();
    let flags = [flags, &[("--direct-url", direct.url()), ("--concurrency", "5")]].concat();
    let workers = [fleet.spawn(&bouncer.url, &flags).await, fleet.spawn(&bouncer.url, &flags).await];

    let mut acked = send_many(&queue, "work", 1, 100).await;
    acked.extend(send_many(&queue, "effect", 1, 5).await);
    for _ in 0..20 {
        acked.push(send(&queue, job("work", 1)).await);
    }
    acked.push(send(&queue, NewJob::new("work").payload(&json!({"failures": 3}))).await);
    acked.push(send(&queue, job("work", 1).delay(Duration::from_millis(200))).await);

    let guarded: Vec<NewJob> =
        (0..20).map(|n| job("work", 50).dedupe_key(format!("key {}", n % 10))).collect();
    let results = queue.enqueue_many(&guarded).await.unwrap();
    assert_eq!(results.iter().filter(|result| result.is_duplicate).count(), 10);
    acked.extend(results.iter().filter(|result| !result.is_duplicate).map(|result| result.id));
    let mixed =
        [job("work", 1), job("work", 1).idempotency_key("once"), job("work", 1).idempotency_key("once")];
    let results = queue.enqueue_many(&mixed).await.unwrap();
    assert_eq!(results[1].id, results[2].id);
    acked.extend([results[0].id, results[1].id]);
    acked.push(in_own_transaction(&bouncer.url, true).await);
    in_own_transaction(&bouncer.url, false).await;

    let long = send(&queue, job("work", 600_000)).await;
    let late = send(&queue, job("work", 0).delay(Duration::from_secs(600))).await;
    acked.extend([long, late]);
    eventually("the long job runs", async || fleet.has_started(long)).await;
    assert_eq!(queue.cancel(DEFAULT_TENANT, long).await.unwrap(), Canceled::Requested);
    assert_eq!(queue.cancel(DEFAULT_TENANT, late).await.unwrap(), Canceled::Now);

    let books = settle_accounts(&client, &fleet, &acked, &acked).await;
    for worker in workers {
        worker.finish().await;
    }
    assert_eq!((books.lost, books.overlaps), (0, 0), "{books:?}");
    let succeeded = "select count(*) from windlass.jobs where status = 'succeeded'";
    assert_eq!(number(&client, succeeded).await, i64::try_from(acked.len() - 2).unwrap());
}

/// Enqueued together with the caller's own row; both exist or neither does.
async fn in_own_transaction(url: &str, commits: bool) -> Uuid {
    let (mut client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    let tx = client.transaction().await.unwrap();
    let id = enqueue_in(&tx, &job("work", 1)).await.unwrap().id;
    if commits {
        tx.commit().await.unwrap();
    } else {
        tx.rollback().await.unwrap();
    }
    id
}

/// A pgbouncer of this test. It does not run as root, so it runs as the server's own user; killed when dropped.
struct Bouncer {
    url: String,
    directory: PathBuf,
    _child: Child,
}

impl Bouncer {
    async fn start(queue: &TestQueue) -> Self {
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(Uuid::new_v4().simple().to_string());
        fs::create_dir_all(&directory).unwrap();
        let owner = fs::metadata(TestServer::shared().await.data_dir()).unwrap();
        let config: tokio_postgres::Config = queue.url().parse().unwrap();
        let [Host::Unix(socket)] = config.get_hosts() else { panic!("tests use the socket") };
        let (database, server_port) = (config.get_dbname().unwrap(), config.get_ports()[0]);
        let socket = socket.display();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let user = config.get_user().unwrap();
        // Few server connections for many clients, in turn: statements do run on the connections of other clients.
        let text = format!(
            "[databases]\n{database} = host={socket} port={server_port} dbname={database} user={user}\n\
             [pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\nauth_type = any\n\
             pool_mode = transaction\ndefault_pool_size = 6\nmax_client_conn = 200\nserver_round_robin = 1\n"
        );
        let file = directory.join("pgbouncer.ini");
        fs::write(&file, text).unwrap();
        let mut command = Command::new("/usr/sbin/pgbouncer");
        command.arg("-q").arg(&file).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        if geteuid().is_root() {
            chown(&directory, Some(owner.uid()), Some(owner.gid())).unwrap();
            chown(&file, Some(owner.uid()), Some(owner.gid())).unwrap();
            command.uid(owner.uid()).gid(owner.gid());
        }
        let child = command.kill_on_drop(true).spawn().unwrap();
        let url = format!("postgresql://{user}@127.0.0.1:{port}/{database}?sslmode=disable");
        eventually("pgbouncer responds", async || tokio_postgres::connect(&url, NoTls).await.is_ok()).await;
        Self { url, directory, _child: child }
    }
}

impl Drop for Bouncer {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.directory);
    }
}
