//! The contents that document 004 specifies for the Jobs page, read from the page as it is sent.

use windlass::job::State;
use windlass_server::auth::Role;

use super::chrome::Chrome;
use super::world::World;

#[tokio::test(flavor = "multi_thread")]
async fn the_jobs_page_has_its_cards_columns_and_row_actions() {
    let world = World::busy().await;
    let client = world.server.client(world.acme, Role::TenantAdmin).await;
    let page = client.get("/ui/jobs").await;
    assert_eq!(page.status, 200);
    let card = |key: &str| {
        let (_, rest) = page.text.split_once(&format!("id=\"card-{key}\"")).unwrap();
        rest.split_once("class=\"value\">").unwrap().1.split('<').next().unwrap().to_owned()
    };
    assert_eq!(card("queued"), "1");
    assert_eq!(card("running"), "1");
    assert_eq!(card("failed"), "1");
    assert_eq!(card("dead"), "4");
    assert_eq!(card("succeeded"), "36");
    let (_, head) = page.text.split_once("data-columns=\"jobs\"").unwrap();
    let head = head.split("</thead>").next().unwrap();
    for column in [
        "Job",
        "Status",
        "Definition",
        "Source",
        "Attempts",
        "Queued",
        "Started",
        "Finished",
        "Duration",
        "Worker",
    ] {
        assert!(head.contains(&format!(">{column}</th>")), "{column}: {head}");
    }
    let row = |id: uuid::Uuid| {
        let (_, rest) = page.text.split_once(&format!("<tr id=\"job-{id}\"")).unwrap();
        rest.split("</tr>").next().unwrap().to_owned()
    };
    let (running, dead) =
        (row(world.in_state(State::Running).await), row(world.in_state(State::DeadLetter).await));
    assert!(running.contains("name=\"cancel\"") && !running.contains("name=\"retry\""), "{running}");
    assert!(dead.contains("name=\"retry\"") && !dead.contains("name=\"cancel\""), "{dead}");
    assert!(dead.contains("#attempts\""), "{dead}");

    let scheduled = row(world.in_state(State::Scheduled).await);
    assert!(scheduled.contains("data-col=\"started\" class=\"minor\">due <time"), "{scheduled}");

    let job = client.get(&format!("/ui/jobs/{}", world.in_state(State::DeadLetter).await)).await;
    assert!(job.text.contains("Became a dead letter"), "{}", job.text);
    assert!(job.text.contains("connection to provider 1 refused after 30 s"));
    let waits = client.get(&format!("/ui/jobs/{}", world.in_state(State::Queued).await)).await;
    assert!(
        waits.text.contains("Why it is waiting") && waits.text.contains("No live worker has a handler for"),
        "{}",
        waits.text
    );
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_may_run_only_our_own_scripts() {
    let world = World::quiet().await;
    let client = world.server.client(world.acme, Role::Viewer).await;
    for path in ["/ui/jobs", "/ui/sign-in", "/ui/nowhere", "/ui/workers"] {
        let page = client.get(path).await;
        let policy = page.header("content-security-policy").unwrap_or_default();
        assert!(
            policy.starts_with("default-src 'none'; script-src 'self'; style-src 'self'"),
            "{path}: {policy}"
        );
        assert!(!policy.contains("unsafe"), "{path}");
        assert_eq!(page.header("x-content-type-options"), Some("nosniff"), "{path}");
        assert!(!page.text.contains(" style=\"") && !page.text.contains("<style"), "{path}");
        assert_eq!(
            page.text.matches("<script").count(),
            page.text.matches("<script src=\"/ui/assets/").count(),
            "{path}"
        );
    }
    let asset = client.get("/ui/assets/windlass.css").await;
    let tag = asset.header("etag").unwrap().to_owned();
    assert_eq!(client.with("if-none-match", tag).get("/ui/assets/windlass.css").await.status, 304);
    world.end().await;
}

/// The card and the chart below it add up the same minutes.
#[tokio::test(flavor = "multi_thread")]
async fn the_card_and_the_chart_show_the_same_hour() {
    let world = World::busy().await;
    let now = "insert into windlass.activity (tenant_id, at, queue, succeeded, failed, queued, running)
        select $1, date_bin('15 s', now(), 'epoch') + '1 s', 'default', 3000, 0, 0, 0";
    world.server.queue.client().await.execute(now, &[&world.acme]).await.unwrap();
    let client = world.server.client(world.acme, Role::TenantAdmin).await;
    let page = client.get("/ui/jobs").await.text;
    let (_, card) = page.split_once("id=\"card-succeeded\"").unwrap();
    let card =
        card.split_once("class=\"beside\">").unwrap().1.split(" attempts in the last hour<").next().unwrap();
    assert!(page.contains(&format!(">{card} succeeded</text>")), "{card}: {page}");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_page_of_a_tenant_shows_its_dead_letters_in_the_navigation() {
    let world = World::busy().await;
    world.trigger().await;
    let client = world.server.client(world.acme, Role::TenantAdmin).await;
    for path in ["/ui/jobs", "/ui/triggers", "/ui/dead-letters", "/ui/queues", "/ui/tokens", "/ui/audit"] {
        let page = client.get(path).await;
        assert!(page.text.contains("<span class=\"count bad\">4</span>"), "{path}: {}", page.text);
    }
    let queues = client.get("/ui/queues").await.text;
    for column in ["Oldest queued", "Queue time p50", "Queue time p95"] {
        assert!(queues.contains(&format!(">{column}</th>")), "{column}: {queues}");
    }
    let triggers = client.get("/ui/triggers").await.text;
    assert!(triggers.contains("<a href=\"/ui/jobs?definition=sync-dropbox\">"), "{triggers}");
    world.end().await;
}

/// In the window of a small laptop.
#[tokio::test(flavor = "multi_thread")]
async fn the_filters_and_the_first_steps_fit_their_window() {
    let world = World::busy().await;
    let chrome = Chrome::open(&world.server.base).await;
    chrome.sign_in(&world.token(world.acme, Role::TenantAdmin).await).await;
    for (width, height) in [(1440, 900), (1024, 600)] {
        chrome.size(width, height).await;
        chrome.go("/ui/jobs").await;
        chrome.click("details.more:has(.broad) > summary").await;
        let visible = "const box = document.querySelector('.panel.broad button.main').getBoundingClientRect(); \
            return box.height > 0 && box.top >= 0 && box.bottom <= innerHeight";
        chrome.until("the button is visible", async || chrome.script(visible).await == true).await;
    }
    chrome.sign_in(&world.token(world.initech, Role::TenantAdmin).await).await;
    for width in [1440, 390] {
        chrome.size(width, 900).await;
        chrome.go("/ui/jobs").await;
        chrome.find("#way-curl").await;
        let cut = "return [...document.querySelectorAll('.ways pre')].some((pre) => pre.scrollWidth > pre.clientWidth)";
        assert_eq!(chrome.script(cut).await, false, "{width}");
    }
    chrome.close().await;
    world.end().await;
}
