//! axe-core finds nothing to complain about on any page, in either theme.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use windlass_server::auth::Role;

use super::chrome::Chrome;
use super::pages;
use super::world::World;

#[tokio::test(flavor = "multi_thread")]
async fn axe_finds_no_violation_on_any_page() {
    let axe = std::fs::read_to_string(axe_core()).unwrap();
    let world = World::busy().await;
    let chrome = Chrome::open(&world.server.base).await;
    chrome.go("/ui/sign-in").await;
    let mut found = violations(&chrome, &axe, "sign-in").await;
    chrome.sign_in(&world.token(world.acme, Role::SuperAdmin).await).await;
    chrome.choose(world.acme).await;
    for (name, path) in pages(&world).await {
        // Colours are roles whose contrast a test computes for both themes; some pages are looked at in both all the same.
        let themes: &[&str] =
            if matches!(name, "jobs" | "job-dead" | "components") { &["light", "dark"] } else { &["light"] };
        for theme in themes {
            chrome.theme(theme).await;
            chrome.go(&path).await;
            chrome.find("main").await;
            found.extend(violations(&chrome, &axe, &format!("{name} {theme}")).await);
        }
    }
    chrome.size(390, 844).await;
    chrome.go("/ui/jobs").await;
    found.extend(violations(&chrome, &axe, "jobs on a phone").await);
    assert!(found.is_empty(), "{found:#?}");
    chrome.close().await;
    world.end().await;
}

async fn violations(chrome: &Chrome, axe: &str, page: &str) -> Vec<String> {
    chrome.script(axe).await;
    let script = "const done = arguments[arguments.length - 1]; \
        axe.run(document, {resultTypes: ['violations']}).then(r => done(r.violations.map(v => v.id + ': ' + v.help + ' at ' + v.nodes.slice(0, 3).map(n => n.target.join(' ') + ' ' + n.html.slice(0, 120)).join(' | '))), e => done(['axe failed: ' + e]));";
    let answer = chrome.driver.execute_async(script, vec![]).await.unwrap().json().clone();
    let Value::Array(found) = answer else { panic!("{answer}") };
    found.iter().map(|each| format!("{page}: {}", each.as_str().unwrap_or_default())).collect()
}

/// Fetched once by the ordinary client into the target directory: for tests only, it is no part of the product.
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
