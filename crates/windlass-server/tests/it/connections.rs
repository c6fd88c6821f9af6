//! Connections that never complete: each is closed after its timeout, and no others.

use std::time::Duration;

use futures_util::future::join_all;
use reqwest::StatusCode;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use windlass_server::http::Options;

use crate::support::TestServer;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// An empty SETTINGS frame, and the acknowledgement of the server's.
const SETTINGS: [u8; 18] = [0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 4, 1, 0, 0, 0, 0];

/// A server with short timeouts for the first request and between requests, long enough for a client on a busy machine.
async fn impatient() -> TestServer {
    let moment = Duration::from_secs(2);
    TestServer::start_with(Options { header_timeout: moment, idle_timeout: moment, ..Options::default() })
        .await
}

async fn connect(server: &TestServer) -> TcpStream {
    TcpStream::connect(server.base.trim_start_matches("http://")).await.unwrap()
}

/// Everything that the server sends until it closes the connection. If it never does, the test times out.
async fn until_closed(mut stream: TcpStream) -> Vec<u8> {
    let mut received = Vec::new();
    let _ = stream.read_to_end(&mut received).await;
    received
}

#[tokio::test]
async fn a_connection_without_a_request_is_closed() {
    let server = impatient().await;
    let openings: [(&str, &[u8]); 5] = [
        ("nothing", b""),
        ("the beginning of a preface", &PREFACE[..10]),
        ("a preface", PREFACE),
        ("a preface and the settings", &[PREFACE, &SETTINGS].concat()),
        ("half a head", b"GET /health/live HTTP/1.1\r\nhost: x\r\n"),
    ];
    let closings = openings.map(async |(name, opening)| {
        let mut stream = connect(&server).await;
        stream.write_all(opening).await.unwrap();
        let received = until_closed(stream).await;
        assert!(!String::from_utf8_lossy(&received).contains("200 OK"), "{name}");
    });
    join_all(closings).await;
    assert_eq!(server.anonymous().get("/health/live").await.status, StatusCode::OK);
}

/// One byte at a time, each sooner than the timeout of the server.
#[tokio::test]
async fn a_request_head_sent_byte_by_byte_times_out() {
    let server = impatient().await;
    for head in [PREFACE.to_vec(), format!("GET / HTTP/1.1\r\nx: {}", "y".repeat(10_000)).into_bytes()] {
        let (mut reader, mut writer) = connect(&server).await.into_split();
        let writing = async {
            let mut pause = tokio::time::interval(Duration::from_millis(20));
            for byte in head.iter().cycle() {
                pause.tick().await;
                if writer.write_all(std::slice::from_ref(byte)).await.is_err() {
                    return;
                }
            }
        };
        let mut received = Vec::new();
        tokio::select! {
            () = writing => {}
            _ = reader.read_to_end(&mut received) => {}
        }
    }
}

#[tokio::test]
async fn an_idle_connection_is_closed_after_its_timeout() {
    let server = impatient().await;
    let mut stream = connect(&server).await;
    let request = b"GET /health/live HTTP/1.1\r\nhost: x\r\n\r\n";
    for _ in 0..3 {
        stream.write_all(request).await.unwrap();
        let mut response = [0; 4096];
        let read = stream.read(&mut response).await.unwrap();
        assert!(String::from_utf8_lossy(&response[..read]).starts_with("HTTP/1.1 200"));
    }
    until_closed(stream).await;
}

/// GET /health/live as one HEADERS frame of this stream, which it also ends.
fn second_version(stream: u8) -> Vec<u8> {
    const GET_OVER_HTTP: [u8; 2] = [0x82, 0x86];
    const PATH: u8 = 4;
    const AUTHORITY: u8 = 1;
    let path = b"/health/live";
    let block = [&GET_OVER_HTTP[..], &[PATH, path.len() as u8], path, &[AUTHORITY, 1, b'x']].concat();
    [&[0, 0, block.len() as u8, 1, 0b101, 0, 0, 0, stream][..], &block].concat()
}

/// The same over HTTP/2, by a client that would keep the connection forever.
#[tokio::test]
async fn an_idle_http2_connection_is_closed_after_its_timeout() {
    let server = impatient().await;
    let mut stream = connect(&server).await;
    stream.write_all(&[PREFACE, &SETTINGS].concat()).await.unwrap();
    for id in [1, 3, 5] {
        stream.write_all(&second_version(id)).await.unwrap();
        // The head of the response: a HEADERS frame of the same stream, which starts with status 200.
        loop {
            let mut frame = [0; 9];
            stream.read_exact(&mut frame).await.unwrap();
            let [high, middle, low, kind, _, .., of] = frame;
            let mut content = vec![0; u32::from_be_bytes([0, high, middle, low]) as usize];
            stream.read_exact(&mut content).await.unwrap();
            if (kind, of) == (1, id) {
                assert_eq!(content[0], 0x88, "{content:?}");
                break;
            }
        }
    }
    until_closed(stream).await;
}

/// A stream sends nothing for longer than that, and stays open.
#[tokio::test]
async fn a_stream_sends_keep_alives() {
    // Shorter than the second between two reads of the counters.
    let options = Options { idle_timeout: Duration::from_millis(300), ..Options::default() };
    let server = TestServer::start_with(options).await;
    let stream = server.admin.request(reqwest::Method::GET, "/api/v1/jobs/stream").send().await.unwrap();
    let mut stream = stream.error_for_status().unwrap();
    let mut events = String::new();
    let job = server.queue.define(&windlass::Definition::new("a")).await.unwrap();
    assert!(!job.is_nil());
    for count in ["\"queued\":0", "\"queued\":1", "\"queued\":2"] {
        while !events.contains(count) {
            events.push_str(&String::from_utf8_lossy(&stream.chunk().await.unwrap().expect("it continues")));
        }
        server.queue.enqueue(&windlass::NewJob::new("a")).await.unwrap();
    }
}

/// the timeout of a head is not only for the first one.
#[tokio::test]
async fn a_later_head_that_is_not_completed_times_out() {
    let options = Options {
        header_timeout: Duration::from_secs(1),
        idle_timeout: Duration::from_secs(600),
        ..Options::default()
    };
    let server = TestServer::start_with(options).await;
    let mut stream = connect(&server).await;
    let request = b"GET /health/live HTTP/1.1\r\nhost: x\r\n\r\n";
    stream.write_all(request).await.unwrap();
    let mut response = [0; 4096];
    let read = stream.read(&mut response).await.unwrap();
    assert!(String::from_utf8_lossy(&response[..read]).starts_with("HTTP/1.1 200"));
    stream.write_all(&request[..20]).await.unwrap();
    until_closed(stream).await;
}

///
#[tokio::test]
async fn idle_connections_keep_no_health_check_out() {
    let server = TestServer::start_with(Options { max_connections: 3, ..Options::default() }).await;
    let request = b"GET /health/live HTTP/1.1\r\nhost: x\r\n\r\n";
    let mut open = Vec::new();
    for number in 0..10 {
        let mut stream = connect(&server).await;
        stream.write_all(request).await.unwrap();
        let mut response = [0; 4096];
        let read = stream.read(&mut response).await.unwrap();
        assert!(String::from_utf8_lossy(&response[..read]).starts_with("HTTP/1.1 200"), "{number}");
        open.push(stream);
    }
    // The oldest were closed, the last is still open.
    let mut last = open.pop().unwrap();
    until_closed(open.remove(0)).await;
    last.write_all(request).await.unwrap();
    assert!(last.read(&mut [0; 4096]).await.unwrap() > 0);
}
