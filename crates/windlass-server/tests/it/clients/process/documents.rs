//! The programs in the documents run unchanged.

use std::fs;
use std::path::Path;
use std::process::Stdio;

use serde_json::{Value, json};
use tokio::process::{Child, Command};
use uuid::Uuid;
use windlass::job::State;
use windlass::worker::HttpEndpoint;
use windlass::{DEFAULT_TENANT, Definition, NewJob, Worker};
use windlass_server::auth::Role;
use windlass_testing::eventually;

use super::Stage;

const HTTP: &str = include_str!("../../../../../../docs/http-jobs.md");

/// The blocks of a page. A test below uses each of these, and no other.
fn page(name: &str, languages: &[&str]) -> Vec<String> {
    let blocks = crate::documents::blocks(name);
    assert_eq!(blocks.iter().map(|block| block.language.as_str()).collect::<Vec<_>>(), languages, "{name}");
    blocks.into_iter().map(|block| block.text).collect()
}

/// The blocks on HTTP jobs: the settings, a request, a response, an endpoint.
fn http_page() -> [String; 4] {
    page("docs/http-jobs.md", &["toml", "json", "json", "python"]).try_into().unwrap()
}

fn clients() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../clients").canonicalize().unwrap()
}

fn spawn(program: &str, file: &Path, variables: &[(&str, &str)]) -> Child {
    Command::new(program)
        .arg(file)
        .env("PYTHONPATH", clients().join("python"))
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .envs(variables.iter().copied())
        .stdout(Stdio::inherit())
        .kill_on_drop(true)
        .spawn()
        .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_documented_workers_run() {
    let stage = Stage::start().await;
    stage.server.queue.define(&Definition::new("resize")).await.unwrap();
    let folder = std::env::temp_dir().join(format!("windlass-docs-{}", Uuid::new_v4()));
    fs::create_dir_all(folder.join("node_modules")).unwrap();
    std::os::unix::fs::symlink(clients().join("typescript"), folder.join("node_modules/windlass-client"))
        .unwrap();
    let token = stage.server.client(DEFAULT_TENANT, Role::Worker).await.token.unwrap();
    let blocks = page("docs/pull-workers.md", &["python", "js"]);
    for ((program, name), text) in [("python3", "worker.py"), ("node", "worker.mjs")].into_iter().zip(blocks)
    {
        let file = folder.join(name);
        fs::write(&file, text).unwrap();
        let worker =
            spawn(program, &file, &[("WINDLASS_SERVER", &stage.server.base), ("WINDLASS_TOKEN", &token)]);
        let new = NewJob::new("resize").payload(&json!({"image": 7}));
        let id = stage.server.queue.enqueue(&new).await.unwrap().id;
        assert_eq!(stage.until(id, State::Succeeded).await.result, Some(json!({"width": 640})), "{name}");
        drop(worker);
    }
    fs::remove_dir_all(folder).unwrap();
    stage.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_documented_endpoint_and_settings_work() {
    #[derive(serde::Deserialize)]
    struct File {
        http: std::collections::BTreeMap<String, HttpEndpoint>,
    }
    let secret = "a secret that is long enough";
    let stage = Stage::start().await;
    stage.server.queue.define(&Definition::new("ai-tagging")).await.unwrap();
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let file = std::env::temp_dir().join(format!("windlass-endpoint-{}.py", Uuid::new_v4()));
    let [settings, _, _, endpoint] = http_page();
    fs::write(&file, endpoint).unwrap();
    let _endpoint = spawn("python3", &file, &[("PORT", &port.to_string()), ("AI_TAGGING_SECRET", secret)]);
    eventually("it listens", async || tokio::net::TcpStream::connect(("127.0.0.1", port)).await.is_ok())
        .await;

    let mut settings: File = toml::from_str(&settings).unwrap();
    assert_eq!(settings.http["transcribe"].lease, 600.0);
    let mut tagging = settings.http.remove("ai-tagging").unwrap();
    assert_eq!(tagging.batch, 10);
    // The address of the test's own endpoint, and the variables that the worker would get from its environment.
    tagging.url = format!("http://127.0.0.1:{port}/");
    tagging.allow = vec![format!("127.0.0.1:{port}")];
    tagging.secret = Some(secret.into());
    tagging.headers.clear();
    let worker = Worker::builder(stage.server.queue.queue())
        .http("ai-tagging", &tagging)
        .unwrap()
        .start()
        .await
        .unwrap();
    let new = NewJob::new("ai-tagging").payload(&json!({"text": "sport and news of today"}));
    let id = stage.server.queue.enqueue(&new).await.unwrap().id;
    assert_eq!(stage.until(id, State::Succeeded).await.result, Some(json!({"tags": ["news", "sport"]})));
    worker.stop().await.unwrap();
    fs::remove_file(file).unwrap();
    stage.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_documented_requests_are_sent_and_the_responses_understood() {
    let [_, sent, response, _] = http_page();
    let (sent, response): (Value, Value) =
        (serde_json::from_str(&sent).unwrap(), serde_json::from_str(&response).unwrap());
    let stage = Stage::start().await;
    for key in ["ai-tagging", "enrich"] {
        stage.server.queue.define(&Definition::new(key)).await.unwrap();
    }
    let (tell, mut received) = tokio::sync::mpsc::unbounded_channel::<Value>();
    let endpoint = axum::routing::post(move |axum::Json(body): axum::Json<Value>| async move {
        tell.send(body).unwrap();
        axum::Json(response)
    });
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, axum::Router::new().route("/", endpoint)).await });
    let mut settings = HttpEndpoint::new(format!("http://{address}/"));
    settings.allow = vec![address.to_string()];
    let worker = Worker::builder(stage.server.queue.queue())
        .http("ai-tagging", &settings)
        .unwrap()
        .start()
        .await
        .unwrap();
    let new = NewJob::new("ai-tagging").payload(&sent["payload"]);
    let id = stage.server.queue.enqueue(&new).await.unwrap().id;

    let body = received.recv().await.unwrap();
    let fields = |value: &Value| -> Vec<String> { value.as_object().unwrap().keys().cloned().collect() };
    assert_eq!(fields(&body), fields(&sent));
    for field in ["definition_key", "attempt", "max_attempts", "failures", "payload"] {
        assert_eq!(body[field], sent[field], "{field}");
    }
    let job = stage.until(id, State::Succeeded).await;
    assert_eq!((job.result, job.artifact), (Some(json!({"tags": ["news"]})), Some(json!("s3://bucket/7"))));
    let filter = windlass::job::Filter::new(DEFAULT_TENANT).limit(10);
    let jobs = stage.server.queue.list(&filter).await.unwrap().jobs;
    let next = jobs.iter().find(|job| job.definition_key == "enrich").unwrap();
    assert_eq!((&next.payload, next.parent_id), (&json!({"post_id": 7}), Some(id)));
    worker.stop().await.unwrap();
    stage.end().await;
}

/// Every setting is documented, and nothing else.
#[test]
fn the_documented_http_settings_are_the_settings() {
    let refused = toml::from_str::<HttpEndpoint>("no_such_setting = 1").unwrap_err().to_string();
    let (_, known) = refused.split_once("expected one of ").unwrap();
    let known: Vec<&str> = known.split('`').skip(1).step_by(2).collect();
    let (_, table) = HTTP.split_once("| setting | default | meaning |\n|---|---|---|\n").unwrap();
    let rows = table.lines().take_while(|line| line.starts_with('|'));
    let documented: Vec<&str> = rows.filter_map(|row| row.split('`').nth(1)).collect();
    assert_eq!(documented, known);
}
