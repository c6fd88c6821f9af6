//! Ten thousand tenants: every list of them has pages, and each can be found.

use windlass_server::auth::Role;

use super::chrome::Chrome;
use super::world::World;

const TENANTS: i64 = 10_000;

/// Tenants with their own lanes and counts, the higher numbers with more work.
async fn fill(world: &World) {
    let client = world.server.queue.client().await;
    for statement in [
        "insert into windlass.tenants (slug, name)
           select 'many-' || n, 'Tenant ' || lpad(n::text, 5, '0') from generate_series(1, $1::bigint) n",
        "insert into windlass.lane (tenant_id, definition_id, queue, priority)
           select t.id, d.id, 'default', 100 from windlass.tenants t, windlass.job_definitions d
            where t.slug like 'many-%' and d.key = 'sync-dropbox' and $1::bigint > 0",
        "insert into windlass.total (tenant_id, lane, queued, succeeded)
           select n.tenant_id, n.id, substr(t.slug, 6)::bigint, 7 from windlass.lane n join windlass.tenants t on t.id = n.tenant_id
            where t.slug like 'many-%' and $1::bigint > 0",
    ] {
        client.execute(statement, &[&TENANTS]).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_tenants_are_paged_and_each_is_found() {
    let world = World::quiet().await;
    fill(&world).await;
    let chrome = Chrome::open(&world.server.base).await;
    chrome.sign_in(&world.token(world.acme, Role::SuperAdmin).await).await;

    // The list: a page at a time, by name, without gap or repeat.
    chrome.go("/ui/tenants").await;
    chrome.until_text(".head", "10\u{202f}004 total").await;
    let mut seen = Vec::new();
    for _ in 0..3 {
        let rows = chrome
            .script("return [...document.querySelectorAll('tbody tr td:first-child')].map(e => e.innerText)")
            .await;
        let rows: Vec<String> = serde_json::from_value(rows).unwrap();
        assert_eq!(rows.len(), 50);
        seen.extend(rows);
        chrome.click("a[rel=next]").await;
        let last = seen.last().unwrap().clone();
        chrome.until("the next page is open", async || !chrome.text("tbody").await.contains(&last)).await;
    }
    let mut sorted = seen.clone();
    sorted.sort_by_key(|name| name.to_lowercase());
    sorted.dedup();
    assert_eq!(sorted, seen, "in order, and none twice");
    chrome.go("/ui/tenants?q=tenant+09876").await;
    chrome.until_text(".head", "1 found").await;

    // The switcher: a few at first, and the input is searched among all.
    chrome.go("/ui/triggers").await;
    chrome.click(".tenant summary").await;
    let listed =
        async || chrome.script("return document.querySelectorAll('#tenant-list .item').length").await;
    assert_eq!(listed().await, 20);
    chrome.fill("#tenant-q", "no such name").await;
    chrome.until_text("#tenant-list", "No matching tenants").await;
    chrome.fill("#tenant-q", "TENANT 07654").await;
    chrome.until("it is found", async || listed().await == 1).await;
    chrome.click("#tenant-list .item").await;
    chrome.until_text("#toasts", "Switched to Tenant 07654").await;
    chrome.until_text(".tenant summary", "Tenant 07654").await;

    // The overview: those with most work first, then the others.
    chrome.go("/ui/overview").await;
    chrome.until_text("#o-busy ~ .muted", "1–25 of 10\u{202f}000").await;
    assert!(chrome.text("tbody[data-rows] tr:first-child").await.starts_with("Tenant 10000"));
    chrome.click("a[rel=next]").await;
    chrome.until_text("#o-busy ~ .muted", "26–50 of 10\u{202f}000").await;
    assert!(chrome.text("tbody[data-rows] tr:first-child").await.starts_with("Tenant 09975"));
    chrome.click("a[rel=prev]").await;
    chrome.until_text("#o-busy ~ .muted", "1–25 of").await;
    chrome.close().await;
    world.end().await;
}
