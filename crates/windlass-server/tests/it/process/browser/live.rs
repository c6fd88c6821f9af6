//! Live updates: rows appear and change in place, wait while the reader has scrolled, stop when paused, and continue after a restart.

use std::time::Duration;

use tokio::net::TcpListener;
use windlass::job::State;
use windlass_server::auth::Role;
use windlass_server::http::{App, Options};
use windlass_server::server::Server;

use super::chrome::Chrome;
use super::world::{World, job};

#[tokio::test(flavor = "multi_thread")]
async fn rows_update_in_place_and_new_ones_wait_behind_a_pill() {
    let world = World::busy().await;
    let chrome = Chrome::open(&world.server.base).await;
    chrome.sign_in(&world.token(world.acme, Role::TenantAdmin).await).await;
    chrome.until_text("#live-sign", "Live").await;
    chrome.script("window.same = true").await;

    let queue = &world.server.queue;
    let id = queue.enqueue(&job(1, world.acme, "/wait")).await.unwrap().id;
    chrome.until_text(&format!("#job-{id}"), "Running").await;
    queue.cancel(world.acme, id).await.unwrap();
    chrome.until_text(&format!("#job-{id}"), "Canceled").await;

    // The position of a reader further down does not move.
    chrome.script("window.scrollTo(0, 700)").await;
    let before = chrome.script("return document.querySelector('tbody[data-rows] tr').id").await;
    queue.enqueue(&job(0, world.acme, "/photos")).await.unwrap();
    chrome.until_text("#pill", "1 new").await;
    assert_eq!(chrome.script("return document.querySelector('tbody[data-rows] tr').id").await, before);
    chrome.script("document.querySelector('#pill button').click()").await;
    chrome
        .until("the new row is there", async || {
            chrome.script("return document.querySelector('tbody[data-rows] tr').id").await != before
        })
        .await;

    chrome.click("#live-sign").await;
    chrome.until_text("#live-sign", "Paused").await;
    let quiet = queue.enqueue(&job(0, world.acme, "/photos")).await.unwrap().id;
    world.until(quiet, State::Succeeded).await;
    assert!(!chrome.has(&format!("#job-{quiet}")).await);
    chrome.click("#live-sign").await;
    chrome.until("the missed rows are shown", async || chrome.has(&format!("#job-{quiet}")).await).await;
    assert_eq!(chrome.script("return window.same === true").await, true, "the page was never loaded again");
    chrome.close().await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_recovers_after_the_server_restarts() {
    let mut world = World::busy().await;
    let chrome = Chrome::open(&world.server.base).await;
    chrome.sign_in(&world.token(world.acme, Role::TenantAdmin).await).await;
    chrome.until_text("#live-sign", "Live").await;
    chrome.script("window.same = true").await;

    world.server.stop().await;
    chrome.until_text("#live-sign", "Connection lost").await;
    chrome.until_text("#lost", "This page may be out of date").await;

    let address = world.server.base.trim_start_matches("http://");
    let listener = TcpListener::bind(address).await.unwrap();
    let app = App::new(world.server.queue.queue().clone(), Options::default());
    let again = Server::start(app, listener).unwrap();
    chrome.until_text("#live-sign", "Live").await;
    chrome.until_text("#toasts", "Reconnected").await;
    let id = world.server.queue.enqueue(&job(0, world.acme, "/photos")).await.unwrap().id;
    chrome.until_text(&format!("#job-{id}"), "Succeeded").await;
    assert_eq!(chrome.script("return window.same === true").await, true, "the page was never loaded again");
    chrome.close().await;
    again.stop(Duration::from_secs(5)).await;
    world.end().await;
}
