//! Document 003: a TypeScript worker whose loop and stages are unchanged. Its programs run as they are shipped.

mod bounds;
mod source;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, SystemTime};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio::process::Child;
use uuid::Uuid;
use windlass::DEFAULT_TENANT;
use windlass::job::{Filter, Job, State};
use windlass_server::auth::Role;
use windlass_testing::eventually;

use super::{Stage, answers, free_port, program, root};

/// The pipeline: its programs in a folder of this test, the speech service, and workers as needed.
struct Pipeline {
    stage: Stage,
    dist: PathBuf,
    storage: PathBuf,
    speech_url: String,
    token: String,
    _speech: Child,
}

impl Pipeline {
    async fn start() -> Self {
        let stage = Stage::start("call-transcription").await;
        let folder = root().join("call-transcription");
        let schema = fs::read_to_string(folder.join("schema.sql")).unwrap();
        stage.server.queue.client().await.batch_execute(&schema).await.unwrap();
        // As `windlass up --example` lays it out: the compiled files, and the client as a package.
        let (dist, modules) = (stage.files.join("dist"), stage.files.join("node_modules"));
        source::copy(&source::compiled().await, &dist);
        fs::create_dir_all(&modules).unwrap();
        fs::copy(folder.join("package.json"), stage.files.join("package.json")).unwrap();
        let client = root().join("../clients/typescript").canonicalize().unwrap();
        std::os::unix::fs::symlink(client, modules.join("windlass-client")).unwrap();
        let port = free_port();
        let speech =
            program("node").arg(dist.join("speech-main.js")).env("PORT", port.to_string()).spawn().unwrap();
        answers(port).await;
        let token = stage.server.client(DEFAULT_TENANT, Role::Worker).await.token.unwrap();
        let storage = stage.files.join("storage");
        let speech_url = format!("http://127.0.0.1:{port}");
        Self { stage, dist, storage, speech_url, token, _speech: speech }
    }

    fn worker(&self, environment: &[(&str, &str)]) -> Child {
        program("node")
            .arg(self.dist.join("main.js"))
            .env("WINDLASS_SERVER", &self.stage.server.base)
            .env("WINDLASS_TOKEN", &self.token)
            .env("DATABASE_URL", self.stage.server.queue.url())
            .env("STORAGE", &self.storage)
            .env("SPEECH_URL", &self.speech_url)
            .env("POLL_SECONDS", "0.1")
            .env("LEASE_SECONDS", "2")
            .envs(environment.iter().copied())
            .spawn()
            .unwrap()
    }

    /// The folder of a call whose upload contains these words.
    fn upload(&self, call: &str, words: &[&str]) -> PathBuf {
        let folder = self.storage.join("acme").join(call);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("upload.json"), json!({"words": words}).to_string()).unwrap();
        folder
    }

    /// Its first stage, as an application enqueues it.
    async fn begin(&self, call: &str, more: Value) -> Uuid {
        let mut new = json!({"definition_key": "call.extract_audio", "payload": {"org_id": "acme", "call_id": call},
                             "subject_type": "call", "subject_id": call});
        new.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let operator = self.stage.server.client(DEFAULT_TENANT, Role::Operator).await;
        let made = operator.post("/api/v1/jobs", &new).await.expect(201);
        made["id"].as_str().unwrap().parse().unwrap()
    }

    /// The call's jobs, in the order in which they were enqueued.
    async fn jobs(&self, call: &str) -> Vec<Job> {
        let filter = Filter::new(DEFAULT_TENANT).subject("call", call).limit(20);
        let mut jobs = self.stage.server.queue.list(&filter).await.unwrap().jobs;
        jobs.sort_by_key(|job| job.id);
        jobs
    }

    async fn until_succeeded(&self, call: &str, count: usize) -> Vec<Job> {
        eventually(&format!("{count} stages of {call} have succeeded"), async || {
            let jobs = self.jobs(call).await;
            jobs.len() == count && jobs.iter().all(|job| job.status == State::Succeeded)
        })
        .await;
        self.jobs(call).await
    }

    async fn outcomes(&self, job: Uuid) -> Vec<String> {
        let attempts = self.stage.server.queue.attempts(DEFAULT_TENANT, job).await.unwrap();
        attempts.into_iter().map(|attempt| attempt.status).collect()
    }
}

/// Stops it, which must succeed.
async fn stop(mut worker: Child) {
    let pid = Pid::from_raw(i32::try_from(worker.id().unwrap()).unwrap()).unwrap();
    kill_process(pid, Signal::TERM).unwrap();
    let status =
        tokio::time::timeout(Duration::from_secs(30), worker.wait()).await.expect("it stops").unwrap();
    assert!(status.success(), "{status}");
}

/// The files of a call and when each was written.
fn files(folder: &Path) -> Vec<(String, SystemTime)> {
    let mut files: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| {
            let entry = entry.unwrap();
            (entry.file_name().into_string().unwrap(), entry.metadata().unwrap().modified().unwrap())
        })
        .collect();
    files.sort();
    files
}

#[tokio::test(flavor = "multi_thread")]
async fn call_transcription_runs_with_the_documented_loop_and_stages() {
    let pipeline = Pipeline::start().await;
    let call = pipeline.upload("call-1", &["hello", "order", "please", "thanks", "goodbye"]);
    pipeline.begin("call-1", json!({})).await;

    // The first worker dies between a stage's work and its completion: the stage is not lost, and its work is not done twice.
    let mut dying = pipeline.worker(&[("CRASH_AFTER", "transcribe_start")]);
    let status = tokio::time::timeout(Duration::from_secs(60), dying.wait()).await.expect("it dies").unwrap();
    assert_eq!(status.code(), Some(9));
    let living = pipeline.worker(&[]);
    let jobs = pipeline.until_succeeded("call-1", 4).await;
    let analysis: Value =
        serde_json::from_str(&fs::read_to_string(call.join("analysis.json")).unwrap()).unwrap();
    assert_eq!(analysis, json!({"words": 5, "mood": "content"}), "the transcript equals the spoken text");
    let keys: Vec<&str> = jobs.iter().map(|job| job.definition_key.as_str()).collect();
    assert_eq!(keys, ["call.extract_audio", "call.transcribe_start", "call.transcribe_poll", "call.analyze"]);
    assert!(
        jobs.windows(2).all(|pair| pair[1].parent_id == Some(pair[0].id)),
        "each was enqueued with the one before"
    );
    assert_eq!(
        jobs[2].payload,
        json!({"org_id": "acme", "call_id": "call-1", "operationId": "acme%2Fcall-1",
               "audioPath": "acme/call-1/audio.wav", "transcriptPath": "acme/call-1/transcript.json"})
    );
    assert_eq!(pipeline.outcomes(jobs[1].id).await, ["lost", "succeeded"]);
    assert_eq!(pipeline.outcomes(jobs[2].id).await, ["snoozed", "snoozed", "succeeded"]);

    // Unneeded files are deleted; every artifact has its path and one row, though a stage ran twice.
    let made = files(&call);
    let names: Vec<&str> = made.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["analysis.json", "audio.wav", "transcript.json"]);
    let artifacts = async || {
        let rows = "select kind || ' ' || path || ' ' || created_at from call_artifacts where call_id = 'call-1' order by created_at";
        let rows = pipeline.stage.server.queue.client().await.query(rows, &[]).await.unwrap();
        rows.iter().map(|row| row.get::<_, String>(0)).collect::<Vec<_>>()
    };
    let rows = artifacts().await;
    let wanted = [
        "audio acme/call-1/audio.wav",
        "transcript acme/call-1/transcript.json",
        "analysis acme/call-1/analysis.json",
    ];
    assert!(
        rows.len() == 3 && rows.iter().zip(wanted).all(|(row, wanted)| row.starts_with(wanted)),
        "{rows:?}"
    );

    // The whole call again: every stage, including the last one, finds its artifact and writes nothing.
    pipeline.begin("call-1", json!({})).await;
    let again = pipeline.until_succeeded("call-1", 8).await;
    assert_eq!(pipeline.outcomes(again[6].id).await, ["succeeded"], "nothing was started to wait for");
    assert_eq!((files(&call), artifacts().await), (made, rows));
    stop(living).await;

    // The interface is the boundary: the same loop and stages on the queue in memory.
    let memory = program("node")
        .arg(pipeline.dist.join("memory-main.js"))
        .env("STORAGE", &pipeline.storage)
        .env("SPEECH_URL", &pipeline.speech_url)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let output = tokio::time::timeout(Duration::from_secs(60), memory.wait_with_output())
        .await
        .expect("it ends")
        .unwrap();
    let printed: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(printed["stages"], json!(["extract_audio", "transcribe_start", "transcribe_poll", "analyze"]));
    assert_eq!(printed["artifacts"], json!(["audio", "transcript", "analysis"]));
    assert_eq!(printed["analysis"], json!({"words": 3, "mood": "upset"}));
    pipeline.stage.end().await;
}
