//! What a client without a credential can make the server do, and how much of it at once.

use std::io::Read as _;

use reqwest::Method;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use windlass::{DEFAULT_TENANT, Definition, NewJob};
use windlass_server::auth::Role;
use windlass_server::http::Options;
use windlass_testing::eventually;

use crate::support::{Client, TestServer};

async fn read(client: &Client, path: &str) -> (reqwest::header::HeaderMap, Vec<u8>) {
    let answer = client.request(Method::GET, path).send().await.unwrap();
    assert_eq!(answer.status(), 200, "{path}");
    (answer.headers().clone(), answer.bytes().await.unwrap().to_vec())
}

fn unpacked(bytes: &[u8]) -> Vec<u8> {
    let mut text = Vec::new();
    flate2::read::GzDecoder::new(bytes).read_to_end(&mut text).unwrap();
    text
}

/// A body that is compressed while it is sent has no length in its head: one that has was compressed before.
#[tokio::test]
async fn a_document_for_everybody_is_compressed_once_and_not_for_each_request() {
    let server = TestServer::start().await;
    let plain = server.anonymous();
    for path in ["/api/openapi.json", "/docs", "/ui/assets/windlass.css", "/ui/assets/windlass.js"] {
        let (head, whole) = read(&plain, path).await;
        assert_eq!(head.get("content-encoding"), None, "{path}");
        assert_eq!(head["vary"], "accept-encoding", "{path}");
        let (head, packed) = read(&plain.with("accept-encoding", "gzip, br"), path).await;
        assert_eq!(head["content-encoding"], "gzip", "{path}");
        assert_eq!(head["vary"], "accept-encoding", "{path}");
        assert_eq!(head["content-length"], packed.len().to_string(), "{path}");
        assert!(packed.len() < whole.len() / 2, "{path}");
        assert_eq!(unpacked(&packed), whole, "{path}");
        // Neither copy nor layer may compress it.
        let (head, refused) = read(&plain.with("accept-encoding", "gzip;q=0, identity"), path).await;
        assert_eq!((head.get("content-encoding"), refused), (None, whole), "{path}");
    }
}

#[tokio::test]
async fn a_large_response_is_compressed_before_it_leaves_its_permit() {
    let server = TestServer::start().await;
    server.queue.define(&Definition::new("a")).await.unwrap();
    let viewer = server.client(DEFAULT_TENANT, Role::Viewer).await.with("accept-encoding", "gzip");
    for (bytes, is_compressed_before) in [(2_000, false), (100_000, true)] {
        let payload = json!({"text": "a".repeat(bytes)});
        let job = server.queue.enqueue(&NewJob::new("a").payload(&payload)).await.unwrap().id;
        let (head, packed) = read(&viewer, &format!("/api/v1/jobs/{job}")).await;
        assert_eq!(head["content-encoding"], "gzip", "{bytes}");
        assert_eq!(head.contains_key("content-length"), is_compressed_before, "{bytes}");
        let shown: serde_json::Value = serde_json::from_slice(&unpacked(&packed)).unwrap();
        assert_eq!(shown["payload"], payload);
    }
    let payload = json!({"text": "a".repeat(600_000)});
    let job = server.queue.enqueue(&NewJob::new("a").payload(&payload)).await.unwrap().id;
    let (head, _) = read(&viewer, &format!("/api/v1/jobs/{job}")).await;
    assert_eq!(head.get("content-encoding"), None, "it is sent faster than it is compressed");
}

#[tokio::test(flavor = "multi_thread")]
async fn responses_that_nobody_reads_have_a_limit_and_others_are_served() {
    let server = TestServer::start_with(Options { anonymous_at_once: 4, ..Options::default() }).await;
    // A window of a thousand bytes: the rest of each response stays with the server until it is read.
    let slow = reqwest::Client::builder().http2_prior_knowledge().http2_initial_stream_window_size(1024);
    let slow = slow.no_proxy().build().unwrap();
    let docs = format!("{}/docs", server.base);
    let mut unread = Vec::new();
    for _ in 0..4 {
        let answer = slow.get(&docs).send().await.unwrap();
        assert_eq!(answer.status(), 200);
        unread.push(answer);
    }
    for path in ["/docs", "/api/openapi.json", "/ui/sign-in", "/ui/assets/windlass.css"] {
        let refused = server.anonymous().get(path).await;
        assert_eq!((refused.status.as_u16(), refused.header("retry-after")), (429, Some("1")), "{path}");
    }
    server.anonymous().get("/health/ready").await.expect(200);
    server.admin.get("/api/v1/jobs").await.expect(200);
    // Read to its end or not: what is over does not count.
    assert!(unread.pop().unwrap().bytes().await.unwrap().len() > 64 * 1024);
    eventually("there is room for one", async || server.anonymous().get("/docs").await.status == 200).await;
    drop(unread);
    eventually("there is room for all", async || {
        let mut unread = Vec::new();
        for _ in 0..4 {
            unread.push(slow.get(&docs).send().await.unwrap());
        }
        unread.iter().all(|answer| answer.status() == 200)
    })
    .await;
}

#[tokio::test]
async fn a_connection_of_http2_has_fifty_requests_at_once() {
    let server = TestServer::start().await;
    let mut socket = TcpStream::connect(server.base.trim_start_matches("http://")).await.unwrap();
    socket.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await.unwrap();
    let mut head = [0; 9];
    socket.read_exact(&mut head).await.unwrap();
    assert_eq!(head[3], 4, "the first frame is SETTINGS");
    let mut settings = vec![0; u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize];
    socket.read_exact(&mut settings).await.unwrap();
    let streams = settings.chunks(6).find(|setting| setting[..2] == [0, 3]).map(|setting| &setting[2..]);
    assert_eq!(streams, Some(&[0, 0, 0, 50][..]));
}

/// A-293: the same with a credential.
#[tokio::test(flavor = "multi_thread")]
async fn responses_that_a_caller_does_not_receive_have_a_limit_and_others_are_served() {
    let options = Options { response_bytes_at_once: 3_000_000, ..Options::default() };
    let server = TestServer::start_with(options).await;
    server.queue.define(&Definition::new("a")).await.unwrap();
    let tenant = server.queue.tenant("a").await;
    let new = NewJob::new("a").tenant(tenant).payload(&json!({"text": "a".repeat(600_000)}));
    let path = format!("/api/v1/jobs/{}", server.queue.enqueue(&new).await.unwrap().id);
    let (viewer, other) =
        (server.client(tenant, Role::Viewer).await, server.client(DEFAULT_TENANT, Role::Viewer).await);
    let slow = reqwest::Client::builder().http2_prior_knowledge().http2_initial_stream_window_size(1024);
    let slow = slow.no_proxy().build().unwrap();
    let read = async || {
        let request = slow.get(format!("{}{path}", server.base));
        request.bearer_auth(viewer.token.as_deref().unwrap()).send().await.unwrap()
    };
    let mut unread = Vec::new();
    let refused = loop {
        let answer = read().await;
        if answer.status() != 200 {
            break answer;
        }
        unread.push(answer);
    };
    assert_eq!((refused.status().as_u16(), unread.len()), (429, 3), "half of the budget, and one more");
    assert_eq!(refused.headers()["retry-after"], "1");
    other.get("/api/v1/jobs").await.expect(200);
    let whole = unread.pop().unwrap().bytes().await.unwrap();
    assert!(whole.len() > 600_000, "it is complete");
    eventually("there is room again", async || viewer.get("/api/v1/me").await.status == 200).await;
}
