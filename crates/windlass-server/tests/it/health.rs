//! The first requests of a client: is the server alive, and is the credential valid.

use windlass_server::auth::Role;

use crate::support::TestServer;

#[tokio::test]
async fn health_is_public_and_jobs_are_listed_for_known_callers() {
    let mut server = TestServer::start().await;
    let anonymous = server.anonymous();
    assert_eq!(anonymous.get("/health/live").await.expect(200)["status"], "ok");
    assert_eq!(anonymous.get("/health/ready").await.expect(200)["status"], "ok");

    anonymous.get("/api/v1/jobs").await.problem(401, "unauthorized");
    anonymous.get("/nowhere").await.problem(404, "not-found");
    server.admin.delete("/health/live").await.problem(405, "method-not-allowed");
    let jobs = server.admin.get("/api/v1/jobs").await.expect(200);
    assert_eq!(jobs["jobs"], serde_json::json!([]));
    let problem = server.admin.get("/api/v1/jobs?limits=3").await.problem(422, "invalid");
    assert_eq!(problem["errors"][0]["pointer"], "?limits");

    let tenant = server.queue.tenant("a").await;
    server.client(tenant, Role::Viewer).await.get("/api/v1/jobs").await.expect(200);
    server.client(tenant, Role::Worker).await.get("/api/v1/jobs").await.problem(403, "forbidden");
    server.stop().await;
}

/// X-16, and other texts that are not an id: not found, never a server error.
#[tokio::test]
async fn an_invalid_id_or_path_is_not_found() {
    let server = TestServer::start().await;
    let corpus = [
        "..",
        "%2e%2e",
        "..%2f..%2fetc%2fpasswd",
        "....//",
        "%00",
        "a%00b",
        "%c0%af",
        "%ff",
        "%25",
        "'",
        "\"",
        "%0d%0a",
        "~",
        "-1",
        "00000000-0000-0000-0000-00000000000g",
        "{job_id}",
        "*",
        "%E2%80%AE",
        "C:%5Cwindows",
    ];
    for name in corpus {
        for path in [
            format!("/api/v1/jobs/{name}/why"),
            format!("/api/v1/admin/tenants/{name}"),
            format!("/api/v1/events/{name}"),
            format!("/ui/assets/{name}"),
        ] {
            // Sent unchanged: our client would normalize the path first.
            let status = raw_get(&server, &path).await;
            assert!(matches!(status, 400 | 404), "{path}: {status}");
        }
        for path in [format!("/api/v1/admin/tokens/{name}"), format!("/api/v1/admin/members/{name}")] {
            assert!(matches!(server.admin.delete(&path).await.status.as_u16(), 400 | 404 | 405), "{path}");
        }
    }
}

async fn raw_get(server: &TestServer, path: &str) -> u16 {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let mut stream = tokio::net::TcpStream::connect(server.base.trim_start_matches("http://")).await.unwrap();
    let token = server.admin.token.as_deref().unwrap();
    let head = format!(
        "GET {path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\nconnection: close\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut response = Vec::new();
    stream.read_to_end(&mut response).await.unwrap();
    String::from_utf8_lossy(&response).split(' ').nth(1).unwrap().parse().unwrap()
}

/// clients without a credential cannot make the server query the database for each of their requests.
#[tokio::test]
async fn readiness_is_one_query_for_all_clients() {
    let server = TestServer::start().await;
    let (anonymous, database) = (server.anonymous(), server.queue.client().await);
    let started = std::time::Instant::now();
    let mut queries = std::collections::HashSet::new();
    for _ in 0..100 {
        anonymous.get("/health/ready").await.expect(200);
        let last = "select max(query_start)::text from pg_stat_activity
            where datname = current_database() and pid <> pg_backend_pid() and query like '%clock_timestamp%'";
        queries.insert(database.query_one(last, &[]).await.unwrap().get::<_, Option<String>>(0));
    }
    let most = 2 + usize::try_from(started.elapsed().as_secs()).unwrap();
    assert!(queries.len() <= most, "{} queries in {:?}", queries.len(), started.elapsed());
}
