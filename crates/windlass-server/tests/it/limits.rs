//! Too much, too slow, too often; and the protocol and shutdown of the server.

use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use windlass::{NewJob, Queue};
use windlass_server::auth::Role;
use windlass_server::http::{Options, around};
use windlass_testing::{TestQueue, eventually, settings, times, waiting_for_locks};

use crate::support::{Client, TestServer};

#[tokio::test]
async fn a_body_is_limited_in_size_and_time() {
    let options =
        Options { max_body_bytes: 1000, body_timeout: Duration::from_millis(200), ..Options::default() };
    let server = TestServer::start_with(options).await;
    let body = |bytes: usize| {
        let start = "{\"definition_key\":\"";
        format!("{start}{}\"}}", "a".repeat(bytes - start.len() - 2))
    };
    for (bytes, status) in [(999, 422), (1000, 422), (1001, 413)] {
        let request = server
            .admin
            .request(reqwest::Method::POST, "/api/v1/jobs")
            .header("content-type", "application/json");
        assert_eq!(request.body(body(bytes)).send().await.unwrap().status(), status, "{bytes} bytes");
    }
    // Announced with a small length, or without a length.
    let chunked =
        reqwest::Body::wrap_stream(futures_util::stream::iter([Ok::<_, std::io::Error>(body(1001))]));
    let request = server
        .admin
        .request(reqwest::Method::POST, "/api/v1/jobs")
        .header("content-type", "application/json");
    assert_eq!(request.body(chunked).send().await.unwrap().status(), 413);
    let zipped = server
        .admin
        .request(reqwest::Method::POST, "/api/v1/jobs")
        .header("content-type", "application/json");
    assert_eq!(zipped.header("content-encoding", "gzip").body(body(100)).send().await.unwrap().status(), 415);

    let mut slow = TcpStream::connect(server.base.trim_start_matches("http://")).await.unwrap();
    let token = server.admin.token.as_deref().unwrap();
    let head = format!(
        "POST /api/v1/jobs HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\ncontent-type: application/json\r\ncontent-length: 50\r\n\r\n{{"
    );
    slow.write_all(head.as_bytes()).await.unwrap();
    let mut response = vec![0; 100];
    let read = slow.read(&mut response).await.unwrap();
    assert!(String::from_utf8_lossy(&response[..read]).starts_with("HTTP/1.1 408"));
}

#[tokio::test]
async fn a_missing_request_head_times_out() {
    let server =
        TestServer::start_with(Options { header_timeout: Duration::from_millis(200), ..Options::default() })
            .await;
    let mut silent = TcpStream::connect(server.base.trim_start_matches("http://")).await.unwrap();
    silent.write_all(b"GET /health/live HTTP/1.1\r\nhost: x\r\n").await.unwrap();
    let mut rest = Vec::new();
    tokio::time::timeout(Duration::from_secs(10), silent.read_to_end(&mut rest)).await.unwrap().unwrap();
    assert!(!String::from_utf8_lossy(&rest).contains("200 OK"));
}

#[tokio::test]
async fn a_credential_and_a_tenant_have_rate_limits() {
    let server = TestServer::start_with(Options { requests_per_minute: 5, ..Options::default() }).await;
    let tenant = server.queue.tenant("a").await;
    let (one, other) = (server.client(tenant, Role::Viewer).await, server.client(tenant, Role::Viewer).await);
    for _ in 0..5 {
        one.get("/api/v1/me").await.expect(200);
    }
    let slowed = one.get("/api/v1/me").await;
    slowed.problem(429, "too-many-requests");
    assert!(slowed.header("retry-after").unwrap().parse::<u64>().unwrap() >= 1);
    other.get("/api/v1/me").await.expect(200);

    let limited = server
        .admin
        .post("/api/v1/admin/tenants", &json!({"name": "b", "slug": "b", "requests_per_minute": 3}))
        .await
        .expect(201);
    let limited = limited["id"].as_str().unwrap().parse().unwrap();
    let (one, other) =
        (server.client(limited, Role::Viewer).await, server.client(limited, Role::Viewer).await);
    let mut statuses = Vec::new();
    for client in [&one, &other, &one, &other] {
        statuses.push(client.get("/api/v1/me").await.status.as_u16());
    }
    assert_eq!(statuses, [200, 200, 200, 429], "all of a tenant's credentials together");
}

#[tokio::test]
async fn both_http_versions_compression_and_server_timing_work() {
    let server = TestServer::start().await;
    let second = reqwest::Client::builder().http2_prior_knowledge().no_proxy().build().unwrap();
    let response = second.get(format!("{}/health/live", server.base)).send().await.unwrap();
    assert_eq!((response.version(), response.status().as_u16()), (reqwest::Version::HTTP_2, 200));
    let first = server.anonymous().with("accept-encoding", "gzip").with("x-server-timing", "1");
    let response = first.request(reqwest::Method::GET, "/api/openapi.json").send().await.unwrap();
    assert_eq!(response.version(), reqwest::Version::HTTP_11);
    assert_eq!(response.headers()["content-encoding"], "gzip");
    assert!(response.headers()["server-timing"].to_str().unwrap().starts_with("total;dur="));
    assert_eq!(response.headers()["x-content-type-options"], "nosniff");
    assert!(response.headers().contains_key("x-request-id"));
    let stream = server
        .admin
        .with("accept-encoding", "gzip")
        .request(reqwest::Method::GET, "/api/v1/jobs/stream")
        .send()
        .await
        .unwrap();
    assert_eq!(stream.headers().get("content-encoding"), None, "a stream is sent without delay");
}

#[tokio::test]
async fn a_stream_reports_changes_and_ends_when_the_server_stops() {
    let mut server = TestServer::start().await;
    server.admin.post("/api/v1/admin/jobs/definitions", &json!({"key": "a"})).await.expect(201);
    let mut stream = server.admin.request(reqwest::Method::GET, "/api/v1/jobs/stream").send().await.unwrap();
    let mut received = String::new();
    let mut hear = async |what: &str| {
        while !received.contains(what) {
            received.push_str(&String::from_utf8_lossy(
                &stream.chunk().await.unwrap().expect("the stream continues"),
            ));
        }
    };
    hear("\"queued\":0").await;
    let job = server.queue.enqueue(&NewJob::new("a")).await.unwrap().id;
    hear("\"queued\":1").await;
    let mut log =
        server.admin.request(reqwest::Method::GET, &format!("/api/v1/jobs/{job}/logs")).send().await.unwrap();
    assert_eq!(log.status(), 200);
    server.admin.get(&format!("/api/v1/jobs/{}/logs", uuid::Uuid::nil())).await.problem(404, "not-found");
    server.stop().await;
    while let Ok(Some(_)) = log.chunk().await {}
    while let Ok(Some(_)) = stream.chunk().await {}
}

/// A panic of one handler fails one request.
#[tokio::test]
async fn a_panic_is_a_problem_response_and_the_server_survives() {
    let server = TestServer::start().await;
    let routes = axum::Router::new()
        .route("/panic", axum::routing::get(async || -> String { panic!("the password is hunter2") }))
        .route("/fine", axum::routing::get(async || "fine"));
    let routes = around(routes, &server.app).with_state(server.app.clone());
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, routes).await });
    let client = Client::new(&base, None);
    for _ in 0..3 {
        let failed = client.get("/panic").await;
        let problem = failed.problem(500, "internal");
        assert!(!failed.text.contains("hunter2"), "no internal detail is revealed: {problem}");
        assert!(failed.header("x-request-id").is_some());
        assert_eq!(client.get("/fine").await.expect_text(200), "fine");
    }
}

/// Another session holds a lock that a request needs.
async fn blocked(server: &TestServer) -> tokio_postgres::Client {
    let blocker = server.queue.client().await;
    blocker.batch_execute("begin; lock windlass.job_definitions in access exclusive mode").await.unwrap();
    blocker
}

#[tokio::test]
async fn a_slow_statement_is_canceled_and_its_connection_is_used_again() {
    let queue = TestQueue::create().await;
    let impatient = settings(queue.url()).connections(1).statement_timeout(Duration::from_millis(200));
    let impatient = Queue::connect(impatient).await.unwrap();
    let server = TestServer::start_on(queue, impatient, Options::default()).await;
    let blocker = blocked(&server).await;
    server.admin.get("/api/v1/jobs/definitions").await.problem(504, "timeout");
    eventually("no request waits any more", async || waiting_for_locks(&blocker).await == 0).await;
    blocker.batch_execute("commit").await.unwrap();
    server.admin.get("/api/v1/jobs/definitions").await.expect(200);
}

/// A filter helps a list. A write, and a read of one job, have waited for a lock.
#[tokio::test]
async fn a_statement_that_timed_out_is_a_problem_with_advice_that_fits_the_request() {
    let queue = TestQueue::create().await;
    let impatient = settings(queue.url()).connections(1).statement_timeout(Duration::from_millis(200));
    let impatient = Queue::connect(impatient).await.unwrap();
    let server = TestServer::start_on(queue, impatient, Options::default()).await;
    server.queue.define(&windlass::Definition::new("a")).await.unwrap();
    let job = server.queue.enqueue(&NewJob::new("a")).await.unwrap().id;
    let blocker = server.queue.client().await;
    blocker.batch_execute("begin; lock windlass.job, windlass.line in access exclusive mode").await.unwrap();
    let list = server.admin.get("/api/v1/jobs").await.problem(504, "timeout");
    assert!(list["detail"].as_str().unwrap().contains("narrower filter"), "{list}");
    let one = server.admin.get(&format!("/api/v1/jobs/{job}")).await.problem(504, "timeout");
    let write =
        server.admin.post("/api/v1/jobs", &json!({"definition_key": "a"})).await.problem(504, "timeout");
    for problem in [one, write] {
        let detail = problem["detail"].as_str().unwrap();
        assert!(
            detail.contains("another transaction holds a lock") && !detail.contains("filter"),
            "{detail}"
        );
    }
    blocker.batch_execute("commit").await.unwrap();
}

#[tokio::test]
async fn a_slow_response_times_out() {
    // Long enough for the last request, which must open a connection to the database on a busy machine.
    let options = Options { request_timeout: Duration::from_secs(3), ..Options::default() };
    let server = TestServer::start_with(options).await;
    let blocker = blocked(&server).await;
    server.admin.get("/api/v1/jobs/definitions").await.problem(504, "timeout");
    blocker.batch_execute("commit").await.unwrap();
    server.admin.get("/api/v1/jobs/definitions").await.expect(200);
}

/// JSON that is small to send and large in memory.
#[tokio::test]
async fn json_depth_and_number_of_values_are_limited() {
    let server = TestServer::start().await;
    server.admin.post("/api/v1/admin/jobs/definitions", &json!({"key": "a"})).await.expect(201);
    let enqueue = async |payload: String| {
        let request = server.admin.request(reqwest::Method::POST, "/api/v1/jobs");
        let body = format!("{{\"definition_key\":\"a\",\"payload\":{{\"x\":{payload}}}}}");
        request.header("content-type", "application/json").body(body).send().await.unwrap().status().as_u16()
    };
    let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    assert_eq!(enqueue(nested(10)).await, 201);
    assert_eq!(enqueue(nested(100)).await, 422);
    assert_eq!(enqueue(nested(100_000)).await, 422, "and the stack does not overflow");
    assert_eq!(enqueue(format!("[{}0]", "0,".repeat(300_000))).await, 422);
    assert_eq!(enqueue("1e400".to_owned()).await, 422);
    assert_eq!(enqueue("12345678901234567890123456789".to_owned()).await, 201, "a number is kept unchanged");
    assert_eq!(enqueue("\"\\u0000\"".to_owned()).await, 422);
}

/// One connection for two tenants, ten thousand reads, and callers that disconnect in the middle: the settings of one
/// tenant must not be visible to the next.
#[tokio::test(flavor = "multi_thread")]
async fn tenants_are_isolated_on_a_shared_connection() {
    let server = TestServer::start().await;
    server.admin.post("/api/v1/admin/jobs/definitions", &json!({"key": "a"})).await.expect(201);
    let (a, b) = (server.queue.tenant("a").await, server.queue.tenant("b").await);
    for tenant in [a, b] {
        server.queue.enqueue(&NewJob::new("a").tenant(tenant)).await.unwrap();
    }
    let mut tasks = tokio::task::JoinSet::new();
    let rounds = times(500, 2500);
    for task in 0..4_u64 {
        let narrow = Queue::connect(settings(server.queue.url()).connections(1)).await.unwrap();
        tasks.spawn(async move { alternate(&narrow, [a, b], rounds, task).await });
    }
    let sums = tasks.join_all().await;
    let (aborted, completed) = sums.iter().fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    assert!(aborted > 20 && completed > 1000, "{aborted} were aborted and {completed} completed");
}

/// Reads for one tenant and then for the other, a third of the time only briefly; returns how many were aborted, and how many were not.
async fn alternate(narrow: &Queue, tenants: [uuid::Uuid; 2], rounds: u64, salt: u64) -> (u32, u32) {
    let (mut aborted, mut completed) = (0, 0);
    for round in 0..rounds {
        let tenant = tenants[(round % 2) as usize];
        let look = async {
            let reading = narrow.read(windlass::admin::Reach::Tenant(tenant)).await?;
            let page = reading.list(&windlass::job::Filter::new(tenant)).await?;
            let counts = reading.counts().await?;
            reading.end().await?;
            Ok::<_, windlass::Error>((page.jobs, counts))
        };
        if round % 3 == 0 {
            // Aborted after a moment, at any point.
            let moment = Duration::from_micros((round + salt) * 7 % 3000);
            aborted += u32::from(tokio::time::timeout(moment, look).await.is_err());
            continue;
        }
        let (jobs, counts) = look.await.unwrap();
        assert!(jobs.len() == 1 && jobs[0].tenant_id == tenant, "round {round}: {jobs:?}");
        assert!(counts.iter().all(|count| count.tenant_id == tenant));
        completed += 1;
    }
    (aborted, completed)
}

/// The limits on running jobs of a tenant and of a definition: set, shown, rejected by name, removed.
#[tokio::test]
async fn a_limit_on_running_jobs_is_set_shown_and_removed() {
    let server = TestServer::start().await;
    let tenant = server.queue.tenant("small").await;
    let path = format!("/api/v1/admin/limits/{tenant}");
    assert_eq!(server.admin.patch(&path, &json!({"max_running": 2})).await.expect(200)["max_running"], 2);
    let all = server.admin.get("/api/v1/admin/limits").await.expect(200);
    let shown = all["tenants"].as_array().unwrap().iter().find(|one| one["slug"] == "small").unwrap();
    assert_eq!(shown["max_running"], 2);
    let refused = server.admin.patch(&path, &json!({"max_running": 0})).await.problem(422, "invalid");
    assert_eq!(refused["errors"][0]["pointer"], "/max_running");
    let removed = server.admin.patch(&path, &json!({"max_running": null})).await.expect(200);
    assert!(removed["max_running"].is_null(), "{removed}");

    let definitions = "/api/v1/admin/jobs/definitions";
    let made = server.admin.post(definitions, &json!({"key": "train", "max_running": 3})).await.expect(201);
    assert_eq!(made["max_running"], 3);
    let one = format!("{definitions}/{}", made["id"].as_str().unwrap());
    let kept = server.admin.patch(&one, &json!({"description": "trains"})).await.expect(200);
    assert_eq!(kept["max_running"], 3, "omitted fields are unchanged");
    server.admin.patch(&one, &json!({"max_running": 0})).await.problem(422, "invalid");
    let removed = server.admin.patch(&one, &json!({"max_running": null})).await.expect(200);
    assert!(removed["max_running"].is_null(), "{removed}");
}

/// Queues and priorities that a tenant chooses: rejected by field and limit, and the administrator can raise it.
#[tokio::test]
async fn a_tenant_at_its_lane_limit_gets_the_field_and_the_limit() {
    let server = TestServer::start().await;
    server.queue.define(&windlass::Definition::new("a")).await.unwrap();
    let tenant = server.queue.tenant("many").await;
    let client = server.client(tenant, Role::Operator).await;
    let path = format!("/api/v1/admin/limits/{tenant}");
    let set = server.admin.patch(&path, &json!({"max_lanes": 2, "max_queue_names": 1})).await.expect(200);
    assert_eq!((&set["max_lanes"], &set["max_queue_names"]), (&json!(2), &json!(1)));
    let job =
        |queue: &str, priority: u16| json!({"definition_key": "a", "queue": queue, "priority": priority});
    client.post("/api/v1/jobs", &job("one", 1)).await.expect(201);
    let refused = client.post("/api/v1/jobs", &job("two", 1)).await.problem(422, "invalid");
    assert_eq!(refused["errors"][0]["pointer"], "/queue");
    assert!(refused["detail"].as_str().unwrap().contains("max_queue_names"), "{refused}");
    client.post("/api/v1/jobs", &job("one", 2)).await.expect(201);
    let bulk =
        client.post("/api/v1/jobs/bulk", &json!({"jobs": [job("one", 1), job("one", 3)]})).await.expect(200);
    assert_eq!(
        (&bulk["results"][0]["status"], &bulk["results"][1]["status"]),
        (&json!(201), &json!(422)),
        "{bulk}"
    );
    assert!(bulk["results"][1]["detail"].as_str().unwrap().contains("max_lanes"), "{bulk}");
    // The queue of the definition is not the tenant's choice.
    client.post("/api/v1/jobs", &json!({"definition_key": "a"})).await.expect(201);
    for (limit, pointer) in [("max_lanes", "/max_lanes"), ("max_queue_names", "/max_queue_names")] {
        let refused = server.admin.patch(&path, &json!({limit: 0})).await.problem(422, "invalid");
        assert_eq!(refused["errors"][0]["pointer"], pointer);
    }
    let back =
        server.admin.patch(&path, &json!({"max_lanes": null, "max_queue_names": null})).await.expect(200);
    assert_eq!((&back["max_lanes"], &back["max_queue_names"]), (&json!(1000), &json!(200)));
    client.post("/api/v1/jobs", &job("two", 1)).await.expect(201);
}
