//! The pages for forbidden, failed and missing content.

use serde_json::json;
use windlass_server::auth::Role;

use super::chrome::Chrome;
use super::world::World;
use crate::support::TestServer;

#[tokio::test(flavor = "multi_thread")]
async fn errors_explain_what_happened_and_what_to_do() {
    let mut server = TestServer::start().await;
    let tenant = server.queue.tenant("acme").await;
    let viewer = server.client(tenant, Role::Viewer).await;
    let page = viewer.get("/ui/workers").await;
    assert_eq!(page.status, 403);
    for words in [
        "You don&#39;t have access",
        "Requires the permission admin",
        "Only super-admins can open this page.",
    ] {
        assert!(page.text.contains(words), "{words}: {}", page.text);
    }
    let page = viewer.get("/ui/jobs/00000000-0000-7000-8000-0000000000ff").await;
    assert_eq!(page.status, 404);
    assert!(
        page.text.contains("It may have been deleted, or it may belong to another tenant."),
        "{}",
        page.text
    );

    // The database rejects all connections: the page reports it, and offers to try again.
    let name: String =
        server.queue.client().await.query_one("select current_database()", &[]).await.unwrap().get(0);
    let beside = server.queue.url().replace(&name, "postgres");
    let (client, connection) = tokio_postgres::connect(&beside, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    client.batch_execute(&format!("alter database \"{name}\" allow_connections false")).await.unwrap();
    let end = "select pg_terminate_backend(pid) from pg_stat_activity where datname = $1";
    client.query(end, &[&name]).await.unwrap();
    let page = viewer.get("/ui/jobs").await;
    assert!(page.status.is_server_error(), "{} {}", page.status, page.text);
    assert!(
        page.text.contains("Nothing was changed.") && page.text.contains(">Try again</a>"),
        "{}",
        page.text
    );
    assert!(!page.text.contains(&name), "no internal detail is shown");
    client.batch_execute(&format!("alter database \"{name}\" allow_connections true")).await.unwrap();
    windlass_testing::eventually("the page is shown again", async || {
        viewer.get("/ui/jobs").await.status == 200
    })
    .await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_page_shows_that_it_is_loading() {
    let world = World::quiet().await;
    let chrome = Chrome::open(&world.server.base).await;
    chrome.sign_in(&world.token(world.acme, Role::TenantAdmin).await).await;
    chrome.devtools("Network.enable", json!({})).await;
    let slow = json!({"offline": false, "latency": 1500, "downloadThroughput": -1, "uploadThroughput": -1});
    chrome.devtools("Network.emulateNetworkConditions", slow).await;
    assert!(!chrome.has("html[data-loading]").await);
    // The driver waits for a page that is loading, so the page that is left records what it showed.
    let note = "new MutationObserver(() => sessionStorage.setItem('said', location.pathname + ' ' + ('loading' in document.documentElement.dataset))) \
        .observe(document.documentElement, {attributes: true, attributeFilter: ['data-loading']});";
    chrome.script(note).await;
    chrome.click("#sidebar a[href='/ui/triggers']").await;
    let quick = json!({"offline": false, "latency": 0, "downloadThroughput": -1, "uploadThroughput": -1});
    chrome.devtools("Network.emulateNetworkConditions", quick).await;
    chrome.until("the page is shown", async || chrome.path().await == "/ui/triggers").await;
    assert_eq!(chrome.script("return sessionStorage.getItem('said')").await, "/ui/jobs true");
    assert!(!chrome.has("html[data-loading]").await);
    chrome.close().await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_component_page_exists_only_if_enabled() {
    let mut server = TestServer::start().await;
    assert_eq!(server.admin.get("/ui/components").await.status, 404);
    server.stop().await;
    let world = World::quiet().await;
    assert_eq!(world.server.admin.get("/ui/components").await.status, 200);
    let tenant_admin = world.server.client(world.acme, Role::TenantAdmin).await;
    assert_eq!(tenant_admin.get("/ui/components").await.status, 403);
    world.end().await;
}
