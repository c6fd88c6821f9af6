//! A network that delivers a statement to the server and loses the response.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio_postgres::config::Host;
use windlass_testing::{TestQueue, eventually};

use super::accounting::{make_effect_table, number, settle_accounts};
use super::fleet::Fleet;
use super::load::send_many;

/// Invariants 9 to 11 and 15, and F-27: claims, settlements, heartbeats and completions that took effect and whose responses were
/// lost. No job waits for a worker without it, and nothing happens twice.
#[tokio::test(flavor = "multi_thread")]
async fn a_lost_response_loses_no_job() {
    for statement in ["windlass.claim", "windlass.settle", "windlass.heartbeat", "windlass.promote"] {
        let (queue, fleet) = (TestQueue::create().await, Fleet::new());
        let client = queue.client().await;
        make_effect_table(&client).await;
        drop(fleet.spawn(queue.url(), &[]).await);
        let mut acked = send_many(&queue, "work", 1, 60).await;
        acked.extend(send_many(&queue, "effect", 1, 5).await);
        let proxy = Proxy::start(queue.url(), Fault::Cut, statement, 3).await;
        let flags = [("--pooled", "true"), ("--concurrency", "5"), ("--lease-ms", "60000")];
        let worker = fleet.spawn(&proxy.url, &flags).await;
        eventually("it was interrupted as often as requested", async || {
            proxy.left.load(Ordering::SeqCst) == 0
        })
        .await;
        let books = settle_accounts(&client, &fleet, &acked, &acked).await;
        worker.finish().await;
        assert_eq!((books.lost, books.overlaps), (0, 0), "{statement}: {books:?}");
    }
}

/// F-16 and F-32: a connection that hangs without ending costs the worker a heartbeat, not its lease.
#[tokio::test(flavor = "multi_thread")]
async fn a_hanging_connection_does_not_lose_the_lease() {
    let (queue, fleet) = (TestQueue::create().await, Fleet::new());
    let client = queue.client().await;
    let proxy = Proxy::start(queue.url(), Fault::Silence, "windlass.heartbeat", 1).await;
    let flags = [("--pooled", "true"), ("--lease-ms", "4000"), ("--heartbeat-ms", "500")];
    let worker = fleet.spawn(&proxy.url, &flags).await;
    let reaper = fleet.spawn(queue.url(), &[("--concurrency", "1")]).await;
    let acked = send_many(&queue, "work", 6_000, 3).await;
    let books = settle_accounts(&client, &fleet, &acked, &acked).await;
    for worker in [worker, reaper] {
        worker.finish().await;
    }
    assert_eq!((proxy.left.load(Ordering::SeqCst), books.lost, books.overlaps), (0, 0, 0), "{books:?}");
}

/// Invariant 11: a claim is delayed until its worker has abandoned it and continues over another connection. If it took jobs
/// then, they would run forever under a live worker without them.
#[tokio::test(flavor = "multi_thread")]
async fn a_claim_that_arrives_after_it_was_abandoned_takes_no_job() {
    let (queue, fleet) = (TestQueue::create().await, Fleet::new());
    let client = queue.client().await;
    let proxy = Proxy::start(queue.url(), Fault::Late, "windlass.claim(", 1).await;
    let flags =
        [("--pooled", "true"), ("--concurrency", "1"), ("--lease-ms", "3000"), ("--heartbeat-ms", "500")];
    let worker = fleet.spawn(&proxy.url, &flags).await;
    let acked = send_many(&queue, "work", 1_000, 4).await;
    let abandoned = "select count(*) from windlass.job_workers where epoch = 1";
    eventually("the claim is abandoned", async || number(&client, abandoned).await == 1).await;
    proxy.gate.open.notify_one();
    proxy.gate.answered.notified().await;
    settle_accounts(&client, &fleet, &acked, &acked).await;
    worker.finish().await;
}

/// A server that accepts the connection and never responds is unreachable, like one that refuses it: a process that starts then must
/// not wait forever. `connect_timeout` of the driver ends with the TCP connection.
#[tokio::test]
async fn a_server_that_never_responds_is_unreachable() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = silent.local_addr().unwrap().port();
    let url = format!("postgresql://nobody@127.0.0.1:{port}/none?sslmode=disable&connect_timeout=1");
    let settings = windlass::Settings::new(&url).unwrap();
    for pooled in [false, true] {
        let settings = if pooled { settings.clone().pooled() } else { settings.clone() };
        let connected =
            tokio::time::timeout(Duration::from_secs(60), windlass::Queue::connect(settings)).await;
        let error = connected.expect("it gives up").unwrap_err();
        assert!(error.is_transient(), "{error:?}");
    }
}

#[derive(Clone, Copy)]
pub(super) enum Fault {
    /// The connection ends before the response is forwarded.
    Cut,
    /// The connection stays open, and nothing is forwarded any more.
    Silence,
    /// The statement is delayed until the gate is opened, and reaches the server then; its response is dropped.
    Late,
}

#[derive(Default)]
struct Gate {
    open: Notify,
    answered: Notify,
}

/// Forwards everything, but breaks a connection after the server has responded to a statement that contains these words, the
/// given number of times.
pub(super) struct Proxy {
    pub(super) url: String,
    pub(super) left: Arc<AtomicUsize>,
    gate: Arc<Gate>,
    accepting: JoinHandle<()>,
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl Proxy {
    pub(super) async fn start(url: &str, fault: Fault, words: &'static str, times: usize) -> Self {
        let config: tokio_postgres::Config = url.parse().unwrap();
        let [Host::Unix(directory)] = config.get_hosts() else { panic!("tests use the socket") };
        let upstream = directory.join(format!(".s.PGSQL.{}", config.get_ports()[0]));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (user, database) = (config.get_user().unwrap(), config.get_dbname().unwrap());
        let port = listener.local_addr().unwrap().port();
        let url = format!("postgresql://{user}@127.0.0.1:{port}/{database}?sslmode=disable");
        let left = Arc::new(AtomicUsize::new(times));
        let remaining = left.clone();
        let gate = Arc::<Gate>::default();
        let passing = gate.clone();
        let accepting = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let (upstream, left, gate) = (upstream.clone(), remaining.clone(), passing.clone());
                tokio::spawn(async move {
                    if let Ok(server) = UnixStream::connect(&upstream).await {
                        pass_on((client, server), fault, words, &left, &gate).await;
                    }
                });
            }
        });
        Self { url, left, gate, accepting }
    }
}

async fn pass_on(
    (mut client, mut server): (TcpStream, UnixStream),
    fault: Fault,
    words: &str,
    left: &AtomicUsize,
    gate: &Gate,
) {
    let (mut from_client, mut from_server) = (vec![0; 1 << 16], vec![0; 1 << 16]);
    let mut cuts = false;
    loop {
        tokio::select! {
            read = client.read(&mut from_client) => {
                let Ok(count @ 1..) = read else { return };
                let sent = &from_client[..count];
                cuts |= sent.windows(words.len()).any(|window| window == words.as_bytes())
                    && left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok();
                if cuts && matches!(fault, Fault::Late) {
                    // Its client no longer exists by then.
                    gate.open.notified().await;
                    server.write_all(sent).await.unwrap();
                    assert!(server.read(&mut from_server).await.unwrap() > 0, "the server responds");
                    return gate.answered.notify_one();
                }
                if server.write_all(sent).await.is_err() { return }
            }
            read = server.read(&mut from_server) => {
                let Ok(count @ 1..) = read else { return };
                if cuts && matches!(fault, Fault::Silence) { return std::future::pending().await }
                if cuts || client.write_all(&from_server[..count]).await.is_err() { return }
            }
        }
    }
}

/// Invariants 9, 11 and 15: a claim or an ending on a hanging connection is sent again on another one.
#[tokio::test(flavor = "multi_thread")]
async fn a_hanging_connection_prevents_no_job_from_ending() {
    for statement in ["windlass.claim(", "windlass.settle_"] {
        let (queue, fleet) = (TestQueue::create().await, Fleet::new());
        let client = queue.client().await;
        let proxy = Proxy::start(queue.url(), Fault::Silence, statement, 1).await;
        let worker = fleet
            .spawn(&proxy.url, &[("--pooled", "true"), ("--lease-ms", "3000"), ("--heartbeat-ms", "500")])
            .await;
        let acked = send_many(&queue, "work", 10, 20).await;
        settle_accounts(&client, &fleet, &acked, &acked).await;
        worker.finish().await;
        assert_eq!(proxy.left.load(Ordering::SeqCst), 0, "{statement} was never interrupted");
    }
}
