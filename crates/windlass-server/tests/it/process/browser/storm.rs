//! Tens of thousands of changes while a page is open: it is notified about once a second, and shows the correct state in the end.

use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use windlass::NewJob;
use windlass::job::Filter;
use windlass_server::auth::Role;

use super::chrome::Chrome;
use super::world::World;

const ROUNDS: usize = 10;
const EACH: usize = 5000;
const CANCELED: usize = 200;

#[tokio::test(flavor = "multi_thread")]
async fn a_burst_of_changes_is_a_few_updates_and_ends_correctly() {
    let world = World::busy().await;
    let queue = &world.server.queue;
    let chrome = Chrome::open(&world.server.base).await;
    chrome.sign_in(&world.token(world.acme, Role::TenantAdmin).await).await;
    chrome.until_text("#live-sign", "Live").await;
    // How often the page reloads, and how many rows it has during the changes.
    chrome
        .script(
            "window.fetches = 0; window.most = 0; const real = window.fetch; \
             window.fetch = (...all) => { window.fetches++; return real(...all); }; \
             setInterval(() => { window.most = Math.max(window.most, document.querySelectorAll('tbody[data-rows] tr').length); }, 50);",
        )
        .await;
    let listener = tokio::spawn(listen(
        world.server.client(world.acme, Role::Viewer).await.request(reqwest::Method::GET, "/ui/live"),
    ));

    let began = Instant::now();
    let job = NewJob::new("export-archive").tenant(world.acme);
    let batch = vec![job; EACH];
    for _ in 1..ROUNDS {
        queue.enqueue_many(&batch).await.unwrap();
    }
    let last = queue.enqueue_many(&batch).await.unwrap();
    let newest = last.iter().map(|made| made.id).max().unwrap();
    let canceled: Vec<uuid::Uuid> =
        last.iter().map(|made| made.id).filter(|id| *id != newest).take(CANCELED).collect();
    queue.cancel_matching(&Filter::new(world.acme).ids(canceled)).await.unwrap();
    let changes = ROUNDS * EACH + CANCELED;

    // One canceled and one queued job existed before.
    let queued = (ROUNDS * EACH + 1 - CANCELED).to_string();
    let (thousands, rest) = queued.split_at(queued.len() - 3);
    chrome.until_text("#card-queued .value", &format!("{thousands}\u{202f}{rest}")).await;
    let tab = "return [...document.querySelectorAll('.tabs .tab')].map(tab => tab.textContent).find(text => text.startsWith('Canceled'))";
    let all_canceled = format!("Canceled {}", CANCELED + 1);
    chrome.until("the canceled jobs are counted", async || chrome.script(tab).await == all_canceled).await;
    chrome
        .until("the newest job is on top", async || {
            chrome.script("return document.querySelector('tbody[data-rows] tr').id").await
                == format!("job-{newest}")
        })
        .await;
    let fetches = chrome.script("return window.fetches").await.as_u64().unwrap();
    let most_rows = chrome.script("return window.most").await.as_u64().unwrap();
    let seconds = began.elapsed().as_secs();
    assert!(fetches >= 1 && fetches <= seconds + 2, "{fetches} fetches in {seconds} s for {changes} changes");
    assert!(most_rows <= 50, "{most_rows} rows");
    listener.abort();
    let received = HEARD.load(std::sync::atomic::Ordering::Relaxed);
    assert!(
        received >= 1 && received <= seconds + 2,
        "{received} events in {seconds} s for {changes} changes"
    );
    chrome.close().await;
    world.end().await;
}

static HEARD: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);

/// Counts the events that another reader of the same tenant gets.
async fn listen(request: reqwest::RequestBuilder) {
    let mut stream = request.timeout(Duration::from_secs(600)).send().await.unwrap().bytes_stream();
    while let Some(Ok(bytes)) = stream.next().await {
        let events = String::from_utf8_lossy(&bytes).matches("event: change").count() as u64;
        HEARD.fetch_add(events, std::sync::atomic::Ordering::Relaxed);
    }
}
