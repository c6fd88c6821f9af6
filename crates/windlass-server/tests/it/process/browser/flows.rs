//! The tasks of a tenant admin: enqueue, watch, follow, cancel, retry, schedule.

use serde_json::json;
use thirtyfour::{Key, TypingData};
use windlass::NewJob;
use windlass::job::State;
use windlass_server::auth::Role;
use windlass_testing::eventually;

use super::chrome::Chrome;
use super::world::{PROVIDER, World, job};

#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_admin_enqueues_from_the_form_watches_it_run_follows_its_log_and_cancels_it() {
    let world = World::quiet().await;
    let chrome = Chrome::open(&world.server.base).await;
    chrome.sign_in(&world.token(world.acme, Role::TenantAdmin).await).await;
    chrome.until_text("main", "Create the first one in one of these ways").await;

    chrome.go("/ui/jobs/new?definition=recompute-trained-tags").await;
    // The form is built from the schema: an invalid payload is rejected with its place.
    chrome.fill("[name='/provider_id']", "not-a-uuid").await;
    chrome.fill("[name='/path_prefix']", "/wait").await;
    chrome.click("button[value=enqueue]").await;
    chrome.until_text("main .note", "provider_id").await;
    chrome.fill("[name='/provider_id']", PROVIDER).await;
    chrome.click("button[value=enqueue]").await;

    chrome.until_text("#job-badge", "Running").await;
    chrome.until_text(".terminal pre", "waiting for the provider").await;
    chrome.until_text("#progress", "40%").await;
    assert!(chrome.text("#sentence").await.starts_with("Running on"), "{}", chrome.text("#sentence").await);

    chrome.click("button[name=cancel]").await;
    chrome.until_text("#confirm h2", "Cancel this job?").await;
    chrome.click("#confirm button.yes").await;
    chrome.until_text("#job-badge", "Canceled").await;

    // Another one, from its row in the list.
    let another = world.waits(world.acme).await;
    chrome.go("/ui/jobs").await;
    chrome.until_text(&format!("#job-{another}"), "Running").await;
    chrome.click(&format!("#job-{another} button[name=cancel]")).await;
    chrome.until_text("#toasts", "Requested cancellation of job").await;
    chrome.until_text(&format!("#job-{another}"), "Canceled").await;
    chrome.close().await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_payload_can_be_edited_as_json_and_back() {
    let world = World::quiet().await;
    let chrome = Chrome::open(&world.server.base).await;
    chrome.sign_in(&world.token(world.acme, Role::Operator).await).await;
    chrome.go("/ui/jobs/new?definition=sync-dropbox").await;
    chrome.fill("[name='/provider_id']", PROVIDER).await;
    chrome.fill("[name='/limit']", "7").await;
    chrome.click("button[value=json]").await;
    let json = chrome.find("#n-json").await.value().await.unwrap().unwrap();
    let payload: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(payload, json!({"provider_id": PROVIDER, "limit": 7}));
    chrome.click("button[value=form]").await;
    let limit = chrome.find("[name='/limit']").await.value().await.unwrap();
    assert_eq!(limit.as_deref(), Some("7"));
    chrome.close().await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_letter_is_retried_from_its_group() {
    let world = World::quiet().await;
    let id = world.server.queue.enqueue(&job(3, world.acme, "/fail")).await.unwrap().id;
    world.until(id, State::DeadLetter).await;
    let chrome = Chrome::open(&world.server.base).await;
    chrome.sign_in(&world.token(world.acme, Role::Operator).await).await;
    chrome.go("/ui/dead-letters").await;
    chrome.until_text("main table", "connection to provider 1 refused").await;
    chrome.click("button[name=group]").await;
    chrome.click("#confirm button.yes").await;
    chrome.until_text("#toasts", "1 job queued again").await;
    eventually("it ran a second time", async || {
        world.server.queue.job(world.acme, id).await.unwrap().is_some_and(|job| job.attempt_count == 2)
    })
    .await;
    chrome.close().await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_schedule_is_created_and_its_next_runs_are_shown() {
    let world = World::quiet().await;
    let chrome = Chrome::open(&world.server.base).await;
    chrome.sign_in(&world.token(world.acme, Role::TenantAdmin).await).await;
    chrome.go("/ui/triggers/new").await;
    chrome.fill("#f-label", "Nightly provider sync").await;
    chrome.fill("#f-cron_expr", "0 2 * * *").await;
    chrome.fill("#f-timezone", "America/New_York").await;
    chrome.script("document.querySelector('#f-definition_key').value = 'sync-dropbox'").await;
    chrome.fill("#f-payload_template", &format!("{{\"provider_id\": \"{PROVIDER}\"}}")).await;
    chrome.click("button[value=save]").await;
    chrome.until_text("#toasts", "Saved trigger").await;
    chrome.until_text("h1", "Nightly provider sync").await;
    let runs = chrome.text("#next-runs").await;
    assert_eq!(runs.matches("02:00").count(), 5, "{runs}");
    let zones = ["-05:00", "-04:00"].map(|zone| runs.matches(zone).count());
    assert_eq!(zones.iter().sum::<usize>(), 5, "shown in its own zone: {runs}");
    chrome.until_text("main", "Every day at 02:00, America/New_York").await;

    // It runs now, too.
    chrome.click("form button[value=run]").await;
    chrome.until("the job's page is open", async || chrome.path().await.starts_with("/ui/jobs/")).await;
    chrome.until_text("#job-badge", "Succeeded").await;
    let facts = chrome.text("dl.facts").await;
    assert!(facts.contains("Trigger\nNightly provider sync"), "{facts}");
    chrome.click("dl.facts a[href^='/ui/triggers/']").await;
    chrome.until_text("h1", "Nightly provider sync").await;
    chrome.close().await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_is_reachable_by_keyboard() {
    let world = World::busy().await;
    let chrome = Chrome::open(&world.server.base).await;
    chrome.sign_in(&world.token(world.acme, Role::TenantAdmin).await).await;
    let press =
        async |keys: TypingData| chrome.driver.action_chain().send_keys(keys).perform().await.unwrap();
    chrome.find("tbody[data-rows] tr").await;

    press("?".into()).await;
    chrome.until("the help is open", async || chrome.has("#keys[open]").await).await;
    press(String::new() + Key::Escape).await;
    chrome.until("the help is closed", async || !chrome.has("#keys[open]").await).await;
    press("/".into()).await;
    chrome.until("the search has the focus", async || chrome.has("#search:focus").await).await;
    press(String::new() + Key::Escape).await;
    press("gm".into()).await;
    chrome.until("the members are open", async || chrome.path().await == "/ui/members").await;
    press("p".into()).await;
    chrome.until_text("#live-sign", "Paused").await;
    press("p".into()).await;
    chrome.until_text("#live-sign", "Live").await;
    chrome.click(".who summary").await;
    chrome.until("the menu is open", async || chrome.has(".who[open]").await).await;
    press(String::new() + Key::Escape).await;
    chrome.until("the menu is closed", async || !chrome.has(".who[open]").await).await;
    chrome.script("document.activeElement.blur()").await;
    press("gt".into()).await;
    chrome.until("the triggers are open", async || chrome.path().await == "/ui/triggers").await;
    press("gj".into()).await;
    chrome.until("the jobs are open", async || chrome.path().await == "/ui/jobs").await;
    // Two jobs enqueued within milliseconds can be listed either way, so the row is the one of its job.
    let blocked = format!("#job-{}", world.in_state(State::Blocked).await);
    let focused = format!("{blocked}:focus");
    chrome.find(&blocked).await;
    chrome
        .until("the row of the blocked job has the focus", async || {
            press(String::new() + Key::Down).await;
            chrome.has(&focused).await
        })
        .await;
    press("x".into()).await;
    chrome.until_text("#picked", "Cancel 1 job").await;
    press(String::new() + Key::Escape).await;
    chrome.until("nothing is selected", async || !chrome.has("tr.selected").await).await;

    // A live update that adds and removes rows above it leaves the focus where it is.
    let removed = world.in_state(State::Canceled).await;
    let added =
        world.server.queue.enqueue(&NewJob::new("export-archive").tenant(world.acme)).await.unwrap().id;
    chrome.find(&format!("#job-{added}")).await;
    assert!(chrome.has(&focused).await, "a new row took the focus");
    let admin = world.server.client(world.acme, Role::TenantAdmin).await;
    admin.post("/api/v1/jobs/delete", &json!({"ids": [removed]})).await.expect(200);
    chrome.until("the row is removed", async || !chrome.has(&format!("#job-{removed}")).await).await;
    assert!(chrome.has(&focused).await, "a removed row took the focus");
    press(String::new() + Key::Enter).await;
    let page = format!("/ui/jobs/{}", blocked.trim_start_matches("#job-"));
    chrome.until("the job is open", async || chrome.path().await == page).await;
    chrome.close().await;
    world.end().await;
}
