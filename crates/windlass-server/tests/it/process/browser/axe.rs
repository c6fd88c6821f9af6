//! axe-core finds no violation on any page, in either theme. A normal run looks at half of the pages, each in one theme.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use windlass_server::auth::Role;
use windlass_testing::{sample, some_of};

use super::chrome::Chrome;
use super::world::World;
use super::{NOTHING_THERE, open_pages, pages, personal_pages};

#[tokio::test(flavor = "multi_thread")]
async fn axe_finds_no_violation_on_any_page() {
    let axe = std::fs::read_to_string(axe_core()).unwrap();
    let world = World::busy().await;
    let chrome = Chrome::open(&world.server.base).await;
    let mut found = Vec::new();
    let mut number = 0;
    let mut look = async |name: &str, path: &str| {
        number += 1;
        for theme in some_of(&["light", "dark"], 1, number) {
            chrome.theme(theme).await;
            chrome.go(path).await;
            chrome.find("main").await;
            found.extend(violations(&chrome, &axe, &format!("{name} {theme}")).await);
        }
    };
    for (name, path) in open_pages(&world).await {
        look(name, &path).await;
    }
    chrome.sign_in(&world.token(world.acme, Role::SuperAdmin).await).await;
    chrome.choose(world.acme).await;
    let all = pages(&world).await;
    let half = all.len() / 2;
    let pages = sample(all, half);
    for (name, path) in &pages {
        look(name, path).await;
    }
    chrome.size(390, 844).await;
    for (name, path) in pages.iter().filter(|(name, _)| ON_A_PHONE.contains(name)) {
        look(&format!("{name} on a phone"), path).await;
    }
    chrome.size(1440, 900).await;
    chrome.choose(world.initech).await;
    for path in NOTHING_THERE {
        look("nothing there", path).await;
    }
    chrome.sign_in(&world.token(world.acme, Role::Viewer).await).await;
    look("forbidden", "/ui/workers").await;
    for (name, path) in personal_pages(&world, &chrome).await {
        look(name, &path).await;
    }
    assert!(found.is_empty(), "{found:#?}");
    chrome.close().await;
    world.end().await;
}

/// Pages with another layout there.
const ON_A_PHONE: [&str; 6] = ["jobs", "job-dead", "queues", "overview", "trigger", "members"];

async fn violations(chrome: &Chrome, axe: &str, page: &str) -> Vec<String> {
    chrome.script(axe).await;
    let script = "const done = arguments[arguments.length - 1]; \
        axe.run(document, {resultTypes: ['violations']}).then(r => done(r.violations.map(v => v.id + ': ' + v.help + ' at ' + v.nodes.slice(0, 3).map(n => n.target.join(' ') + ' ' + n.html.slice(0, 120)).join(' | '))), e => done(['axe failed: ' + e]));";
    let result = chrome.driver.execute_async(script, vec![]).await.unwrap().json().clone();
    let Value::Array(found) = result else { panic!("{result}") };
    found.iter().map(|each| format!("{page}: {}", each.as_str().unwrap_or_default())).collect()
}

/// Fetched once into the target directory: for tests only, not part of the product.
fn axe_core() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("axe");
    let script = folder.join("node_modules/axe-core/axe.min.js");
    if !script.exists() {
        std::fs::create_dir_all(&folder).unwrap();
        let installed = Command::new("npm")
            .args(["install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix"])
            .arg(&folder)
            .arg("axe-core@4")
            .output()
            .expect("npm is missing: install Debian's npm (./dev test does)");
        assert!(installed.status.success(), "{}", String::from_utf8_lossy(&installed.stderr));
    }
    script
}
