//! Every page is smaller than 60 kB as a browser gets it, with the maximum content.

use serde_json::json;
use uuid::Uuid;
use windlass::NewJob;
use windlass::job::State;
use windlass_server::auth::Role;
use windlass_testing::eventually;

use super::pages;
use super::world::{PROVIDER, World};

const MAX: usize = 60_000;

#[tokio::test(flavor = "multi_thread")]
async fn every_page_stays_small_with_any_amount_of_data() {
    let world = World::busy().await;
    let (large, tried) = fill(&world).await;
    let mut pages = pages(&world).await;
    pages.extend([
        ("jobs, dead letters", "/ui/jobs?status=dead_letter".to_owned()),
        ("job with a large payload", format!("/ui/jobs/{large}")),
        ("job with many attempts", format!("/ui/jobs/{tried}")),
    ]);
    let client = world.server.admin.with("x-tenant-id", world.acme);
    let mut heavy = Vec::new();
    for (name, path) in pages {
        let response = client
            .with("accept-encoding", "gzip, deflate, br")
            .request(reqwest::Method::GET, &path)
            .send()
            .await
            .unwrap();
        let is_packed = response.headers().get("content-encoding").is_some_and(|how| how == "gzip");
        let bytes = response.bytes().await.unwrap().len();
        if bytes >= MAX || !is_packed {
            heavy.push(format!("{name}: {bytes} bytes, packed: {is_packed}"));
        }
    }
    for asset in ["/ui/assets/windlass.css", "/ui/assets/windlass.js"] {
        let response =
            client.with("accept-encoding", "gzip").request(reqwest::Method::GET, asset).send().await.unwrap();
        assert_eq!(response.headers()["content-encoding"], "gzip", "{asset}");
    }
    assert!(heavy.is_empty(), "{heavy:#?}");
    world.end().await;
}

/// Text that does not compress well.
fn noise(seed: usize, bytes: usize) -> String {
    let mut state = seed as u64 * 2_654_435_761 + 1;
    let letter = |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        char::from(b'!' + (state >> 33) as u8 % 90)
    };
    (0..bytes).map(letter).collect()
}

/// Dead letters with many causes, triggers, tokens, tenants and workers by the hundred; a job with a large payload and one with
/// many attempts with much output.
async fn fill(world: &World) -> (Uuid, Uuid) {
    let queue = &world.server.queue;
    let mut dead = Uuid::nil();
    for number in 0..120 {
        let text = format!("/say {}", noise(number, 1500));
        let payload = json!({"provider_id": PROVIDER, "path_prefix": text});
        dead = queue
            .enqueue(&NewJob::new("recompute-zeroshot-tags").tenant(world.acme).payload(&payload))
            .await
            .unwrap()
            .id;
    }
    eventually("the last of them has failed", async || {
        queue.job(world.acme, dead).await.unwrap().is_some_and(|job| job.status == State::DeadLetter)
    })
    .await;
    let rows: Vec<_> = (0..2000).map(|number| json!({"id": number, "path": noise(number, 60)})).collect();
    let large = NewJob::new("export-archive").tenant(world.acme).payload(&json!({"rows": rows}));
    let large = queue.enqueue(&large).await.unwrap().id;
    let client = queue.client().await;
    let names: Vec<String> = (0..300).map(|number| noise(number, 60)).collect();
    for statement in [
        "insert into windlass.tenants (slug, name) select 'many-' || n, t from unnest($1::text[]) with ordinality x (t, n)",
        "insert into windlass.job_workers (worker_id, hostname, version, queues, definition_keys, started_at, last_seen_at, lease_expires_at, lease_seconds, running_count)
           select t, t, '0.1.0', array[t], array[t], now(), now(), now() + interval '1 hour', 3600, 1 from unnest($1::text[]) t",
    ] {
        client.execute(statement, &[&names]).await.unwrap();
    }
    let admin = world.server.client(world.acme, Role::TenantAdmin).await;
    for name in names.iter().take(210) {
        admin.post("/api/v1/admin/tokens", &json!({"name": name, "role": "viewer"})).await.expect(201);
    }
    let attempts = "insert into windlass.history (tenant_id, job_id, started_at, finished_at, attempt, lane, outcome, error_text, stdout_tail, stderr_tail)
        select h.tenant_id, h.job_id, now(), now(), 1 + n, h.lane, 2, left(t, 1000), t, t
          from windlass.history h, unnest($2::text[]) with ordinality x (t, n) where h.job_id = $1 and h.attempt = 1";
    let tails: Vec<String> = (0..24).map(|number| noise(number, 8000)).collect();
    client.execute(attempts, &[&dead, &tails]).await.unwrap();
    (large, dead)
}
