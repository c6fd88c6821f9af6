//! `examples/zoltag` in a browser: the Jobs page of a tenant, and what a super-admin sees when a machine fails.

use std::fs;
use std::time::Duration;

use serde_json::json;
use tokio_util::sync::CancellationToken;
use windlass::keeper::{Keeper, KeeperSettings};
use windlass_server::auth::Role;

use super::zoltag::{read, tenant, until, worker, workplace};
use crate::process::browser::chrome::Chrome;
use crate::support::TestServer;

/// Runs a keeper until it is stopped, with a reaper at this interval.
struct Keeping(CancellationToken, tokio::task::JoinHandle<()>);

impl Keeping {
    fn start(server: &TestServer, reap: Duration) -> Self {
        let often = Duration::from_millis(50);
        let settings = KeeperSettings::default().promote(often).reap(reap);
        let stop = CancellationToken::new();
        let keeper = Keeper::new(server.queue.queue().clone(), settings);
        Self(stop.clone(), tokio::spawn(keeper.run(stop)))
    }

    async fn stop(self) {
        self.0.cancel();
        self.1.await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_sees_its_jobs_and_a_super_admin_the_worker_that_was_killed() {
    let mut server = TestServer::start().await;
    // No worker is reaped while the pages are read.
    let keeping = Keeping::start(&server, Duration::from_secs(3600));
    let place = workplace();
    let mut workers = Vec::new();
    for _ in 0..3 {
        workers.push(worker(&server, &place).await);
    }
    let ((acme_id, acme), (bcg_id, bcg)) = (tenant(&server, "acme").await, tenant(&server, "bcg").await);
    let sync = json!({"definition_key": "sync-dropbox", "payload": {"provider_id": uuid::Uuid::new_v4()}});
    let theirs = acme.post("/api/v1/jobs", &sync).await.expect(201);
    until(&acme, &theirs["id"], "succeeded").await;
    let tags = bcg.post("/api/v1/jobs", &read("enqueue.json")).await.expect(201);
    until(&bcg, &tags["id"], "succeeded").await;

    // The Jobs page of one tenant: cards, rows, log tails.
    let chrome = Chrome::open(&server.base).await;
    chrome.sign_in(&server.client(bcg_id, Role::TenantAdmin).await.token.unwrap()).await;
    let row = |id: &serde_json::Value| format!("#job-{}", id.as_str().unwrap());
    for words in ["recompute-trained-tags", "manual", "Succeeded"] {
        chrome.until_text(&row(&tags["id"]), words).await;
    }
    assert!(!chrome.text("main").await.contains("sync-dropbox"), "the jobs of acme are not those of bcg");
    chrome.go(&format!("/ui/jobs/{}", tags["id"].as_str().unwrap())).await;
    chrome.until_text("main", &format!("recomputing tags with siglip for tenant {bcg_id}")).await;

    // A machine fails in the middle of a run.
    let keywords: Vec<String> = (0..40).map(|n| format!("keyword-{n}")).collect();
    let train = json!({"definition_key": "train-keyword-models", "payload": {"keywords": keywords}});
    let long = bcg.post("/api/v1/jobs", &train).await.expect(201);
    let holder = until(&bcg, &long["id"], "running").await["claimed_by_worker"].as_str().unwrap().to_owned();
    let position = workers.iter().position(|(_, id)| *id == holder).unwrap();
    let (mut killed, dead) = workers.swap_remove(position);
    killed.kill().await.unwrap();
    chrome.go("/ui/jobs").await;
    chrome.until_text("#card-running .value", "1").await;
    chrome.until_text(&row(&long["id"]), "Running").await;
    assert!(chrome.has(&format!("{} button[name=cancel]", row(&long["id"]))).await);

    // The super-admin: the numbers of every tenant, and the worker that misses its heartbeats.
    chrome.sign_in(&server.client(bcg_id, Role::SuperAdmin).await.token.unwrap()).await;
    chrome.go("/ui/overview").await;
    for (id, name) in [(acme_id, "acme"), (bcg_id, "bcg")] {
        chrome.until_text(&format!("#tenant-{id}"), name).await;
    }
    chrome.until_text("main", "1 worker is stale").await;
    chrome.go("/ui/workers").await;
    chrome.until_text("main .note", &format!("No heartbeat from {dead} for")).await;
    assert_eq!(chrome.text("tbody tr:first-child .status").await, "Stale");
    assert_eq!(chrome.driver.find_all(thirtyfour::By::Css("tbody tr")).await.unwrap().len(), 3);

    // Once its lease has expired another worker runs its job; the page shows it without a reload.
    keeping.stop().await;
    let keeping = Keeping::start(&server, Duration::from_millis(50));
    chrome.sign_in(&server.client(bcg_id, Role::TenantAdmin).await.token.unwrap()).await;
    chrome.until_text(&row(&long["id"]), "Succeeded").await;
    assert_eq!(until(&bcg, &long["id"], "succeeded").await["attempt_count"], 2);

    // The killed worker stays visible, as lost and not as stopped.
    chrome.sign_in(&server.client(bcg_id, Role::SuperAdmin).await.token.unwrap()).await;
    chrome.go("/ui/workers").await;
    chrome.until_text("main tbody", "Lost").await;
    chrome.until_text("main .note", &format!("No heartbeat from {dead} for")).await;
    chrome.close().await;
    keeping.stop().await;
    drop(workers);
    server.stop().await;
    fs::remove_dir_all(place).unwrap();
}
