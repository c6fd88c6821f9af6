//! Screenshots of every page in both themes, wide and narrow, for people: `target/screenshots`. A normal run takes one of
//! the four of each page.

use std::path::Path;

use windlass_server::auth::Role;
use windlass_testing::some_of;

use super::chrome::Chrome;
use super::world::World;
use super::{NOTHING_THERE, open_pages, pages, personal_pages};

#[tokio::test(flavor = "multi_thread")]
async fn every_page_has_screenshots_in_both_themes_and_breaks_no_rule() {
    let world = World::busy().await;
    let chrome = Chrome::open(&world.server.base).await;
    chrome.watch_complaints().await;
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("../screenshots");
    let mut gallery = Gallery { chrome: &chrome, folder: &folder, pages: 0 };
    for (name, path) in open_pages(&world).await {
        gallery.add(name, &path).await;
    }
    chrome.sign_in(&world.token(world.acme, Role::SuperAdmin).await).await;
    chrome.choose(world.acme).await;
    let mut heavy = Vec::new();
    for (name, path) in pages(&world).await {
        gallery.add(name, &path).await;
        assert_eq!(chrome.complaints().await, [""; 0], "{name}");
        let weight = chrome.script("return performance.getEntriesByType('navigation')[0].transferSize").await;
        if weight.as_f64().unwrap_or_default() > 60_000.0 {
            heavy.push(format!("{name}: {weight}"));
        }
    }
    assert!(heavy.is_empty(), "{heavy:?}");
    chrome.choose(world.initech).await;
    for (name, path) in
        ["jobs-first", "triggers-none", "dead-letters-none", "members-none"].iter().zip(NOTHING_THERE)
    {
        gallery.add(name, path).await;
    }
    chrome.sign_in(&world.token(world.acme, Role::Viewer).await).await;
    gallery.add("forbidden", "/ui/workers").await;
    for (name, path) in personal_pages(&world, &chrome).await {
        gallery.add(name, &path).await;
    }
    chrome.close().await;
    world.end().await;
}

/// By how many pixels each table exceeds a surface that does not scroll.
const CUT_OFF: &str = "return [...document.querySelectorAll('.surface > table')]
    .filter(table => getComputedStyle(table.parentElement).overflowX === 'clip')
    .map(table => table.offsetWidth - table.parentElement.clientWidth).filter(excess => excess > 1)";

struct Gallery<'a> {
    chrome: &'a Chrome,
    folder: &'a Path,
    pages: usize,
}

impl Gallery<'_> {
    /// Both themes, at the width of a desktop and of a phone; nothing may be wider than its window.
    async fn add(&mut self, name: &str, path: &str) {
        let chrome = self.chrome;
        let all = [("light", 1440), ("dark", 390), ("dark", 1440), ("light", 390)];
        self.pages += 1;
        for (theme, width) in some_of(&all, 1, self.pages) {
            chrome.size(width, 900).await;
            chrome.theme(theme).await;
            chrome.go(path).await;
            chrome.find("main").await;
            chrome.picture(&self.folder.join(format!("{name}-{theme}-{width}.png"))).await;
            let wide = chrome.script("return document.documentElement.scrollWidth > innerWidth + 1").await;
            assert_eq!(wide, false, "{name} at {width} is wider than its window");
            let cut = chrome.script(CUT_OFF).await;
            assert_eq!(
                cut,
                serde_json::json!([]),
                "{name} at {width}: tables that are cut off and cannot be scrolled"
            );
        }
    }
}
