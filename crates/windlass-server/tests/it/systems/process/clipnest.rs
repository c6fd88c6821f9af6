//! Document 002: a row of the application goes through two HTTP functions.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::Path as Parameter;
use axum::http::StatusCode;
use axum::response::Html;
use axum::routing::get;
use serde_json::json;
use tokio_postgres::Client;
use uuid::Uuid;
use windlass::job::{Filter, State};
use windlass::worker::HttpEndpoint;
use windlass::{DEFAULT_TENANT, Worker};
use windlass_testing::eventually;

use super::{Stage, answers, free_port, program, root};

const SECRET: &str = "a secret of some length for the clips";

/// The site of the videos: one with captions, one without, and one that always fails.
async fn video_site() -> String {
    let captions = "WEBVTT\n\n00:00.000 --> 00:02.000\nKnots hold ropes. A bowline knot holds a rope that must not slip.\n\n00:02.000 --> 00:04.000\nThanks for watching.\n";
    let page = |Parameter(video): Parameter<String>| async move {
        match video.as_str() {
            "knots" => Ok(Html(r#"<title>Five knots</title><video><track src="/captions.vtt"></video>"#)),
            "silent" => Ok(Html("<title>Only music</title>")),
            _ => Err(StatusCode::INTERNAL_SERVER_ERROR),
        }
    };
    let site = Router::new()
        .route("/videos/{video}", get(page))
        .route("/captions.vtt", get(move || async move { captions }));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, site).await });
    base
}

fn psql() -> PathBuf {
    let installed = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let found = installed.map(|version| version.path().join("bin/psql")).find(|path| path.exists());
    found.unwrap_or_else(|| PathBuf::from("psql"))
}

/// Records every status that a row has had.
const REMEMBER: &str = "create table status_log (at bigint generated always as identity, video_id uuid, status text);
    create function remember_status() returns trigger language plpgsql as $$
    begin
      insert into status_log (video_id, status) values (new.id, new.processing_status);
      return null;
    end
    $$;
    create trigger remember_first after insert on clipnest_videos for each row execute function remember_status();
    create trigger remember_next after update on clipnest_videos for each row
      when (old.processing_status is distinct from new.processing_status) execute function remember_status()";

async fn statuses(client: &Client, id: Uuid) -> Vec<String> {
    let text = "select status from status_log where video_id = $1 order by at";
    client.query(text, &[&id]).await.unwrap().iter().map(|row| row.get(0)).collect()
}

async fn insert(client: &Client, url: &str) -> Uuid {
    let text = "insert into clipnest_videos (video_url) values ($1) returning id";
    client.query_one(text, &[&url]).await.unwrap().get(0)
}

async fn row(client: &Client, id: Uuid) -> serde_json::Value {
    let text = "select to_jsonb(v) from clipnest_videos v where id = $1";
    client.query_one(text, &[&id]).await.unwrap().get(0)
}

#[tokio::test(flavor = "multi_thread")]
async fn clipnest_scrapes_and_enriches_inserted_rows() {
    let stage = Stage::start("clipnest").await;
    let client = Arc::new(stage.server.queue.client().await);
    client.batch_execute(&fs::read_to_string(root().join("clipnest/schema.sql")).unwrap()).await.unwrap();
    client.batch_execute(REMEMBER).await.unwrap();
    let port = free_port();
    let _functions = program("python3")
        .arg(root().join("clipnest/functions.py"))
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("PORT", port.to_string())
        .env("CLIPNEST_SECRET", SECRET)
        .env("DATABASE_URL", stage.server.queue.url())
        .env("PSQL", psql())
        .spawn()
        .unwrap();
    answers(port).await;

    // The worker's own file, with the port of this test and the secret as in the environment.
    #[derive(serde::Deserialize)]
    struct File {
        http: BTreeMap<String, HttpEndpoint>,
    }
    let text = fs::read_to_string(root().join("clipnest/worker.toml")).unwrap();
    let file: File = toml::from_str(&text.replace("8300", &port.to_string())).unwrap();
    assert_eq!((file.http["clipnest.scrape"].timeout, file.http["clipnest.enrich"].timeout), (120.0, 300.0));
    // It polls once an hour: every run below was started by a notification.
    let hour = Duration::from_secs(3600);
    let mut building = Worker::builder(stage.server.queue.queue()).concurrency(4).poll_interval(hour);
    for (key, mut endpoint) in file.http {
        endpoint.secret = Some(SECRET.into());
        building = building.http(&key, &endpoint).unwrap();
    }
    let worker = building.start().await.unwrap();

    // A row that is rolled back leaves no job.
    client
        .batch_execute("begin; insert into clipnest_videos (video_url) values ('x'); rollback")
        .await
        .unwrap();
    let site = video_site().await;
    let knots = insert(&client, &format!("{site}/videos/knots")).await;
    let silent = insert(&client, &format!("{site}/videos/silent")).await;
    let poison = insert(&client, &format!("{site}/videos/poison")).await;
    assert_eq!(row(&client, knots).await["id"], json!(knots));

    eventually("the video is done", async || row(&client, knots).await["processing_status"] == "done").await;
    let done = row(&client, knots).await;
    assert_eq!(
        (&done["title"], &done["summary"]),
        (&json!("Five knots"), &json!("A bowline knot holds a rope that must not slip."))
    );
    assert_eq!(done["embedding"].as_array().unwrap().len(), 16);
    assert_eq!(statuses(&client, knots).await, ["pending", "scraping", "enriching", "done"]);
    let jobs_of = async |video: Uuid| {
        let filter = Filter::new(DEFAULT_TENANT).subject("video", video.to_string()).limit(10);
        let mut jobs = stage.server.queue.list(&filter).await.unwrap().jobs;
        jobs.sort_by_key(|job| job.queued_at);
        jobs
    };
    let jobs = jobs_of(knots).await;
    let keys: Vec<_> = jobs.iter().map(|job| job.definition_key.as_str()).collect();
    assert_eq!(keys, ["clipnest.scrape", "clipnest.enrich"]);
    assert_eq!(jobs[1].parent_id, Some(jobs[0].id), "the second was enqueued with the first's completion");

    eventually("the one without captions is done too", async || {
        row(&client, silent).await["processing_status"] == "done"
    })
    .await;
    let partial = row(&client, silent).await;
    assert_eq!((&partial["title"], &partial["summary"]), (&json!("Only music"), &json!(null)));
    assert_eq!(statuses(&client, silent).await, ["pending", "scraping", "done"]);
    assert_eq!(jobs_of(silent).await.len(), 1, "without a transcript there is nothing to enrich");

    // The backoff of the definition is half a minute; the test does not wait for it.
    let broken = jobs_of(poison).await[0].id;
    eventually("the failing one is abandoned", async || {
        let soon = "update windlass.deferred set due_at = clock_timestamp() where job_id = $1";
        client.execute(soon, &[&broken]).await.unwrap();
        stage.job(broken).await.status == State::DeadLetter
    })
    .await;
    let failed = row(&client, poison).await;
    assert_eq!(failed["processing_status"], json!("failed"));
    assert!(failed["processing_error"].as_str().unwrap().contains("500"), "{failed}");
    let attempts = stage.server.queue.attempts(DEFAULT_TENANT, broken).await.unwrap();
    assert_eq!(attempts.iter().map(|attempt| attempt.status.as_str()).collect::<Vec<_>>(), ["failed"; 3]);
    assert_eq!(statuses(&client, poison).await, ["pending", "scraping", "failed"]);

    // The archive as the audit log: the result of each of the two stages, in order, after all of it has ended.
    let log = "select j.definition_key, j.status, a.attempt_no, a.status from windlass.jobs j join windlass.job_attempts a on a.job_id = j.id
        where j.subject_id = $1::uuid::text order by a.started_at";
    let rows = client.query(log, &[&knots]).await.unwrap();
    let history: Vec<(&str, &str, i32, &str)> =
        rows.iter().map(|row| (row.get(0), row.get(1), row.get(2), row.get(3))).collect();
    assert_eq!(
        history,
        [("clipnest.scrape", "succeeded", 1, "succeeded"), ("clipnest.enrich", "succeeded", 1, "succeeded")]
    );

    // A function that died before it could mark its row.
    client.batch_execute("update clipnest_videos set processing_status = 'scraping', processing_error = null where processing_status = 'failed'").await.unwrap();
    let swept: i32 = client.query_one("select clipnest_reconcile()", &[]).await.unwrap().get(0);
    assert_eq!((swept, &row(&client, poison).await["processing_status"]), (1, &json!("failed")));
    worker.stop().await.unwrap();
    stage.end().await;
}
