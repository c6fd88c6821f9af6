//! A search finds only what a viewer may see, and it is bounded.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use windlass::{Definition, NewJob, Queue};
use windlass_server::auth::Role;
use windlass_server::http::Options;
use windlass_testing::{TestQueue, eventually, settings, waiting_for_locks};

use crate::support::{Client, TestServer};

async fn found(viewer: &Client, text: &str) -> Value {
    let query = format!("/api/v1/jobs?limit=1000&q={}", text.replace(' ', "%20").replace('"', "%22"));
    viewer.get(&query).await.expect(200)
}

fn count(page: &Value) -> usize {
    page["jobs"].as_array().unwrap().len()
}

/// A search over hidden values would reveal them letter by letter.
#[tokio::test(flavor = "multi_thread")]
async fn a_search_reveals_nothing_hidden() {
    let server = TestServer::start().await;
    let tenant = server.queue.tenant("a").await;
    let viewer = server.client(tenant, Role::Viewer).await;
    let rules = json!({"key": "pay", "redaction": {"expressions": ["card \\d{4}"], "keys": ["iban"]}});
    server.admin.post("/api/v1/admin/jobs/definitions", &rules).await.expect(201);
    let payload = json!({"api_key": "k3y-of-zoe", "iban": "DE123456", "note": "card 1234", "city": "Bonn", "max_tokens": 5});
    server.queue.enqueue(&NewJob::new("pay").tenant(tenant).payload(&payload)).await.unwrap();
    for shown in ["bonn", "\"city\": \"Bonn\"", "max_tokens", "api_key", "[redacted]", "\"max_tokens\":5"] {
        let page = found(&viewer, shown).await;
        assert_eq!((count(&page), &page["searched"]), (1, &json!(1)), "{shown}");
        assert!(!page.to_string().contains("k3y"), "{page}");
    }
    for hidden in ["k3y-of-zoe", "k3y", "\"api_key\":\"k", "de123456", "de1", "1234", "card 1"] {
        assert_eq!(count(&found(&viewer, hidden).await), 0, "{hidden} is found");
    }
    // A verb on all matches applies to the found jobs only.
    let admin = server.client(tenant, Role::TenantAdmin).await;
    let page = admin.get("/api/v1/jobs?q=k3y").await.expect(200);
    assert_eq!(page["next_cursor"], Value::Null);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_search_stops_and_reports_how_far_it_got() {
    let server = TestServer::start().await;
    let tenant = server.queue.tenant("a").await;
    let viewer = server.client(tenant, Role::Viewer).await;
    server.queue.define(&Definition::new("work")).await.unwrap();
    let jobs =
        |count: usize, payload: Value| vec![NewJob::new("work").tenant(tenant).payload(&payload); count];
    server.queue.enqueue_many(&jobs(1, json!({"city": "Bonn"}))).await.unwrap();
    server.queue.enqueue_many(&jobs(5000, json!({"city": "Rome"}))).await.unwrap();
    // A slow machine ends a search by its time limit, before it has read the maximum number: it continues from there anyway.
    let read = read_until_found(&viewer, "bonn").await;
    assert!(read.len() > 1 && read.iter().all(|&rows| rows <= 5000), "{read:?}");
    assert_eq!(read.iter().sum::<u64>(), 5001, "each job was read once");

    // The same for bytes: 60 jobs of three quarters of a megabyte are more than the 32 MiB that one request reads.
    let large = json!({"blob": "x".repeat(1 << 20 >> 1), "more": "y".repeat(1 << 18)});
    server.queue.enqueue_many(&jobs(60, large)).await.unwrap();
    let read = read_until_found(&viewer, "rome").await;
    assert!(read.len() > 1 && read[0] <= 49, "{read:?}");
}

/// The number of jobs that each request read, page after page until one found something.
async fn read_until_found(viewer: &Client, text: &str) -> Vec<u64> {
    let mut read = Vec::new();
    let mut page = found(viewer, text).await;
    loop {
        read.push(page["searched"].as_u64().unwrap());
        if count(&page) > 0 {
            return read;
        }
        let cursor = page["next_cursor"].as_str().expect("there is more to read");
        page = viewer.get(&format!("/api/v1/jobs?q={text}&cursor={cursor}")).await.expect(200);
    }
}

/// Two searches of the tenant are in progress, so a third one is rejected at every entry point.
#[tokio::test(flavor = "multi_thread")]
async fn concurrent_searches_are_limited_everywhere() {
    let queue = TestQueue::create().await;
    let served = Queue::connect(settings(queue.url()).connections(8)).await.unwrap();
    let server = TestServer::start_on(queue, served, Options::default()).await;
    let tenant = server.queue.tenant("a").await;
    let operator = server.client(tenant, Role::Operator).await.with("sec-fetch-site", "same-origin");
    let (holder, watcher) = (server.queue.client().await, server.queue.client().await);
    holder.batch_execute("begin; lock table windlass.job").await.unwrap();
    let in_progress = [(), ()].map(|()| {
        let operator = operator.clone();
        tokio::spawn(async move { operator.get("/api/v1/jobs?q=x").await })
    });
    eventually("both are in progress", async || waiting_for_locks(&watcher).await == 2).await;

    let tenant = tenant.to_string();
    let form = [("acting_for", tenant.as_str()), ("act", "cancel"), ("every", "q=x")];
    let (list, page, verb) = tokio::join!(
        operator.get("/api/v1/jobs?q=x"),
        operator.get("/ui/jobs?q=x"),
        operator.form("/ui/jobs/act", &form)
    );
    // A rejected form redirects to its page, which shows the reason.
    let flash = verb.header("set-cookie").and_then(|cookie| cookie.strip_prefix("windlass_flash="));
    let flash = flash.and_then(|flash| URL_SAFE_NO_PAD.decode(flash.split(';').next()?).ok());
    let message =
        flash.is_some_and(|message| String::from_utf8_lossy(&message).contains("Too many searches"));
    let responses = (list.status.as_u16(), page.status.as_u16(), verb.status.as_u16(), message);
    assert_eq!(responses, (429, 429, 303, true), "{list:?} {page:?} {verb:?}");

    holder.batch_execute("rollback").await.unwrap();
    for one in in_progress {
        one.await.unwrap().expect(200);
    }
}
