//! A network that takes a statement to the server and loses the answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_postgres::config::Host;
use windlass_testing::{TestQueue, TestServer, eventually};

use super::accounting::{make_effect_table, settle_accounts};
use super::fleet::Fleet;
use super::load::send_many;

/// Invariants 9 to 11 and 15, and F-27: claims, settlements, heartbeats and completions that took effect and whose
/// answers were lost. Nothing waits for a worker that does not know of it, and nothing happens twice.
#[tokio::test(flavor = "multi_thread")]
async fn an_answer_lost_on_the_way_loses_no_job() {
    for statement in ["windlass.claim", "windlass.settle", "windlass.heartbeat", "windlass.promote"] {
        let (queue, fleet) = (TestQueue::create().await, Fleet::new());
        let client = queue.client().await;
        make_effect_table(&client).await;
        drop(fleet.spawn(queue.url(), &[]).await);
        let mut acked = send_many(&queue, "work", 1, 60).await;
        acked.extend(send_many(&queue, "effect", 1, 5).await);
        let proxy = Proxy::start(queue.url(), statement, 3).await;
        let flags = [("--pooled", "true"), ("--concurrency", "5"), ("--lease-ms", "60000")];
        let worker = fleet.spawn(&proxy.url, &flags).await;
        eventually("it was cut as often as asked", async || proxy.left.load(Ordering::SeqCst) == 0).await;
        let books = settle_accounts(&client, &fleet, &acked, &acked).await;
        worker.finish().await;
        assert_eq!((books.lost, books.overlaps), (0, 0), "{statement}: {books:?}");
    }
}

/// Passes everything on, but cuts a connection after the server has answered a statement with these words in it, as
/// often as asked.
struct Proxy {
    url: String,
    left: Arc<AtomicUsize>,
    accepting: JoinHandle<()>,
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl Proxy {
    async fn start(url: &str, words: &'static str, times: usize) -> Self {
        let config: tokio_postgres::Config = url.parse().unwrap();
        let tcp: tokio_postgres::Config = TestServer::shared().await.postgres().tcp_url().parse().unwrap();
        let (Host::Tcp(host), port) = (&tcp.get_hosts()[0], tcp.get_ports()[0]) else { panic!("not TCP") };
        let upstream = (host.clone(), port);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (user, database) = (config.get_user().unwrap(), config.get_dbname().unwrap());
        let port = listener.local_addr().unwrap().port();
        let url = format!("postgresql://{user}@127.0.0.1:{port}/{database}?sslmode=disable");
        let left = Arc::new(AtomicUsize::new(times));
        let remaining = left.clone();
        let accepting = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let (upstream, left) = (upstream.clone(), remaining.clone());
                tokio::spawn(async move {
                    if let Ok(server) = TcpStream::connect(&upstream).await {
                        pass_on(client, server, words, &left).await;
                    }
                });
            }
        });
        Self { url, left, accepting }
    }
}

async fn pass_on(mut client: TcpStream, mut server: TcpStream, words: &str, left: &AtomicUsize) {
    let (mut from_client, mut from_server) = (vec![0; 1 << 16], vec![0; 1 << 16]);
    let mut cuts = false;
    loop {
        tokio::select! {
            read = client.read(&mut from_client) => {
                let Ok(count @ 1..) = read else { return };
                let sent = &from_client[..count];
                cuts |= sent.windows(words.len()).any(|window| window == words.as_bytes())
                    && left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok();
                if server.write_all(sent).await.is_err() { return }
            }
            read = server.read(&mut from_server) => {
                let Ok(count @ 1..) = read else { return };
                if cuts || client.write_all(&from_server[..count]).await.is_err() { return }
            }
        }
    }
}
