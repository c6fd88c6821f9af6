//! no name, notation or redirect of an endpoint makes a call reach a forbidden address. A canary listens on both loopback
//! addresses and counts.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;
use tokio::net::TcpListener;
use windlass::NewJob;
use windlass::worker::{HttpEndpoint, Lookup};
use windlass_testing::{TestQueue, eventually};

use super::server::{Reply, Request, Server};
use super::{endpoint, start};
use crate::support::{count, until, worker};

/// On one port of 127.0.0.1 and ::1.
struct Canary {
    v4: Server,
    v6: Option<Server>,
}

impl Canary {
    async fn start() -> Self {
        let v4 = Server::start(|_| Reply::text(200, "the canary")).await;
        let v6 = TcpListener::bind(("::1", v4.port())).await.ok();
        let v6 = v6.map(|listener| {
            Server::serve(listener, Arc::new(|_| Box::pin(async { Reply::text(200, "the canary") })))
        });
        Self { v4, v6 }
    }

    fn connections(&self) -> usize {
        self.v4.connections() + self.v6.as_ref().map_or(0, Server::connections)
    }
}

/// Hosts that are addresses, in every notation that some parser accepts.
const LITERALS: [&str; 64] = [
    "127.0.0.1",
    "127.1",
    "127.0.1",
    "127.255.255.254",
    "127.0.0.1.",
    "0177.0.0.1",
    "0x7f.0.0.1",
    "0x7f000001",
    "0x7f.1",
    "2130706433",
    "017700000001",
    "0",
    "0.0.0.0",
    "00000.0.0.0",
    "0x0",
    "0x7f.0x0.0x0.0x1",
    "10.0.0.1",
    "10.1",
    "167772161",
    "100.64.0.1",
    "100.127.255.254",
    "169.254.169.254",
    "2852039166",
    "0xa9fea9fe",
    "0251.0376.0251.0376",
    "169.254.43518",
    "172.16.0.1",
    "172.31.255.254",
    "192.0.0.192",
    "192.168.0.1",
    "192.168.1",
    "3232235521",
    "198.18.0.1",
    "224.0.0.1",
    "255.255.255.255",
    "240.0.0.1",
    "[::1]",
    "[::]",
    "[0:0:0:0:0:0:0:1]",
    "[::0001]",
    "[::127.0.0.1]",
    "[::ffff:127.0.0.1]",
    "[::ffff:7f00:1]",
    "[0:0:0:0:0:ffff:127.0.0.1]",
    "[::ffff:169.254.169.254]",
    "[::ffff:a00:1]",
    "[::ffff:0:127.0.0.1]",
    "[64:ff9b::127.0.0.1]",
    "[64:ff9b::7f00:1]",
    "[64:ff9b::a9fe:a9fe]",
    "[64:ff9b:1::1]",
    "[2002:7f00:1::]",
    "[2002:a9fe:a9fe::]",
    "[2001::1]",
    "[2001:db8::1]",
    "[100::1]",
    "[fc00::1]",
    "[fd00:ec2::254]",
    "[fe80::1]",
    "[fec0::1]",
    "[ff02::1]",
    "１２７.0.0.1",
    "127。0。0。1",
    "%31%32%37.0.0.1",
];

/// Hosts that are names, whose lookup gives the address.
const NAMES: [(&str, &[&str]); 22] = [
    ("localhost", &["127.0.0.1", "::1"]),
    ("LOCALHOST", &["127.0.0.1"]),
    ("localhost.", &["127.0.0.1"]),
    ("a.localhost", &["::1"]),
    ("v4.test", &["127.0.0.1"]),
    ("v6.test", &["::1"]),
    ("mapped.test", &["::ffff:127.0.0.1"]),
    ("compatible.test", &["::127.0.0.1"]),
    ("nat64.test", &["64:ff9b::127.0.0.1"]),
    ("sixtofour.test", &["2002:7f00:1::"]),
    ("zero.test", &["0.0.0.0"]),
    ("unspecified.test", &["::"]),
    ("metadata.test", &["169.254.169.254"]),
    ("metadata6.test", &["fd00:ec2::254"]),
    ("private10.test", &["10.0.0.1"]),
    ("private172.test", &["172.16.0.1"]),
    ("private192.test", &["192.168.0.1"]),
    ("carrier.test", &["100.64.0.1"]),
    ("unique-local.test", &["fc00::1"]),
    ("link-local.test", &["fe80::1"]),
    ("several.test", &["127.0.0.1", "10.0.0.1", "::1", "fe80::1"]),
    ("127.0.0.1.test", &["127.0.0.1"]),
];

fn lookup() -> Lookup {
    Lookup::new(|name| {
        let found = NAMES.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        let addresses: &[&str] = found.map_or(&["127.0.0.1"], |(_, addresses)| addresses);
        addresses.iter().map(|address| address.parse().unwrap()).collect()
    })
}

/// As the address of an endpoint: either the worker does not start with it, or its jobs are not sent.
#[tokio::test(flavor = "multi_thread")]
async fn a_private_address_is_never_called_however_it_is_written() {
    let canary = Canary::start().await;
    let port = canary.v4.port();
    let queue = TestQueue::create().await;
    let mut refused = 0;
    for host in LITERALS {
        for scheme in ["http", "https"] {
            let endpoint = HttpEndpoint::new(format!("{scheme}://{host}:{port}/")).lookup(lookup());
            let error = worker(&queue).http("k", &endpoint).map(drop).unwrap_err().to_string();
            assert!(error.contains("http.k.url"), "{host}: {error}");
            refused += 1;
        }
    }
    let client = queue.client().await;
    let mut building = worker(&queue).concurrency(50);
    let mut keys = Vec::new();
    for (n, (host, _)) in NAMES.iter().enumerate() {
        let key = format!("name-{n}");
        // An allowed address does not allow another port of the same host.
        let other_port = format!("{host}:{}", port.wrapping_add(1).max(1));
        let endpoint = HttpEndpoint::new(format!("http://{host}:{port}/"))
            .lookup(lookup())
            .timeout(5.0)
            .allow(vec![other_port]);
        building = building.http(&key, &endpoint).unwrap();
        keys.push(key);
        refused += 1;
    }
    let worker = building.start().await.unwrap();
    let jobs: Vec<_> = keys.iter().map(|key| NewJob::new(key).max_attempts(1)).collect();
    for job in queue.enqueue_many(&jobs).await.unwrap() {
        let row = until(&client, job.id, "dead_letter").await;
        assert!(row["last_error"].as_str().unwrap().contains("not a public address"), "{row}");
    }
    worker.stop().await.unwrap();
    assert_eq!((refused, canary.connections()), (2 * LITERALS.len() + NAMES.len(), 0));
}

/// As the target of a redirect, from an allowed endpoint.
#[tokio::test(flavor = "multi_thread")]
async fn a_redirect_leads_to_no_private_address() {
    let canary = Canary::start().await;
    let port = canary.v4.port();
    let server =
        Server::start(|request: &Request| Reply::redirect(307, request.json()["payload"].as_str().unwrap()))
            .await;
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    let endpoint = endpoint(&server, "/").lookup(lookup()).timeout(5.0);
    let worker = start(&queue, "redirects", &endpoint).await;
    let hosts = LITERALS.iter().copied().chain(NAMES.iter().map(|(name, _)| *name));
    let mut targets: Vec<String> = hosts.map(|host| format!("http://{host}:{port}/")).collect();
    targets.extend([
        format!("//127.0.0.1:{port}/"),
        format!("http://example.org@127.0.0.1:{port}/"),
        format!("http://127.0.0.1:{port}#@example.org/"),
        format!("http:\\\\127.0.0.1:{port}\\"),
        format!("ftp://127.0.0.1:{port}/"),
        format!("gopher://127.0.0.1:{port}/_GET"),
        "file:///etc/passwd".to_owned(),
        format!("http://[::1%25lo]:{port}/"),
    ]);
    let jobs: Vec<_> =
        targets.iter().map(|to| NewJob::new("redirects").payload(to).max_attempts(1)).collect();
    queue.enqueue_many(&jobs).await.unwrap();
    let ended = "select count(*) from windlass.jobs where status in ('failed', 'dead_letter')";
    let all = i64::try_from(targets.len()).unwrap();
    eventually("all have failed", async || count(&client, ended).await == all).await;
    worker.stop().await.unwrap();
    assert_eq!((server.requests().len(), canary.connections()), (targets.len(), 0));
}

/// A name that is public when it is checked and private when it is used: there is only one lookup.
#[tokio::test(flavor = "multi_thread")]
async fn dns_rebinding_does_not_reach_a_private_address() {
    let canary = Canary::start().await;
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    let looks = Arc::new(AtomicUsize::new(0));
    let counted = looks.clone();
    let rebinding = Lookup::new(move |_| {
        let look = counted.fetch_add(1, Ordering::SeqCst);
        let public: IpAddr = "203.1.113.1".parse().unwrap();
        vec![if look.is_multiple_of(2) { public } else { "127.0.0.1".parse().unwrap() }]
    });
    let url = format!("http://rebinding.test:{}/", canary.v4.port());
    let endpoint = HttpEndpoint::new(url).lookup(rebinding).timeout(0.3);
    let worker = start(&queue, "rebinding", &endpoint).await;
    let id = queue.enqueue(&NewJob::new("rebinding").payload(&json!(1)).max_attempts(6)).await.unwrap().id;
    until(&client, id, "dead_letter").await;
    assert_eq!((looks.load(Ordering::SeqCst), canary.connections()), (6, 0));
    worker.stop().await.unwrap();
}
