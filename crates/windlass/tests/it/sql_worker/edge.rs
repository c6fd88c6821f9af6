//! The systems of documents 000 and 002 with the database and their functions alone: no process of ours runs. The functions are those
//! of the examples, and `windlass.tick` is called as a scheduler of the database would.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::{Value, json};
use tokio_postgres::Client;
use uuid::Uuid;
use windlass_testing::{Login, TestQueue};

use crate::support::{attempts, count};

fn example(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(file)
}

fn sql(file: &str) -> String {
    std::fs::read_to_string(example(file)).unwrap()
}

/// One call of an edge function.
fn wake(folder: &str, url: &str, arguments: &[&str]) -> Output {
    let mut command = Command::new("python3");
    command.arg("edge.py").args(arguments).current_dir(example(folder));
    command.env("DATABASE_URL", url).env("PYTHONDONTWRITEBYTECODE", "1").output().unwrap()
}

fn succeeded(output: &Output) {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// What the scheduler of the database does; every wait is over.
async fn later(scheduler: &Client, admin: &Client) {
    let pass = "update windlass.deferred set due_at = now();
        update windlass.pull_lease set expires_at = now() - interval '1 s'";
    admin.batch_execute(pass).await.unwrap();
    scheduler.query("select windlass.tick()", &[]).await.unwrap();
    admin.batch_execute("update windlass.deferred set due_at = now()").await.unwrap();
    scheduler.query("select windlass.tick()", &[]).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn clips_are_scraped_and_enriched_by_functions_that_only_speak_sql() {
    let queue = TestQueue::create().await;
    let admin = queue.client().await;
    // The schema of a login with this name would come first.
    admin.batch_execute("set search_path = public").await.unwrap();
    admin.batch_execute(&sql("clipnest/schema.sql")).await.unwrap();
    let definitions: Vec<Value> = serde_json::from_str(&sql("clipnest/definitions.json")).unwrap();
    for definition in definitions {
        admin.query("select windlass.define($1)", &[&definition]).await.unwrap();
    }
    let (edge, scheduler) =
        (Login::create(&queue, "windlass_puller").await, Login::create(&queue, "windlass_keeper").await);
    admin.batch_execute(&format!("grant select, update on clipnest_videos to {}", edge.name)).await.unwrap();
    let ticks = scheduler.client().await;

    let site = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("clips-{}", Uuid::new_v4()));
    std::fs::create_dir(&site).unwrap();
    let page = |name: &str, text: &str| std::fs::write(site.join(name), text).unwrap();
    page("knots.html", r#"<title>Five knots</title><video><track src="captions.vtt"></video>"#);
    page(
        "captions.vtt",
        "WEBVTT\n\n00:00.000 --> 00:02.000\nKnots hold ropes. A bowline holds a rope that must not slip.\n",
    );
    page("silent.html", "<title>Only music</title>");
    let insert = "insert into clipnest_videos (video_url) values ($1) returning id";
    let mut videos = Vec::new();
    for name in ["knots.html", "silent.html", "missing.html"] {
        let url = format!("file://{}", site.join(name).display());
        videos.push(admin.query_one(insert, &[&url]).await.unwrap().get::<_, Uuid>(0));
    }

    // The first call dies with a job in its hands.
    assert!(!wake("clipnest", edge.url(), &["--crash"]).status.success());
    assert_eq!(count(&admin, "select count(*) from windlass.pull_lease").await, 1);
    for _ in 0..3 {
        succeeded(&wake("clipnest", edge.url(), &[]));
        later(&ticks, &admin).await;
    }
    let statuses = "select processing_status, title, summary from clipnest_videos where id = $1";
    let mut found = Vec::new();
    for video in &videos {
        let row = admin.query_one(statuses, &[video]).await.unwrap();
        found.push((
            row.get::<_, String>(0),
            row.get::<_, Option<String>>(1),
            row.get::<_, Option<String>>(2).is_some(),
        ));
    }
    let titled = |title: &str| Some(title.to_owned());
    let expected = [
        ("done".to_owned(), titled("Five knots"), true),
        ("done".to_owned(), titled("Only music"), false),
        ("failed".to_owned(), None, false),
    ];
    assert_eq!(found, expected);
    let crashed = "select job_id from windlass.job_attempts where status = 'lost'";
    let crashed: Uuid = admin.query_one(crashed, &[]).await.unwrap().get(0);
    assert_eq!(attempts(&admin, crashed).await, ["lost", "succeeded"]);
    let ended = "select jsonb_object_agg(status, n) from (select status, count(*) as n from windlass.jobs group by 1) s";
    let ended: Value = admin.query_one(ended, &[]).await.unwrap().get(0);
    assert_eq!(ended, json!({"succeeded": 3, "dead_letter": 1}));
    drop(ticks);
    std::fs::remove_dir_all(&site).unwrap();
    admin.batch_execute(&format!("revoke all on clipnest_videos from {}", edge.name)).await.unwrap();
    edge.drop().await;
    scheduler.drop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn posts_of_two_workspaces_are_tagged_by_a_function_that_only_speaks_sql() {
    let queue = TestQueue::create().await;
    let admin = queue.client().await;
    admin.batch_execute(&sql("ai-tagging/schema.sql")).await.unwrap();
    admin.batch_execute(&sql("ai-tagging/demo.sql")).await.unwrap();
    admin.batch_execute("reset role").await.unwrap();
    let edge = Login::create(&queue, "windlass_puller, service_role").await;
    let waiting = count(&admin, "select count(*) from windlass.jobs where status = 'queued'").await;
    assert_eq!(waiting, 14);
    succeeded(&wake("ai-tagging", edge.url(), &[]));
    let ended = "select jsonb_object_agg(status, n) from (select status, count(*) as n from windlass.jobs group by 1) s";
    let ended: Value = admin.query_one(ended, &[]).await.unwrap().get(0);
    assert_eq!(ended, json!({"succeeded": 12, "failed": 2}), "an empty post cannot be tagged");
    let tagged = "select count(*) from workspace_threads_posts where 'food' = any (ai_tags)";
    assert_eq!(count(&admin, tagged).await, 6);
    edge.drop().await;
}
