//! `examples/zoltag`: two tenants, three workers in separate processes, and one of them killed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Child;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;
use windlass::keeper::{Keeper, KeeperSettings};
use windlass_server::auth::Role;
use windlass_testing::eventually;

use super::folder;
use crate::cli::windlass;
use crate::support::{Client, TestServer};

pub(super) fn read(file: &str) -> Value {
    serde_json::from_str(&fs::read_to_string(folder("zoltag").join(file)).unwrap()).unwrap()
}

/// The example's folder with a lease that is short enough for a test.
pub(super) fn workplace() -> PathBuf {
    let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join(Uuid::new_v4().simple().to_string());
    fs::create_dir_all(&place).unwrap();
    fs::copy(folder("zoltag").join("zoltag"), place.join("zoltag")).unwrap();
    let file = fs::read_to_string(folder("zoltag").join("worker.toml")).unwrap();
    assert!(file.contains("lease = \"10s\""));
    fs::write(place.join("worker.toml"), file.replace("lease = \"10s\"", "lease = \"5s\"")).unwrap();
    place
}

/// A worker process, and its id.
pub(super) async fn worker(server: &TestServer, place: &Path) -> (Child, String) {
    let file = place.join("worker.toml");
    let mut child =
        windlass(&["worker", "--config", file.to_str().unwrap(), "--no-keeper", "--concurrency", "2"])
            .args(["--database-url", server.queue.url()])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
    let ready = BufReader::new(child.stdout.take().unwrap()).lines().next_line().await.unwrap();
    let ready = ready.expect("it ended before it was ready");
    (child, ready.strip_prefix("ready: ").unwrap().to_owned())
}

pub(super) async fn tenant(server: &TestServer, slug: &str) -> (Uuid, Client) {
    let made =
        server.admin.post("/api/v1/admin/tenants", &json!({"name": slug, "slug": slug})).await.expect(201);
    let id: Uuid = made["id"].as_str().unwrap().parse().unwrap();
    (id, server.client(id, Role::TenantAdmin).await)
}

async fn jobs(client: &Client, filter: &str) -> Vec<Value> {
    let page = client.get(&format!("/api/v1/jobs?{filter}")).await.expect(200);
    page["jobs"].as_array().unwrap().clone()
}

pub(super) async fn until(client: &Client, id: &Value, wanted: &str) -> Value {
    let path = format!("/api/v1/jobs/{}", id.as_str().unwrap());
    eventually(&format!("{id} is {wanted}"), async || {
        client.get(&path).await.expect(200)["status"] == wanted
    })
    .await;
    client.get(&path).await.expect(200)
}

#[tokio::test(flavor = "multi_thread")]
async fn three_workers_run_the_jobs_of_two_tenants_though_one_is_killed() {
    let mut server = TestServer::start().await;
    let often = Duration::from_millis(50);
    let settings = KeeperSettings::default().promote(often).reap(often);
    let stop = CancellationToken::new();
    let keeping = tokio::spawn(Keeper::new(server.queue.queue().clone(), settings).run(stop.clone()));
    let place = workplace();
    let mut workers = Vec::new();
    for _ in 0..3 {
        workers.push(worker(&server, &place).await);
    }
    let ((_, acme), (bcg_id, bcg)) = (tenant(&server, "acme").await, tenant(&server, "bcg").await);

    // Manually, with the document's own body and response.
    let made = bcg.post("/api/v1/jobs", &read("enqueue.json")).await.expect(201);
    assert_eq!((&made["tenant_id"], &made["status"]), (&json!(bcg_id), &json!("queued")));
    assert_eq!(made["definition_key"], "recompute-trained-tags");
    assert!(made["queued_at"].is_string());
    let done = until(&bcg, &made["id"], "succeeded").await;
    assert_eq!((&done["source"], &done["result"]), (&json!("manual"), &json!({"model": "siglip"})));
    let path = format!("/api/v1/jobs/{}/attempts", made["id"].as_str().unwrap());
    let attempts = bcg.get(&path).await.expect(200);
    let attempt = &attempts["attempts"][0];
    assert_eq!((&attempt["exit_code"], &attempt["status"]), (&json!(0), &json!("succeeded")));
    assert!(
        attempt["stdout_tail"].as_str().unwrap().contains(&bcg_id.to_string()),
        "the argv names its tenant"
    );
    acme.get(&format!("/api/v1/jobs/{}", made["id"].as_str().unwrap())).await.expect(404);
    let unfit = json!({"definition_key": "sync-dropbox", "payload": {"path_prefix": "/"}});
    bcg.post("/api/v1/jobs", &unfit).await.problem(422, "invalid");

    // At the hour that the document names: the fire of last night is recovered, as after a night without a scheduler.
    let nightly = acme.post("/api/v1/jobs/triggers", &read("nightly.json")).await.expect(201);
    assert!(nightly["next_due_at"].is_string(), "{nightly}");
    let now = jiff::Timestamp::now();
    let night = json!({"from": (now - Duration::from_secs(26 * 3600)).to_string(), "until": now.to_string()});
    let backfill = format!("/api/v1/jobs/triggers/{}/backfill", nightly["id"].as_str().unwrap());
    let fired = acme.post(&backfill, &night).await;
    assert!(fired.status.is_success(), "{fired:?}");
    let scheduled = jobs(&acme, "source=schedule").await;
    let nightly =
        until(&acme, &scheduled.first().expect("the fire of the night exists")["id"], "succeeded").await;
    assert_eq!(nightly["result"], json!({"model": "siglip"}));
    // The document's own is accepted unchanged; the fields that it omits are required by its own schema.
    let sync = acme.post("/api/v1/jobs/triggers", &read("nightly-sync.json")).await.expect(201);
    let run = format!("/api/v1/jobs/triggers/{}/run", sync["id"].as_str().unwrap());
    let unfit = acme.post(&run, &json!({})).await;
    unfit.problem(422, "invalid");
    assert!(unfit.text.contains("provider_id"), "{unfit:?}");

    // By an event of one tenant, which the other's triggers do not receive.
    acme.post("/api/v1/jobs/triggers", &read("folder-updated.json")).await.expect(201);
    let event = json!({"name": "provider.folder.updated", "payload": {"provider_id": Uuid::new_v4(), "folder_path": "/summer"}});
    for tenant in [&acme, &bcg] {
        let response = tenant.post("/api/v1/events", &event).await;
        assert!(response.status.is_success(), "{response:?}");
    }
    let by_event = "source=event&definition_key=sync-dropbox";
    eventually("the event has its job", async || jobs(&acme, by_event).await.len() == 1).await;
    let synced = until(&acme, &jobs(&acme, by_event).await[0]["id"], "succeeded").await;
    assert_eq!(synced["payload"]["path_prefix"], "/summer");
    assert_eq!(synced["result"], json!({"pictures": 24}));
    eventually("the jobs of the sync have run", async || {
        let next = jobs(&acme, "definition_key=recompute-zeroshot-tags").await;
        next.len() == 1 && next[0]["status"] == "succeeded"
    })
    .await;
    assert_eq!(jobs(&bcg, by_event).await.len(), 0);

    // A machine fails in the middle of a run.
    let keywords: Vec<String> = (0..40).map(|n| format!("keyword-{n}")).collect();
    let train = json!({"definition_key": "train-keyword-models", "payload": {"keywords": keywords}});
    let long = bcg.post("/api/v1/jobs", &train).await.expect(201);
    let holder = until(&bcg, &long["id"], "running").await["claimed_by_worker"].as_str().unwrap().to_owned();
    let position = workers.iter().position(|(_, id)| *id == holder).unwrap();
    let (mut killed, dead) = workers.swap_remove(position);
    killed.kill().await.unwrap();
    let done = until(&bcg, &long["id"], "succeeded").await;
    assert_eq!(done["attempt_count"], 2);
    assert_ne!(done["claimed_by_worker"], json!(dead));
    let listed = server.admin.get("/api/v1/admin/workers").await.expect(200);
    let of = |id: &str| {
        listed["workers"].as_array().unwrap().iter().find(|one| one["worker_id"] == id).cloned().unwrap()
    };
    // Its job may be recovered before its row is closed; in both cases it is not reported as stopped.
    assert_eq!(of(&dead)["is_stale"], true, "{listed}");
    assert_eq!(
        (&of(&workers[0].1)["status"], &of(&workers[0].1)["is_stale"]),
        (&json!("active"), &json!(false))
    );
    eventually("it is listed as lost", async || {
        let listed = server.admin.get("/api/v1/admin/workers").await.expect(200);
        let dead = listed["workers"].as_array().unwrap().iter().find(|one| one["worker_id"] == dead).cloned();
        dead.is_some_and(|dead| dead["status"] == "lost" && dead["stopped_at"].is_string())
    })
    .await;

    stop.cancel();
    keeping.await.unwrap();
    drop(workers);
    server.stop().await;
    fs::remove_dir_all(place).unwrap();
}
