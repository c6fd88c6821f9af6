//! Who sees what: a viewer, another tenant, a super-admin, an anonymous visitor.

use serde_json::json;
use windlass::job::State;
use windlass_server::auth::Role;

use super::chrome::Chrome;
use super::world::World;

#[tokio::test(flavor = "multi_thread")]
async fn a_viewer_can_change_nothing() {
    let world = World::busy().await;
    let chrome = Chrome::open(&world.server.base).await;
    chrome.sign_in(&world.token(world.acme, Role::Viewer).await).await;
    chrome.find("tbody[data-rows] tr").await;
    for act in [
        "a[href='/ui/jobs/new']",
        "button[name=cancel]",
        "button[name=retry]",
        "td.tick",
        "#sidebar a[href='/ui/workers']",
        "#sidebar a[href='/ui/members']",
    ] {
        assert!(!chrome.has(act).await, "{act}");
    }
    let dead = world.in_state(State::DeadLetter).await;
    for (path, form) in [
        ("/ui/jobs/act", format!("retry={dead}")),
        ("/ui/jobs/act", format!("act=delete&id={dead}")),
        ("/ui/jobs/new", "definition=sync-dropbox&mode=json&json={}".to_owned()),
        ("/ui/dead-letters", "all=1".to_owned()),
        ("/ui/triggers/new", "label=a".to_owned()),
        ("/ui/tokens/new", "name=a&role=viewer".to_owned()),
        ("/ui/members", "email=a@b.test&role=viewer".to_owned()),
        ("/ui/members/new", "email=a@b.test&role=viewer".to_owned()),
        ("/ui/queues", "queue=default&paused=yes".to_owned()),
        ("/ui/workers", "worker=a&draining=yes".to_owned()),
        ("/ui/tenants/new", "name=a&slug=a".to_owned()),
        ("/ui/definitions/new", "key=a".to_owned()),
    ] {
        assert_eq!(chrome.post(path, &form).await, 403, "{path}");
    }
    let job = world.server.queue.job(world.acme, dead).await.unwrap().unwrap();
    assert_eq!(job.status, State::DeadLetter);
    chrome.go("/ui/workers").await;
    chrome.until_text("main", "You don't have access").await;
    chrome.close().await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_tenant_sees_nothing_of_another() {
    let world = World::busy().await;
    let chrome = Chrome::open(&world.server.base).await;
    chrome.sign_in(&world.token(world.globex, Role::TenantAdmin).await).await;
    let ids = world.ids_of(world.acme).await;
    for path in [
        "/ui/jobs",
        "/ui/dead-letters",
        "/ui/queues",
        "/ui/triggers",
        "/ui/tokens",
        "/ui/members",
        "/ui/audit",
        "/ui/jobs?q=photo",
    ] {
        chrome.go(path).await;
        let source = chrome.driver.source().await.unwrap();
        assert!(!source.contains("Acme"), "{path}");
        for id in &ids {
            assert!(!source.contains(&id.to_string()), "{path} shows {id}");
        }
    }
    chrome.go(&format!("/ui/jobs/{}", ids[0])).await;
    chrome.until_text("main", "404").await;
    let dead = world.in_state(State::DeadLetter).await;
    let before = world.server.queue.job(world.acme, dead).await.unwrap();
    chrome.go("/ui/jobs").await;
    assert_eq!(chrome.post("/ui/jobs/act", &format!("retry={dead}")).await, 200);
    assert_eq!(world.server.queue.job(world.acme, dead).await.unwrap(), before, "it is unchanged");
    chrome.close().await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_super_admin_finds_a_stale_worker_and_switches_tenants() {
    let world = World::busy().await;
    world.miss_heartbeats("host-7:4211:worker").await;
    let chrome = Chrome::open(&world.server.base).await;
    chrome.sign_in(&world.token(world.acme, Role::SuperAdmin).await).await;
    assert_eq!(chrome.path().await, "/ui/overview", "no tenant was chosen");
    chrome.until_text("main", "1 worker is stale").await;
    chrome.go("/ui/workers").await;
    chrome.until_text("main .note", "No heartbeat from host-7:4211:worker for").await;
    assert_eq!(chrome.text("tbody tr:first-child .status").await, "Stale");
    // The reaper releases its jobs and closes its row: it is still shown as missing.
    let reaped = "update windlass.job_workers set stopped_at = now(), ended = 'lost' where worker_id = 'host-7:4211:worker'";
    world.server.queue.client().await.batch_execute(reaped).await.unwrap();
    chrome.go("/ui/workers").await;
    chrome
        .until_text(
            "main .note",
            "Its lease expired. If it was running jobs, they were retried on other workers",
        )
        .await;
    assert_eq!(chrome.text("tbody tr:first-child .status").await, "Lost");

    chrome.go("/ui/jobs").await;
    chrome.click(".tenant summary").await;
    chrome.click(&format!("button[value='{}']", world.globex)).await;
    chrome.until_text("#toasts", "Switched to Globex Archive").await;
    chrome.go("/ui").await;
    chrome.until("the jobs are shown", async || chrome.path().await == "/ui/jobs").await;
    chrome.go("/ui/audit").await;
    chrome.until_text(".head", "Globex Archive: actions, allowed and denied").await;
    chrome.go("/ui/tokens").await;
    chrome.until_text("main", "Tokens of the installation belong to no tenant").await;
    chrome.go("/ui/jobs").await;
    chrome
        .until("one job exists", async || {
            chrome.text("tbody[data-rows]").await.matches("sync-dropbox").count() == 1
        })
        .await;
    chrome.close().await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_need_a_session_and_no_other_site_posts() {
    let world = World::busy().await;
    let chrome = Chrome::open(&world.server.base).await;
    chrome.go("/ui/dead-letters").await;
    chrome.until("the sign-in page is shown", async || chrome.path().await == "/ui/sign-in").await;
    chrome.click("summary").await;
    chrome.fill("#token", "wl_api_0000000000000000_wrong").await;
    chrome.click("details button").await;
    chrome.until_text("#wrong", "Incorrect email, password, or token").await;
    let token = world.token(world.acme, Role::TenantAdmin).await;
    chrome.fill("#token", &token).await;
    chrome.click("details button").await;
    chrome.until("the requested page is shown", async || chrome.path().await == "/ui/dead-letters").await;

    // The same action from another site's page, with the reader's own cookie.
    let cookie = chrome.driver.get_all_cookies().await.unwrap();
    let cookie = cookie.iter().find(|cookie| cookie.name == "windlass").unwrap();
    let dead = world.in_state(State::DeadLetter).await;
    for (name, value) in [("sec-fetch-site", "cross-site"), ("origin", "http://evil.test")] {
        let client = reqwest::Client::builder()
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .build()
            .unwrap();
        let response = client
            .post(format!("{}/ui/jobs/act", world.server.base))
            .header("cookie", format!("windlass={}", cookie.value))
            .header(name, value)
            .header("content-type", "application/x-www-form-urlencoded")
            .body(format!("retry={dead}"))
            .send()
            .await
            .unwrap();
        assert_eq!(response.status(), 403, "{name}");
    }
    assert_eq!(
        json!(chrome.script("return document.cookie.includes('windlass=')").await),
        json!(false),
        "script cannot read it"
    );
    chrome.click(".who summary").await;
    chrome.click("form[action='/ui/sign-out'] button").await;
    chrome.until("they are signed out", async || chrome.path().await == "/ui/sign-in").await;
    chrome.go("/ui/jobs").await;
    assert_eq!(chrome.path().await, "/ui/sign-in");
    chrome.close().await;
    world.end().await;
}
