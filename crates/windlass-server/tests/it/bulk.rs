//! Actions on more jobs than one transaction changes, by the API and by the pages.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use uuid::Uuid;
use windlass::retention::HoldOn;
use windlass::{Definition, NewJob, Queue};
use windlass_server::auth::Role;
use windlass_server::http::Options;
use windlass_testing::{TestQueue, settings};

use crate::support::{Answer, Client, TestServer};

async fn enqueue(server: &TestServer, job: NewJob, jobs: usize) {
    for left in (0..jobs).step_by(500) {
        server.queue.enqueue_many(&vec![job.clone(); 500.min(jobs - left)]).await.unwrap();
    }
}

/// A thousand jobs in one statement take longer than usual on a busy machine.
async fn patient_server() -> TestServer {
    let queue = TestQueue::create().await;
    let long = Duration::from_secs(600);
    let served = Queue::connect(settings(queue.url()).connections(1).statement_timeout(long)).await.unwrap();
    TestServer::start_on(queue, served, Options { request_timeout: long, ..Options::default() }).await
}

async fn start() -> (TestServer, Uuid, Client) {
    let server = patient_server().await;
    server.queue.define(&Definition::new("held")).await.unwrap();
    let tenant = server.queue.tenant("a").await;
    server.member(tenant, "ada@example.com", "tenant_admin").await;
    let browser = server.browser("ada@example.com").await;
    (server, tenant, browser)
}

/// As the page does for every job that matches its filter.
async fn act_on_every(browser: &Client, tenant: Uuid, act: &str) -> Answer {
    let tenant = tenant.to_string();
    let fields = [("act", act), ("every", "definition=held"), ("acting_for", tenant.as_str())];
    browser.form("/ui/jobs/act", &fields).await
}

/// The message that the page after an action shows.
fn said(done: &Answer) -> String {
    assert_eq!(done.status.as_u16(), 303, "{}", done.text);
    let mut cookies = done.headers.get_all("set-cookie").iter().filter_map(|value| value.to_str().ok());
    let message = cookies.find_map(|cookie| cookie.strip_prefix("windlass_flash=")?.split(';').next());
    String::from_utf8(URL_SAFE_NO_PAD.decode(message.unwrap()).unwrap()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_continues_with_the_cursor_of_the_previous_one() {
    let server = patient_server().await;
    server.queue.define(&Definition::new("held")).await.unwrap();
    let tenant = server.queue.tenant("a").await;
    let operator = server.client(tenant, Role::Operator).await;
    enqueue(&server, NewJob::new("held").tenant(tenant), 1000).await;
    enqueue(&server, NewJob::new("held").tenant(tenant).delay(Duration::from_secs(3600)), 20).await;
    let mut body = json!({"filter": {}});
    let mut changed = Vec::new();
    loop {
        let done = operator.post("/api/v1/jobs/cancel", &body).await.expect(200);
        changed.push(done["changed"].as_u64().unwrap());
        assert_eq!(done["has_more"], !done["next_cursor"].is_null());
        if done["next_cursor"] == Value::Null {
            break;
        }
        body["cursor"] = done["next_cursor"].clone();
    }
    assert_eq!(changed, [1000, 20]);
    let invalid = json!({"filter": {}, "cursor": "nowhere"});
    let refused = operator.post("/api/v1/jobs/cancel", &invalid).await.problem(422, "invalid");
    assert_eq!(refused["errors"][0]["pointer"], "/cursor");
}

/// The scheduled jobs were enqueued last.
#[tokio::test(flavor = "multi_thread")]
async fn every_matching_job_of_a_page_is_canceled_whatever_its_state() {
    let (server, tenant, browser) = start().await;
    enqueue(&server, NewJob::new("held").tenant(tenant), 1000).await;
    enqueue(&server, NewJob::new("held").tenant(tenant).delay(Duration::from_secs(3600)), 20).await;
    let done = act_on_every(&browser, tenant, "cancel").await;
    let message = said(&done);
    assert!(message.contains("Canceled 1\u{202f}020 jobs."), "{message}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_action_that_stops_half_way_says_what_was_changed() {
    let (server, tenant, browser) = start().await;
    let held = server.queue.enqueue(&NewJob::new("held").tenant(tenant)).await.unwrap().id;
    enqueue(&server, NewJob::new("held").tenant(tenant), 1000).await;
    server.queue.hold(tenant, &HoldOn::Job(held), "a case", "counsel").await.unwrap();
    let done = act_on_every(&browser, tenant, "delete").await;
    let message = said(&done);
    assert!(message.contains("Deleted 1\u{202f}000 jobs. Then: "), "{message}");
    assert!(message.contains("legal hold"), "{message}");
    // If nothing was changed before, only the reason is shown.
    let done = act_on_every(&browser, tenant, "delete").await;
    let message = said(&done);
    assert!(message.contains("legal hold") && !message.contains("Deleted"), "{message}");
}
