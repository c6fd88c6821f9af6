//! Lists of large rows: a page is limited in bytes, and the next one continues where it ended.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use uuid::Uuid;
use windlass::events::NewEvent;
use windlass::{Definition, NewJob};
use windlass_server::auth::Role;

use crate::support::{Client, TestServer};

/// The size of each large row. Twelve of them are more than two pages.
const BYTES: usize = 900_000;
const ROWS: usize = 12;
/// The maximum size of a page: 4 MiB, the row that fills it, and some overhead.
const MAX: usize = (4 << 20) + BYTES + 100_000;

/// Reads a list to its end, page by page, and returns the ids in order.
async fn walk(client: &Client, path: &str, list: &str, id: &str, cursor: &str) -> Vec<Value> {
    let (mut ids, mut pages) = (Vec::new(), 0);
    let mut next = String::new();
    loop {
        let page = client.get(&format!("{path}{next}")).await;
        assert!(page.text.len() < MAX, "{path}{next}: {} bytes", page.text.len());
        let page = page.expect(200);
        ids.extend(page[list].as_array().unwrap().iter().map(|row| row[id].clone()));
        pages += 1;
        match &page["next_cursor"] {
            Value::Null => break,
            Value::String(text) => next = format!("&{cursor}={text}"),
            number => next = format!("&{cursor}={number}"),
        }
    }
    assert!(pages >= 3, "{path}: {pages} pages");
    ids
}

fn large() -> Value {
    json!({"text": "x".repeat(BYTES)})
}

async fn jobs(server: &TestServer, tenant: Uuid) -> Vec<Value> {
    let mut ids = Vec::new();
    for _ in 0..ROWS {
        let job = NewJob::new("large").tenant(tenant).payload(&large());
        ids.push(json!(server.queue.enqueue(&job).await.unwrap().id));
    }
    ids.reverse();
    ids
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_is_limited_in_bytes_and_the_next_one_continues() {
    let server = TestServer::start().await;
    server.queue.define(&Definition::new("large")).await.unwrap();
    let tenant = server.queue.tenant("a").await;
    let viewer = server.client(tenant, Role::TenantAdmin).await;

    let expected = jobs(&server, tenant).await;
    for filter in ["", "&status=queued", "&q=xxxx"] {
        let path = format!("/api/v1/jobs?limit=500{filter}");
        assert_eq!(walk(&viewer, &path, "jobs", "id", "cursor").await, expected, "{filter}");
    }
    let all = viewer.get("/api/v1/jobs?limit=3&offset=1").await.expect(200);
    assert_eq!(all["jobs"].as_array().unwrap().len(), 3);
    assert_eq!(all["next_cursor"], expected[3], "a page that is full by its rows");

    let mut expected = Vec::new();
    for _ in 0..ROWS {
        let event = NewEvent::new("large.event").tenant(tenant).payload(&large());
        expected.push(json!(server.queue.emit(&event).await.unwrap().id));
    }
    expected.reverse();
    assert_eq!(walk(&viewer, "/api/v1/events?limit=500", "events", "id", "cursor").await, expected);

    let database = server.queue.client().await;
    let acts = "insert into windlass.audit (tenant_id, actor, action, target, outcome, after)
        select $1, 'x', 'large', n::text, 'done', jsonb_build_object('text', repeat('x', 900000)) from generate_series(1, 12) n";
    database.execute(acts, &[&tenant]).await.unwrap();
    let path = "/api/v1/admin/audit?action=large&limit=500";
    let seen = walk(&viewer, path, "entries", "target", "cursor").await;
    assert_eq!(seen, (1..=12).rev().map(|n| json!(n.to_string())).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_is_limited_in_bytes_and_leaves_the_others_queued() {
    let server = TestServer::start().await;
    server.queue.define(&Definition::new("large")).await.unwrap();
    let tenant = server.queue.tenant("a").await;
    let expected: BTreeSet<String> = jobs(&server, tenant).await.iter().map(ToString::to_string).collect();
    let worker = server.client(tenant, Role::Worker).await;
    let claim = json!({"definition_keys": ["large"], "limit": 100, "wait_seconds": 20});
    let mut seen = BTreeSet::new();
    while seen.len() < ROWS {
        let claimed = worker.post("/api/v1/worker/jobs/claim", &claim).await;
        assert!(claimed.text.len() < MAX, "{} bytes", claimed.text.len());
        for job in claimed.expect(200)["jobs"].as_array().unwrap() {
            assert!(seen.insert(job["id"].to_string()), "handed out twice");
        }
    }
    assert_eq!(seen, expected);
}
