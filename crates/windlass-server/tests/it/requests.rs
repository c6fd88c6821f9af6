//! Requests as attackers send them: bodies that never end, false headers, values that are not text.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use reqwest::Method;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use windlass::DEFAULT_TENANT;
use windlass_server::auth::Role;
use windlass_server::hooks::Hooks;
use windlass_server::http::Options;
use windlass_testing::eventually;

use crate::support::{TestServer, secrets};

/// Sends these bytes on a separate connection and keeps it open.
async fn send(server: &TestServer, text: &str) -> TcpStream {
    let mut stream = TcpStream::connect(server.base.trim_start_matches("http://")).await.unwrap();
    stream.write_all(text.as_bytes()).await.unwrap();
    stream
}

/// The head of the next response, in lower case.
async fn head(stream: &mut TcpStream) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        match tokio::time::timeout(Duration::from_secs(20), stream.read_u8()).await.expect("a response") {
            Ok(byte) => head.push(byte),
            Err(_) => break,
        }
    }
    String::from_utf8_lossy(&head).to_lowercase()
}

/// Like [`send`], from another address of this machine: another network, as far as the server can see.
async fn send_from(server: &TestServer, last: u8, text: &str) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(([127, 0, 0, last], 0).into()).unwrap();
    let address = server.base.trim_start_matches("http://").parse().unwrap();
    let mut stream = socket.connect(address).await.unwrap();
    // The server may have rejected it before it was sent completely.
    let _ = stream.write_all(text.as_bytes()).await;
    stream
}

/// One hook, so that the server reads signed messages.
fn hook() -> Arc<Hooks> {
    let file = format!(
        "[hooks.shop]\ntenant = \"{DEFAULT_TENANT}\"\nevent = \"a.b\"\nsecrets = [\"sixteen bytes or more\"]\n"
    );
    Arc::new(Hooks::parse(&file, Path::new(".")).unwrap())
}

const SIGNED: &str = "webhook-id: m\r\nwebhook-timestamp: 1\r\nwebhook-signature: v1,AAAA\r\n";

/// A request for JSON whose body never ends.
fn unfinished(path: &str, more: &str, announced: usize, sent: usize) -> String {
    format!(
        "POST {path} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {announced}\r\n{more}\r\n{}",
        " ".repeat(sent)
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn endless_bodies_use_a_share_and_leave_the_rest_to_others() {
    let options = Options {
        max_body_bytes: 100_000,
        body_bytes_at_once: 400_000,
        body_timeout: Duration::from_secs(120),
        request_timeout: Duration::from_secs(120),
        hooks: hook(),
        ..Options::default()
    };
    let server = TestServer::start_with(options).await;
    server.admin.post("/api/v1/admin/jobs/definitions", &json!({"key": "a"})).await.expect(201);
    let (one, other) = (server.queue.tenant("one").await, server.queue.tenant("other").await);
    let operator = server.client(one, Role::Operator).await;

    // An anonymous message is rejected by its head: nothing of its body is read.
    let mut unsigned = send(&server, &unfinished("/api/v1/hooks/shop", "", 100_000, 0)).await;
    let refused = head(&mut unsigned).await;
    assert!(refused.starts_with("http/1.1 401") && refused.contains("connection: close"), "{refused}");

    // Anonymous clients share a quarter: not two of these.
    let of_stranger = unfinished("/api/v1/hooks/shop", SIGNED, 100_000, 90_000);
    let mut first = send(&server, &of_stranger).await;
    let mut second = send(&server, &of_stranger).await;
    let refused = tokio::select! { head = head(&mut first) => head, head = head(&mut second) => head };
    assert!(refused.starts_with("http/1.1 503") && refused.contains("retry-after: 1"), "{refused}");

    // A tenant gets no more than leaves room for others: not four of these.
    let bearer = format!("authorization: Bearer {}\r\n", operator.token.as_deref().unwrap());
    let of_tenant = unfinished("/api/v1/jobs", &bearer, 100_000, 90_000);
    let (mut a, mut b) = (send(&server, &of_tenant).await, send(&server, &of_tenant).await);
    let (mut c, mut d) = (send(&server, &of_tenant).await, send(&server, &of_tenant).await);
    let refused = tokio::select! {
        head = head(&mut a) => head, head = head(&mut b) => head, head = head(&mut c) => head, head = head(&mut d) => head
    };
    assert!(refused.starts_with("http/1.1 503"), "{refused}");
    let job = json!({"definition_key": "a", "payload": {"text": "x".repeat(50_000)}});
    server.client(other, Role::Operator).await.post("/api/v1/jobs", &job).await.expect(201);

    drop((unsigned, first, second, a, b, c, d));
    eventually("the held bytes are released", async || {
        operator.post("/api/v1/jobs", &job).await.status == 201
    })
    .await;
}

/// A-200: one address sends messages that never end, signed by nobody.
#[tokio::test(flavor = "multi_thread")]
async fn endless_messages_of_an_unknown_sender_block_no_sign_in_and_no_message() {
    let options = Options {
        max_body_bytes: 400_000,
        body_bytes_at_once: 3_200_000,
        body_timeout: Duration::from_secs(120),
        request_timeout: Duration::from_secs(120),
        hooks: hook(),
        ..Options::default()
    };
    let server = TestServer::start_with(options).await;
    let message = unfinished("/api/v1/hooks/nope", SIGNED, 400_000, 399_999);
    let mut stalled = vec![send_from(&server, 66, &message).await, send_from(&server, 66, &message).await];
    eventually("the share of the address is used up", async || {
        let mut one_more = send_from(&server, 66, &message).await;
        let is_refused = tokio::time::timeout(Duration::from_millis(200), head(&mut one_more)).await;
        stalled.push(one_more);
        is_refused.is_ok_and(|head| head.starts_with("http/1.1 503"))
    })
    .await;

    let form = "email=nobody%40example.com&password=wrong-password";
    let form = format!(
        "POST /ui/sign-in HTTP/1.1\r\nhost: x\r\nsec-fetch-site: same-origin\r\ncontent-length: {}\r\n\r\n{form}",
        form.len()
    );
    let small = unfinished("/api/v1/hooks/shop", SIGNED, 2000, 2000);
    let large = unfinished("/api/v1/hooks/shop", SIGNED, 100_000, 100_000);
    // The password and the signatures are wrong, which the server finds out after it has read the body.
    for (from, request, status, what) in [
        (9, &form, 422, "a sign-in from another address"),
        (66, &form, 422, "a sign-in from the same address"),
        (9, &small, 401, "a small message"),
        (9, &large, 401, "a large message"),
    ] {
        let reply = head(&mut send_from(&server, from, request).await).await;
        assert!(reply.starts_with(&format!("http/1.1 {status}")), "{what}: {reply}");
    }
}

/// A-200: nothing is read of a body that no hook can accept.
#[tokio::test]
async fn a_message_that_cannot_be_valid_is_rejected_by_its_head() {
    let with_hook = TestServer::start_with(Options { hooks: hook(), ..Options::default() }).await;
    let without = TestServer::start().await;
    let rest = "webhook-signature: v1,AAAA\r\n";
    for (server, headers, what) in [
        (&without, SIGNED.to_owned(), "there are no hooks"),
        (&with_hook, format!("webhook-id: m\r\nwebhook-timestamp: soon\r\n{rest}"), "no timestamp"),
        (&with_hook, format!("webhook-id:\r\nwebhook-timestamp: 1\r\n{rest}"), "no id"),
    ] {
        let mut stream = send(server, &unfinished("/api/v1/hooks/shop", &headers, 100_000, 0)).await;
        let reply = head(&mut stream).await;
        assert!(reply.starts_with("http/1.1 401"), "{what}: {reply}");
    }
    // A form has its own limit, whatever its headers are.
    let form = format!(
        "POST /ui/sign-in HTTP/1.1\r\nhost: x\r\nsec-fetch-site: same-origin\r\n{SIGNED}content-length: 50000\r\n\r\n"
    );
    assert!(head(&mut send(&with_hook, &form).await).await.starts_with("http/1.1 413"));
}

#[tokio::test]
async fn a_slow_or_partial_form_is_rejected() {
    let options = Options { body_timeout: Duration::from_millis(200), ..Options::default() };
    let server = TestServer::start_with(options).await;
    let form = "POST /ui/sign-in HTTP/1.1\r\nhost: x\r\nsec-fetch-site: same-origin\r\n";
    let mut slow = send(&server, &format!("{form}content-length: 50\r\n\r\ntoken=")).await;
    assert!(head(&mut slow).await.starts_with("http/1.1 408"));
    let mut broken = send(&server, &format!("{form}transfer-encoding: chunked\r\n\r\nno size\r\n")).await;
    let reply = head(&mut broken).await;
    assert!(reply.starts_with("http/1.1 400"), "{reply}");
    let mut large = send(&server, &format!("{form}content-length: 50000\r\n\r\ntoken=")).await;
    assert!(head(&mut large).await.starts_with("http/1.1 413"));
}

/// The timeout of the whole request ends first.
#[tokio::test]
async fn a_slow_body_is_the_fault_of_the_client_whichever_timeout_ends_first() {
    let options = Options { request_timeout: Duration::from_millis(200), ..Options::default() };
    let server = TestServer::start_with(options).await;
    let form = "POST /ui/sign-in HTTP/1.1\r\nhost: x\r\nsec-fetch-site: same-origin\r\n";
    let mut slow = send(&server, &format!("{form}content-length: 50\r\n\r\ntoken=")).await;
    let reply = head(&mut slow).await;
    assert!(reply.starts_with("http/1.1 408"), "{reply}");
}

#[tokio::test]
async fn a_request_has_exactly_one_host() {
    let server = TestServer::start().await;
    for (hosts, status) in [("", 400), ("host: a\r\nhost: b\r\n", 400), ("host: a\r\n", 200)] {
        let mut stream = send(&server, &format!("GET /health/live HTTP/1.1\r\n{hosts}\r\n")).await;
        let reply = head(&mut stream).await;
        assert!(reply.starts_with(&format!("http/1.1 {status}")), "{hosts:?}: {reply}");
    }
}

/// A-486. A proxy may have decided by one of them.
#[tokio::test]
async fn a_request_with_two_different_hosts_is_rejected() {
    let server = TestServer::start().await;
    for (address, host, status) in
        [("a", "a", 200), ("A.test:1", "a.test:1", 200), ("a", "b", 400), ("a:80", "a:81", 400)]
    {
        let request = format!("GET http://{address}/health/live HTTP/1.1\r\nhost: {host}\r\n\r\n");
        let reply = head(&mut send(&server, &request).await).await;
        assert!(reply.starts_with(&format!("http/1.1 {status}")), "{address} {host}: {reply}");
    }
    let own = server.base.trim_start_matches("http://");
    let second = reqwest::Client::builder().http2_prior_knowledge().no_proxy().build().unwrap();
    for (host, status) in [(own, 200), ("evil.test", 400)] {
        let request = second.get(format!("{}/health/live", server.base)).header("host", host);
        assert_eq!(request.send().await.unwrap().status(), status, "{host}");
    }
}

/// The library that reads the head answers these, so they have no body.
#[tokio::test]
async fn the_head_of_a_request_has_at_most_64_kib_and_100_headers() {
    let server = TestServer::start().await;
    let many = |count: usize| (0..count).map(|n| format!("x-{n}: a\r\n")).collect::<String>();
    let long = |bytes: usize| format!("x-long: {}\r\n", "a".repeat(bytes));
    for (more, status) in [(many(99), 200), (many(100), 431), (long(60_000), 200), (long(66_000), 431)] {
        let request = format!("GET /health/live HTTP/1.1\r\nhost: a\r\n{more}\r\n");
        let reply = head(&mut send(&server, &request).await).await;
        assert!(reply.starts_with(&format!("http/1.1 {status}")), "{} bytes: {reply}", more.len());
    }
}

#[tokio::test]
async fn an_idle_connection_outlives_the_head_timeout() {
    let options = Options { header_timeout: Duration::from_secs(1), ..Options::default() };
    let server = TestServer::start_with(options).await;
    let ask = "GET /health/live HTTP/1.1\r\nhost: a\r\n\r\n";
    let mut stream = send(&server, ask).await;
    assert!(head(&mut stream).await.starts_with("http/1.1 200"));
    let mut rest = vec![0; 1000];
    let body = stream.read(&mut rest).await.unwrap();
    assert!(body > 0);
    // A head that started after that response is aborted: its time has passed for the idle connection too.
    let mut unfinished = send(&server, "GET /health/live HTTP/1.1\r\n").await;
    assert_eq!(head(&mut unfinished).await, "");
    stream.write_all(ask.as_bytes()).await.unwrap();
    assert!(head(&mut stream).await.starts_with("http/1.1 200"));
}

#[tokio::test]
async fn every_invalid_path_gets_a_problem_response() {
    let server = TestServer::start().await;
    let signed = server.admin.with("webhook-id", "m").with("content-type", "application/json");
    for (method, path, status) in [
        (Method::POST, "/api/v1/hooks/%FF", 404),
        (Method::POST, "/api/v1/admin/tokens/%FF/rotate", 404),
        (Method::POST, "/api/v1/admin/queues/a%00b/pause", 404),
        (Method::POST, "/api/v1/admin/workers/%FF/drain", 404),
    ] {
        let response = signed.request(method, path).body("{}").send().await.unwrap();
        assert_eq!(response.status(), status, "{path}");
        assert_eq!(response.headers()["content-type"], "application/problem+json", "{path}");
    }
    for (path, status) in [
        ("/ui/live?all=abc", 422),
        ("/ui/jobs?cursor=x", 422),
        ("/ui/jobs?tag=%00", 422),
        ("/ui/jobs/%FF", 404),
        ("/ui/tenants/x", 404),
        ("/ui/invitations/%FF", 404),
        ("/ui/password-resets/%FF", 404),
        ("/ui/assets/x", 404),
        ("/ui/assets/%FF", 404),
    ] {
        let page = server.admin.get(path).await;
        assert_eq!(page.status, status, "{path}: {}", page.text);
        assert!(page.text.contains("<!doctype html"), "{path}: {}", page.text);
        assert_eq!(page.header("content-type"), Some("text/html; charset=utf-8"), "{path}");
    }
}

#[tokio::test]
async fn a_rejected_message_writes_one_line() {
    let server = TestServer::start().await;
    let client = server.anonymous().with("content-type", "application/json");
    for _ in 0..120 {
        let forged = client.request(Method::POST, "/api/v1/hooks/a%0D%0AERROR%20forged").body("{}");
        assert_eq!(forged.send().await.unwrap().status(), 401);
    }
    let lines = secrets::logged("a signed event was rejected");
    // Each second allows one more line, so a slow machine writes more of them than a fast one, and never all of them.
    assert!((1..120).contains(&lines.len()), "{} lines", lines.len());
    assert!(lines.iter().all(|line| line.contains("forged")), "in one line: {lines:?}");
}

#[tokio::test]
async fn a_link_leads_to_this_server_regardless_of_the_host_header() {
    let server = TestServer::start().await;
    let tenant = server.queue.tenant("a").await;
    let admin = server.client(tenant, Role::TenantAdmin).await;
    let invitation = json!({"email": "ada@example.com", "role": "viewer"});
    let made = admin.post("/api/v1/admin/invitations", &invitation).await.expect(201);
    assert!(made["link"].as_str().unwrap().starts_with(&format!("{}/ui/", server.base)), "{made}");
    admin
        .with("host", "evil.test")
        .post("/api/v1/admin/invitations", &json!({"email": "eve@example.com", "role": "viewer"}))
        .await
        .problem(409, "conflict");
    // HTTP/2 names the host in the address.
    let second = reqwest::Client::builder().http2_prior_knowledge().no_proxy().build().unwrap();
    let request = second
        .post(format!("{}/api/v1/admin/invitations", server.base))
        .bearer_auth(admin.token.as_deref().unwrap())
        .json(&json!({"email": "bob@example.com", "role": "viewer"}));
    let made: serde_json::Value = request.send().await.unwrap().json().await.unwrap();
    let link = made["link"].as_str().unwrap();
    secrets::issued(link.rsplit('/').next().unwrap());
    assert!(link.starts_with(&format!("{}/ui/", server.base)), "{link}");

    let options = Options { public_url: Some("https://jobs.example.com/".to_owned()), ..Options::default() };
    let server = TestServer::start_with(options).await;
    let admin = server.client(server.queue.tenant("a").await, Role::TenantAdmin).await;
    let made = admin.with("host", "evil.test").post("/api/v1/admin/invitations", &invitation).await;
    assert!(made.expect(201)["link"].as_str().unwrap().starts_with("https://jobs.example.com/ui/"));
}

#[tokio::test]
async fn over_tls_cookies_are_secure_and_hsts_is_sent() {
    let server = TestServer::start_with(Options { secure_cookies: true, ..Options::default() }).await;
    let browser = server.anonymous().with("sec-fetch-site", "same-origin");
    for reply in [browser.get("/ui/sign-in").await, browser.form("/ui/theme", &[]).await] {
        assert!(reply.header("strict-transport-security").unwrap().starts_with("max-age="), "{reply:?}");
        let cookies: Vec<_> = reply.headers.get_all("set-cookie").iter().collect();
        assert!(!cookies.is_empty(), "{reply:?}");
        for cookie in cookies {
            assert!(cookie.to_str().unwrap().ends_with("; Secure"), "{cookie:?}");
        }
    }
    let plain = TestServer::start().await;
    let reply = plain.anonymous().get("/ui/sign-in").await;
    assert_eq!(reply.header("strict-transport-security"), None);
    assert!(!reply.header("set-cookie").unwrap().contains("Secure"));
}

#[tokio::test]
async fn no_other_site_changes_the_theme() {
    let server = TestServer::start().await;
    let theme = async |site: &str| {
        let client = server.anonymous().with("sec-fetch-site", site);
        client.form("/ui/theme", &[]).await.status.as_u16()
    };
    assert_eq!((theme("cross-site").await, theme("same-origin").await), (403, 303));
}

/// Which of the two counts is not the server's to guess, and the sender has to find it.
#[tokio::test]
async fn a_field_that_is_given_twice_is_named() {
    let server = TestServer::start().await;
    for (path, body, pointer) in [
        ("/api/v1/jobs", r#"{"definition_key":"a","definition_key":"b"}"#, "/definition_key"),
        ("/api/v1/worker/jobs/claim", r#"{"limit":1,"definition_keys":[],"limit":1}"#, "/limit"),
    ] {
        let request = server.admin.request(Method::POST, path).header("content-type", "application/json");
        let answer = request.body(body).send().await.unwrap();
        assert_eq!(answer.status(), 422, "{path}");
        let problem: serde_json::Value = answer.json().await.unwrap();
        assert_eq!(problem["errors"][0]["pointer"], pointer, "{problem}");
    }
}
