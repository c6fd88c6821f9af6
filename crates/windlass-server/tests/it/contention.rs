//! Transactions that get in each other's way: they are avoided, repeated, or reported as what they are.

use serde_json::json;
use windlass::Definition;
use windlass_testing::until_a_session_waits;

use crate::support::TestServer;

const LOCK: &str = "select from windlass.job_definitions where key = $1 for update";

/// Sets this for the sessions that start from now on.
fn for_database(setting: &str) -> String {
    format!("do $do$ begin execute format($$alter database %I set {setting}$$, current_database()); end $do$")
}

/// two requests with the same definitions in another order waited for each other.
#[tokio::test(flavor = "multi_thread")]
async fn definitions_are_locked_in_one_order_whatever_the_order_of_the_request() {
    let server = TestServer::start().await;
    for key in ["a", "b"] {
        server.queue.define(&Definition::new(key)).await.unwrap();
    }
    let (other, watcher) = (server.queue.client().await, server.queue.client().await);
    other.batch_execute("begin").await.unwrap();
    other.execute(LOCK, &[&"a"]).await.unwrap();
    let wanted = json!({"definitions": [{"key": "b", "max_attempts": 7}, {"key": "a", "max_attempts": 7}]});
    let admin = server.admin.clone();
    let applying =
        tokio::spawn(async move { admin.post("/api/v1/admin/jobs/definitions/apply", &wanted).await });
    until_a_session_waits(&watcher).await;
    // The request waits for `a` and holds nothing else.
    other.execute(LOCK, &[&"b"]).await.unwrap();
    other.batch_execute("commit").await.unwrap();
    let applied = applying.await.unwrap().expect(200);
    let keys: Vec<_> = applied["definitions"].as_array().unwrap().iter().map(|one| &one["key"]).collect();
    assert_eq!(keys, [&json!("b"), &json!("a")], "in the order of the request");
}

/// Another client of the database may lock in any order. The transaction of the request is rolled back, and repeated.
#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_was_rolled_back_by_a_deadlock_is_repeated() {
    let server = TestServer::start().await;
    for key in ["a", "b"] {
        server.queue.define(&Definition::new(key)).await.unwrap();
    }
    let (other, watcher) = (server.queue.client().await, server.queue.client().await);
    // The request is the one that is rolled back: the other session searches for deadlocks much later.
    other.batch_execute(&for_database("deadlock_timeout = '3s'")).await.unwrap();
    let (_running, admin) = server.beside().await;
    other.batch_execute("set deadlock_timeout = '10min'; begin").await.unwrap();
    other.execute(LOCK, &[&"b"]).await.unwrap();
    let wanted = json!({"definitions": [{"key": "a", "max_attempts": 7}, {"key": "b", "max_attempts": 7}]});
    let applying =
        tokio::spawn(async move { admin.post("/api/v1/admin/jobs/definitions/apply", &wanted).await });
    until_a_session_waits(&watcher).await;
    other.execute(LOCK, &[&"a"]).await.unwrap();
    other.batch_execute("commit").await.unwrap();
    applying.await.unwrap().expect(200);
    let listed = server.admin.get("/api/v1/admin/jobs/definitions").await.expect(200);
    let changed = listed["definitions"].as_array().unwrap().iter().all(|one| one["max_attempts"] == 7);
    assert!(changed, "{listed}");
}

/// A lock timeout that an administrator set for the database is no missing database.
#[tokio::test(flavor = "multi_thread")]
async fn a_lock_that_is_not_released_in_time_is_reported_as_a_concurrent_change() {
    let server = TestServer::start().await;
    server.queue.define(&Definition::new("a")).await.unwrap();
    let other = server.queue.client().await;
    other.batch_execute(&for_database("lock_timeout = 100")).await.unwrap();
    let (_running, admin) = server.beside().await;
    let listed = admin.get("/api/v1/admin/jobs/definitions").await.expect(200);
    let id = listed["definitions"][0]["id"].as_str().unwrap().to_owned();
    other.batch_execute("begin").await.unwrap();
    other.execute(LOCK, &[&"a"]).await.unwrap();
    let path = format!("/api/v1/admin/jobs/definitions/{id}");
    let refused = admin.patch(&path, &json!({"max_attempts": 7})).await;
    let problem = refused.problem(503, "contention");
    assert_eq!(refused.header("retry-after"), Some("1"));
    let detail = problem["detail"].as_str().unwrap();
    assert!(detail.contains("lock timeout") && detail.contains("nothing was changed"), "{detail}");
    assert!(!detail.contains("reached"), "{detail}");
    other.batch_execute("commit").await.unwrap();
    admin.patch(&path, &json!({"max_attempts": 7})).await.expect(200);
}
