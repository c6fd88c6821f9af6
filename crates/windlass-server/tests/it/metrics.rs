//! `/metrics`, as Prometheus reads it.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use windlass::keeper::{Duty, Keeper, KeeperSettings};
use windlass::{Context, Definition, Done, Failure, Handler, NewJob, Worker};
use windlass_server::auth::Role;
use windlass_server::http::Options;
use windlass_server::metrics;
use windlass_testing::eventually;

use crate::support::TestServer;

#[tokio::test]
async fn depths_are_shown_by_queue_status_and_largest_tenants_only() {
    let server = TestServer::start_with(Options { metrics_tenants: 2, ..Options::default() }).await;
    server.queue.define(&Definition::new("count").queue("night")).await.unwrap();
    for number in 1..=5_usize {
        let tenant = server.queue.tenant(&format!("tenant-{number}")).await;
        let jobs = vec![NewJob::new("count").tenant(tenant); number];
        server.queue.enqueue_many(&jobs).await.unwrap();
    }
    let text = server.admin.get("/metrics").await.text;
    assert!(text.contains("windlass_jobs{queue=\"night\",status=\"queued\"} 15"), "{text}");
    assert!(text.contains("windlass_tenant_jobs{tenant=\"other\",status=\"queued\"} 6"), "{text}");
    let tenants: BTreeSet<&str> = text
        .lines()
        .filter(|line| line.starts_with("windlass_tenant_jobs{"))
        .filter_map(|line| line.split('"').nth(1))
        .collect();
    assert_eq!(tenants.len(), 3, "two by name and the others together: {tenants:?}");
}

///
#[tokio::test]
async fn ten_thousand_tenants_do_not_create_as_many_series() {
    let server = TestServer::start_with(Options { metrics_tenants: 20, ..Options::default() }).await;
    server.queue.define(&Definition::new("count")).await.unwrap();
    let client = server.queue.client().await;
    let many = "insert into windlass.tenants (id, slug, name) select gen_random_uuid(), 't' || n, 't' || n from generate_series(1, 10000) n;
        insert into windlass.lane (tenant_id, definition_id, queue, priority)
          select t.id, d.id, 'default', 100 from windlass.tenants t, windlass.job_definitions d where t.slug like 't%';
        insert into windlass.tally (tenant_id, lane, queued) select n.tenant_id, n.id, 1 from windlass.lane n;
        analyze windlass.lane, windlass.tally";
    client.batch_execute(many).await.unwrap();
    let text = server.admin.get("/metrics").await.text;
    let series = text.lines().filter(|line| line.starts_with("windlass_tenant_jobs{")).count();
    assert_eq!(series, 21 * windlass::job::State::ALL.len());
    let plain = TestServer::start().await.admin.get("/metrics").await.text;
    assert!(!plain.contains("windlass_tenant_jobs"), "no tenant is named unless requested");
}

struct Flaky;

windlass_testing::payload!(FlakyArgs(serde_json::Value) = "flaky");

impl Handler for Flaky {
    type Args = FlakyArgs;

    async fn run(&self, job: &Context, FlakyArgs(payload): FlakyArgs) -> Result<Done, Failure> {
        let is_hopeless = payload["hopeless"] == true;
        if is_hopeless || job.attempt() == 1 {
            return Err(Failure::retry_after(Duration::ZERO, "as requested"));
        }
        Ok(Done::new())
    }

    fn definition(&self) -> Definition {
        Definition::of::<FlakyArgs>().max_attempts(2)
    }
}

#[tokio::test]
async fn enqueues_endings_retries_dead_letters_and_times_are_counted_where_they_happen() {
    // Before anything that counts: a counter belongs to the recorder that is installed when it is created.
    metrics::recorder();
    let server = TestServer::start().await;
    let worker = Worker::builder(&server.queue).handler(Flaky).start().await.unwrap();
    for hopeless in [false, true] {
        server
            .queue
            .enqueue(&NewJob::new("flaky").payload(&serde_json::json!({"hopeless": hopeless})))
            .await
            .unwrap();
    }
    let ended = "windlass_finished_total{definition_key=\"flaky\",status=\"dead_letter\"} 1";
    let mut text = String::new();
    eventually("both have ended", async || {
        text = server.admin.get("/metrics").await.text;
        text.contains(ended)
            && text.contains("windlass_finished_total{definition_key=\"flaky\",status=\"succeeded\"} 1")
    })
    .await;
    worker.stop().await.unwrap();
    for line in [
        "windlass_enqueued_total{definition_key=\"flaky\"} 2",
        "windlass_retries_total{definition_key=\"flaky\"} 2",
        "windlass_attempts_total{definition_key=\"flaky\",outcome=\"failed\"} 3",
        "windlass_queue_seconds_count{definition_key=\"flaky\"} 4",
        "windlass_run_seconds_count{definition_key=\"flaky\"} 4",
        "windlass_queue_seconds_bucket{definition_key=\"flaky\",le=\"0.1\"}",
        "windlass_database_seconds_bucket{call=\"claim\",le=\"0.1\"}",
        "windlass_database_seconds_bucket{call=\"settle\",le=\"0.1\"}",
        "windlass_claim_batch_size_count",
        "windlass_settle_batch_size_count",
    ] {
        assert!(text.contains(line), "{line} in {text}");
    }
}

/// A completion that could not be written is sent again.
#[tokio::test(flavor = "multi_thread")]
async fn an_attempt_of_a_pull_worker_is_timed_once() {
    metrics::recorder();
    let server = TestServer::start().await;
    server.queue.define(&Definition::new("timed-once")).await.unwrap();
    let id = server.queue.enqueue(&NewJob::new("timed-once")).await.unwrap().id;
    let worker = server.client(windlass::DEFAULT_TENANT, Role::Worker).await;
    let claim = serde_json::json!({"definition_keys": ["timed-once"], "lease_seconds": 60});
    let claimed = worker.post("/api/v1/worker/jobs/claim", &claim).await.expect(200);
    let done = serde_json::json!({"fence": claimed["jobs"][0]["fence"]});
    let complete = format!("/api/v1/worker/jobs/{id}/complete");
    let open = server.queue.client().await;
    open.batch_execute("begin; select from windlass.live for update").await.unwrap();
    assert!(!worker.post(&complete, &done).await.status.is_success());
    open.batch_execute("rollback").await.unwrap();
    worker.post(&complete, &done).await.expect(200);
    let text = server.admin.get("/metrics").await.text;
    assert!(text.contains("windlass_run_seconds_count{definition_key=\"timed-once\"} 1\n"), "{text}");
}

/// From every entry point, and even if deleted since: the rate of enqueued jobs misses nothing.
#[tokio::test]
async fn every_enqueued_job_is_counted_at_every_entry_point() {
    metrics::recorder();
    let server = TestServer::start().await;
    server.queue.define(&Definition::new("count")).await.unwrap();
    let came_in = async || {
        let text = server.admin.get("/metrics").await.text;
        let line = "windlass_jobs_enqueued_total{definition_key=\"count\"} ";
        let value = text.lines().find_map(|value| value.strip_prefix(line)).map(str::to_owned);
        (value.map_or(0, |value| value.parse::<u64>().unwrap()), text)
    };
    server.queue.enqueue(&NewJob::new("count")).await.unwrap();
    server.queue.enqueue_many(&vec![NewJob::new("count"); 10]).await.unwrap();
    let one = serde_json::json!({"definition_key": "count"});
    server.admin.post("/api/v1/jobs", &one).await.expect(201);
    let keyed = serde_json::json!({"definition_key": "count", "dedupe_key": "k"});
    let bulk = serde_json::json!({"jobs": [one, keyed, keyed, {"definition_key": "unknown"}]});
    server.admin.post("/api/v1/jobs/bulk", &bulk).await.expect(200);
    let (all, text) = came_in().await;
    assert_eq!(all, 14, "duplicates and rejected jobs are not counted");
    assert!(
        text.contains("windlass_enqueued_total{definition_key=\"count\"} 14"),
        "this process did all of it"
    );
    let database = server.queue.client().await;
    database.batch_execute("select windlass.enqueue('count'), windlass.enqueue('count')").await.unwrap();
    let trigger = serde_json::json!({"label": "t", "trigger_type": "schedule", "cron_expr": "0 2 * * *", "timezone": "UTC",
        "definition_key": "count"});
    let trigger = server.admin.post("/api/v1/jobs/triggers", &trigger).await.expect(201);
    let run = format!("/api/v1/jobs/triggers/{}/run", trigger["id"].as_str().unwrap());
    server.admin.post(&run, &serde_json::json!({})).await.expect(201);
    assert_eq!(came_in().await.0, 17, "by SQL and by a trigger too");
    let all = serde_json::json!({"filter": {}});
    assert_eq!(server.admin.post("/api/v1/jobs/cancel", &all).await.expect(200)["changed"], 17);
    assert_eq!(server.admin.post("/api/v1/jobs/delete", &all).await.expect(200)["changed"], 17);
    Keeper::new(server.queue.queue().clone(), KeeperSettings::default()).run_once(Duty::Fold).await.unwrap();
    assert_eq!(came_in().await.0, 17, "deleted jobs were counted too");
}

/// Jobs of pull workers, and those whose worker vanished, end like all others.
#[tokio::test(flavor = "multi_thread")]
async fn endings_of_pull_workers_and_of_the_reaper_are_counted() {
    metrics::recorder();
    let server = TestServer::start().await;
    let strict = Definition::new("pulled").max_lost(1).max_attempts(1);
    server.queue.define(&strict).await.unwrap();
    let worker = server.client(windlass::DEFAULT_TENANT, Role::Worker).await;
    for verb in ["complete", "fail", "nothing"] {
        server.queue.enqueue(&NewJob::new("pulled")).await.unwrap();
        let claim = serde_json::json!({"definition_keys": ["pulled"], "wait_seconds": 30});
        let jobs = worker.post("/api/v1/worker/jobs/claim", &claim).await.expect(200);
        let job = &jobs["jobs"][0];
        let path = format!("/api/v1/worker/jobs/{}/{verb}", job["id"].as_str().unwrap());
        match verb {
            "complete" => {
                worker.post(&path, &serde_json::json!({"fence": job["fence"]})).await.expect(200);
            }
            "fail" => {
                let failed = serde_json::json!({"fence": job["fence"], "error": "e"});
                worker.post(&path, &failed).await.expect(200);
            }
            _ => {}
        }
    }
    let silent = "update windlass.pull_lease set expires_at = now() - interval '1 minute'";
    server.queue.client().await.batch_execute(silent).await.unwrap();
    Keeper::new(server.queue.queue().clone(), KeeperSettings::default()).run_once(Duty::Reap).await.unwrap();
    let text = server.admin.get("/metrics").await.text;
    for line in [
        "windlass_finished_total{definition_key=\"pulled\",status=\"succeeded\"} 1",
        "windlass_finished_total{definition_key=\"pulled\",status=\"dead_letter\"} 2",
        "windlass_attempts_total{definition_key=\"pulled\",outcome=\"lost\"} 1",
        "windlass_reaped_total 1",
    ] {
        assert!(text.contains(line), "{line} in {text}");
    }
}

/// A request from this machine may have been forwarded by a proxy, with any header that its sender wrote.
#[tokio::test]
async fn only_permitted_credentials_read_metrics() {
    let server = TestServer::start().await;
    server.anonymous().get("/metrics").await.problem(401, "unauthorized");
    server.anonymous().with("host", "localhost").get("/metrics").await.problem(401, "unauthorized");
    let viewer = server.client(server.queue.tenant("acme").await, Role::Viewer).await;
    viewer.get("/metrics").await.problem(403, "forbidden");
    server.admin.get("/metrics").await.expect_text(200);

    let off = TestServer::start_with(Options { metrics: false, ..Options::default() }).await;
    off.admin.get("/metrics").await.problem(404, "not-found");
}

#[tokio::test]
async fn promtool_accepts_the_metrics() {
    let server = TestServer::start_with(Options { metrics_tenants: 5, ..Options::default() }).await;
    server.queue.define(&Definition::new("count")).await.unwrap();
    server.queue.enqueue(&NewJob::new("count")).await.unwrap();
    let text = server.admin.get("/metrics").await.text;
    let mut promtool = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("promtool is in Debian's package prometheus; ./dev test installs it");
    promtool.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = promtool.wait_with_output().unwrap();
    let printed = String::from_utf8_lossy(&output.stdout).into_owned()
        + String::from_utf8_lossy(&output.stderr).as_ref();
    assert!(output.status.success() && printed.trim().is_empty(), "{printed}");
}

#[test]
fn promtool_accepts_the_alert_rules() {
    let output = Command::new("promtool").args(["check", "rules"]).arg(deploy("alerts.yml")).output();
    let output = output.expect("promtool is in Debian's package prometheus; ./dev test installs it");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn the_dashboard_and_the_alerts_query_existing_metrics() {
    let known: BTreeSet<&str> =
        windlass::internals::METRICS.iter().chain(metrics::METRICS).map(|(name, _)| *name).collect();
    for file in ["alerts.yml", "grafana-dashboard.json"] {
        let text = std::fs::read_to_string(deploy(file)).unwrap();
        let asked = names(&text);
        assert!(asked.len() >= 5, "{file} queries {asked:?}");
        for name in asked {
            let base =
                ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end)).unwrap_or(&name);
            assert!(
                known.contains(base) || known.contains(name.as_str()),
                "{file} queries {name}, which does not exist"
            );
        }
    }
    let dashboard = std::fs::read_to_string(deploy("grafana-dashboard.json")).unwrap();
    let dashboard: serde_json::Value = serde_json::from_str(&dashboard).unwrap();
    assert!(dashboard["panels"].as_array().unwrap().len() >= 8);
}

#[test]
fn the_documented_series_of_the_server_are_its_series() {
    let text = std::fs::read_to_string(root().join("docs/telemetry.md")).unwrap();
    let (_, below) = text.split_once("<!-- checked: server-metrics -->").unwrap();
    for (name, meaning) in metrics::METRICS {
        let kind = if name.ends_with("_total") { "counter" } else { "gauge" };
        assert!(below.contains(&format!("| `{name}` | {kind} | {meaning} |")), "{name}");
    }
}

/// Words that start with our prefix.
fn names(text: &str) -> BTreeSet<String> {
    let words = text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
    words.filter(|word| word.starts_with("windlass_")).map(str::to_owned).collect()
}

fn deploy(file: &str) -> PathBuf {
    root().join("deploy").join(file)
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}
