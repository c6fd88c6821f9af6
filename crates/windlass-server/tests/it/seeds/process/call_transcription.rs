//! Seed 003: a TypeScript worker whose loop and stages stay as they were.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::process::Child;
use windlass::{DEFAULT_TENANT, Filter, State};
use windlass_server::auth::Role;
use windlass_testing::eventually;

use super::{Stage, answers, free_port, program, root, succeed};

/// Compiles the example as its README says, but into a folder of its own, and checks its types on the way.
async fn build(files: &Path) -> PathBuf {
    let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/typescript");
    fs::create_dir_all(&target).unwrap();
    let modules = target.canonicalize().unwrap().join("node_modules");
    if !modules.join("@types/node").exists() || !modules.join("typescript").exists() {
        let mut install = program("npm");
        install.args(["install", "--silent", "--no-save", "--no-audit", "--no-fund", "--prefix"]);
        install.arg(&target).args(["typescript@5.9.3", "@types/node@20"]);
        succeed(install.spawn().unwrap(), "npm install").await;
    }
    let project = files.join("project");
    fs::create_dir_all(project.join("node_modules")).unwrap();
    for entry in fs::read_dir(root().join("call-transcription")).unwrap() {
        let entry = entry.unwrap();
        if entry.path().extension().is_some_and(|suffix| suffix == "ts" || suffix == "json") {
            fs::copy(entry.path(), project.join(entry.file_name())).unwrap();
        }
    }
    let client = root().join("../clients/typescript").canonicalize().unwrap();
    for (to, name) in [
        (client, "windlass-client"),
        (modules.join("@types"), "@types"),
        (modules.join("undici-types"), "undici-types"),
    ] {
        std::os::unix::fs::symlink(to, project.join("node_modules").join(name)).unwrap();
    }
    let mut compile = program("node");
    compile.arg(modules.join("typescript/bin/tsc")).arg("-p").arg(&project);
    succeed(compile.spawn().unwrap(), "tsc").await;
    project.join("dist")
}

#[tokio::test(flavor = "multi_thread")]
async fn call_transcription_runs_with_the_loop_and_the_stages_of_its_document() {
    let stage = Stage::start("call-transcription").await;
    let dist = build(&stage.files).await;
    let storage = stage.files.join("storage");
    let port = free_port();
    let _speech =
        program("node").arg(dist.join("speech-main.js")).env("PORT", port.to_string()).spawn().unwrap();
    answers(port).await;
    let token = stage.server.client(DEFAULT_TENANT, Role::Worker).await.token.unwrap();
    let worker = |crash_after: &str| -> Child {
        let mut node = program("node");
        node.arg(dist.join("main.js"))
            .env("WINDLASS_URL", &stage.server.base)
            .env("WINDLASS_TOKEN", &token)
            .env("STORAGE", &storage)
            .env("SPEECH_URL", format!("http://127.0.0.1:{port}"))
            .env("POLL_SECONDS", "0.1")
            .env("LEASE_SECONDS", "2");
        if !crash_after.is_empty() {
            node.env("CRASH_AFTER", crash_after);
        }
        node.spawn().unwrap()
    };
    let call = storage.join("acme/call-1");
    fs::create_dir_all(&call).unwrap();
    fs::write(call.join("upload.json"), r#"{"words": ["hello", "order", "please", "thanks", "goodbye"]}"#)
        .unwrap();
    let operator = stage.server.client(DEFAULT_TENANT, Role::Operator).await;
    let new = json!({"definition_key": "call.extract_audio", "payload": {"org_id": "acme", "call_id": "call-1"},
                     "subject_type": "call", "subject_id": "call-1"});
    operator.post("/api/v1/jobs", &new).await.expect(201);

    // The first worker dies between a stage's work and its completion: neither is the stage lost nor its work done twice.
    let mut dying = worker("transcribe_start");
    let status = tokio::time::timeout(Duration::from_secs(60), dying.wait()).await.expect("it dies").unwrap();
    assert_eq!(status.code(), Some(9));
    let mut living = worker("");
    let analysis = call.join("analysis.json");
    eventually("the call is analysed", async || analysis.exists()).await;
    let analysis: Value = serde_json::from_str(&fs::read_to_string(analysis).unwrap()).unwrap();
    assert_eq!(analysis, json!({"words": 5, "mood": "content"}), "what was said is what was heard");
    assert!(!call.join("upload.json").exists(), "what is not needed any more is gone");

    let ended = async || {
        let filter = Filter::new(DEFAULT_TENANT).subject("call", "call-1").limit(10);
        let mut jobs = stage.server.queue.list(&filter).await.unwrap().jobs;
        jobs.sort_by_key(|job| job.queued_at);
        jobs
    };
    eventually("all four stages have succeeded", async || {
        let jobs = ended().await;
        jobs.len() == 4 && jobs.iter().all(|job| job.status == State::Succeeded)
    })
    .await;
    let jobs = ended().await;
    let keys: Vec<&str> = jobs.iter().map(|job| job.definition_key.as_str()).collect();
    assert_eq!(keys, ["call.extract_audio", "call.transcribe_start", "call.transcribe_poll", "call.analyze"]);
    assert!(
        jobs.windows(2).all(|pair| pair[1].parent_id == Some(pair[0].id)),
        "each came with the one before"
    );
    let outcomes = async |n: usize| -> Vec<String> {
        let attempts = stage.server.queue.attempts(DEFAULT_TENANT, jobs[n].id).await.unwrap();
        attempts.into_iter().map(|attempt| attempt.status).collect()
    };
    assert_eq!(outcomes(1).await, ["lost", "succeeded"]);
    assert_eq!(outcomes(2).await, ["snoozed", "snoozed", "succeeded"]);
    let pid = rustix::process::Pid::from_raw(i32::try_from(living.id().unwrap()).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    let status =
        tokio::time::timeout(Duration::from_secs(30), living.wait()).await.expect("it stops").unwrap();
    assert!(status.success(), "{status}");

    // The interface is the seam: the same loop and stages on the queue in memory.
    let memory = program("node")
        .arg(dist.join("memory-main.js"))
        .env("STORAGE", &storage)
        .env("SPEECH_URL", format!("http://127.0.0.1:{port}"))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let output = tokio::time::timeout(Duration::from_secs(60), memory.wait_with_output())
        .await
        .expect("it ends")
        .unwrap();
    let said: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(said["stages"], json!(["extract_audio", "transcribe_start", "transcribe_poll", "analyze"]));
    assert_eq!(said["analysis"], json!({"words": 3, "mood": "upset"}));
    stage.end().await;
}
