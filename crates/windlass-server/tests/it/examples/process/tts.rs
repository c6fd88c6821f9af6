//! `examples/tts`: a user requests a dialogue from a service, a pull worker speaks it, and it is deleted in time.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;
use windlass::DEFAULT_TENANT;
use windlass::keeper::{Duty, Keeper, KeeperSettings};
use windlass_server::auth::Role;
use windlass_testing::eventually;

use super::{Program, folder};
use crate::support::{Client, TestServer};

/// The service and its users, on a real server; each test starts its own workers.
struct Stage {
    server: TestServer,
    service: Program,
    user: Client,
    audio: PathBuf,
    stop: CancellationToken,
    keeping: tokio::task::JoinHandle<()>,
}

impl Stage {
    async fn start() -> Self {
        let server = TestServer::start().await;
        let definitions = std::fs::read_to_string(folder("tts").join("definitions.json")).unwrap();
        let definitions: Value = serde_json::from_str(&definitions).unwrap();
        // The cleanup definition first: the other one names it.
        for definition in definitions["definitions"].as_array().unwrap().iter().rev() {
            server.admin.post("/api/v1/admin/jobs/definitions", definition).await.expect(201);
        }
        let often = Duration::from_millis(50);
        let settings = KeeperSettings::default().promote(often).reap(often).expire(often);
        let stop = CancellationToken::new();
        let keeping = tokio::spawn(Keeper::new(server.queue.queue().clone(), settings).run(stop.clone()));
        let token = server.client(DEFAULT_TENANT, Role::Operator).await.token.unwrap();
        let environment =
            [("WINDLASS_SERVER", server.base.as_str()), ("WINDLASS_TOKEN", &token), ("PORT", "0")];
        let service = Program::start("tts", &["service.py"], &environment).await;
        let user = Client::new(&service.address, None).with("x-user-id", Uuid::new_v4());
        let audio = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(Uuid::new_v4().simple().to_string());
        Self { server, service, user, audio, stop, keeping }
    }

    async fn worker(&self) -> Program {
        let token = self.server.client(DEFAULT_TENANT, Role::Worker).await.token.unwrap();
        let environment = [
            ("WINDLASS_SERVER", self.server.base.as_str()),
            ("WINDLASS_TOKEN", &token),
            ("AUDIO_DIR", self.audio.to_str().unwrap()),
        ];
        Program::start("tts", &["worker.py"], &environment).await
    }

    async fn until(&self, id: &str, wanted: &str) -> Value {
        let path = format!("/jobs/{id}");
        eventually(&format!("{id} is {wanted}"), async || {
            self.user.get(&path).await.expect(200)["status"] == wanted
        })
        .await;
        self.user.get(&path).await.expect(200)
    }

    async fn change(&self, fields: &Value) {
        let path = format!("/api/v1/admin/jobs/definitions/{}", self.policy().await["id"].as_str().unwrap());
        self.server.admin.patch(&path, fields).await.expect(200);
    }

    /// Moves the end of everything finished back by this many days, and runs the keeper.
    async fn pass(&self, days: u32) {
        let aged = format!(
            "update windlass.history set started_at = started_at - interval '{days} days', finished_at = finished_at - interval '{days} days';
             update windlass.keeper_mark set reached = reached - interval '{days} days'"
        );
        self.server.queue.client().await.batch_execute(&aged).await.unwrap();
        self.prune().await;
    }

    async fn prune(&self) {
        let keeper = Keeper::new(self.server.queue.queue().clone(), KeeperSettings::default());
        keeper.run_once(Duty::Prune).await.unwrap();
    }

    async fn policy(&self) -> Value {
        let listed = self.server.admin.get("/api/v1/admin/jobs/definitions").await.expect(200);
        let all = listed["definitions"].as_array().unwrap();
        all.iter().find(|one| one["key"] == "multi_role_tts").unwrap().clone()
    }

    async fn stop(mut self) {
        self.stop.cancel();
        self.keeping.await.unwrap();
        self.server.stop().await;
        // Nothing may exist: no worker ran.
        let _ = std::fs::remove_dir_all(&self.audio);
    }
}

/// The document's own example, in the format that espeak-ng creates.
fn dialogue() -> Value {
    json!({"provider": "espeak-ng", "input_params": {
        "turns": [{"speaker": "A", "text": "你好", "index": 0}, {"speaker": "B", "text": "嗨！", "index": 1}],
        "voice_assignments": [
            {"speaker": "A", "voice_id": "zh-TW-HsiaoYuNeural", "voice_name": "曉雨"},
            {"speaker": "B", "voice_id": "zh-TW-YunJheNeural", "voice_name": "雲哲"}
        ],
        "language": "zh-TW", "output_format": "wav", "gap_ms": 300, "crossfade_ms": 50
    }})
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dialogue_becomes_audio_for_its_user_only_and_is_deleted_after_thirty_days() {
    let stage = Stage::start().await;
    let _worker = stage.worker().await;
    let job = stage.user.post("/jobs", &dialogue()).await.expect(202);
    let id = job["id"].as_str().unwrap();
    let done = stage.until(id, "completed").await;
    assert_eq!((&done["audio_file_id"], &done["error_message"]), (&json!(id), &Value::Null));
    assert_eq!((&done["retry_count"], &done["provider"]), (&json!(0), &json!("espeak-ng")));
    let result = &done["result_metadata"];
    let timings = result["turn_timings"].as_array().unwrap();
    let gap = timings[1]["start_ms"].as_i64().unwrap() - timings[0]["end_ms"].as_i64().unwrap();
    assert!((299..=301).contains(&gap), "{result}");
    assert_eq!(
        (&timings[1]["end_ms"], &result["synthesis_mode"]),
        (&result["duration_ms"], &json!("segmented"))
    );

    let heard = stage.user.request(reqwest::Method::GET, &format!("/jobs/{id}/audio")).send().await.unwrap();
    let heard = heard.bytes().await.unwrap();
    assert!(heard.starts_with(b"RIFF") && heard.len() > 20_000, "{} bytes", heard.len());
    let stranger = Client::new(&stage.service.address, None).with("x-user-id", Uuid::new_v4());
    for path in [format!("/jobs/{id}"), format!("/jobs/{id}/audio")] {
        stranger.get(&path).await.expect(404);
    }
    assert_eq!(stranger.get("/jobs").await.expect(200)["jobs"], json!([]));
    assert_eq!(stage.user.get("/jobs").await.expect(200)["jobs"][0]["id"], json!(id));

    let file = stage.audio.join(format!("{id}.wav"));
    assert!(file.exists());
    stage.pass(29).await;
    assert!(file.exists() && stage.user.get(&format!("/jobs/{id}")).await.status == 200);
    stage.pass(2).await;
    eventually("the audio and its job are deleted", async || {
        stage.prune().await;
        !file.exists() && stage.user.get(&format!("/jobs/{id}")).await.status == 404
    })
    .await;
    stage.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_text_is_rejected_or_failed_with_the_reason() {
    let stage = Stage::start().await;
    let mut unknown = dialogue();
    unknown["provider"] = json!("azure");
    let refused = stage.user.post("/jobs", &unknown).await.expect(422);
    assert_eq!(refused["errors"][0]["pointer"], "/payload/provider", "{refused}");
    let mut unvoiced = dialogue();
    unvoiced["input_params"]["voice_assignments"][1]["voice_id"] = json!("zh-TW-Nobody");
    let id = stage.user.post("/jobs", &unvoiced).await.expect(202)["id"].as_str().unwrap().to_owned();
    let _worker = stage.worker().await;
    let failed = stage.until(&id, "failed").await;
    assert_eq!(
        failed["error_message"],
        "speaker 'B' has the voice 'zh-TW-Nobody', which espeak-ng does not offer"
    );
    assert_eq!((&failed["retry_count"], &failed["audio_file_id"]), (&json!(0), &Value::Null));
    stage.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiting_job_can_be_canceled_and_fails_after_too_long() {
    let stage = Stage::start().await;
    let job = stage.user.post("/jobs", &dialogue()).await.expect(202);
    assert_eq!(job["status"], "pending");
    let cancel = format!("/jobs/{}/cancel", job["id"].as_str().unwrap());
    let canceled = stage.user.post(&cancel, &json!({})).await.expect(200);
    assert_eq!((&canceled["status"], &canceled["started_at"]), (&json!("cancelled"), &Value::Null));
    assert!(canceled["completed_at"].is_string(), "so that it can be cleaned up after its seven days");

    // Twenty-four hours, shortened for the test.
    assert_eq!(stage.policy().await["start_deadline_seconds"], 86400);
    stage.change(&json!({"start_deadline_seconds": 1})).await;
    let orphan = stage.user.post("/jobs", &dialogue()).await.expect(202);
    let failed = stage.until(orphan["id"].as_str().unwrap(), "failed").await;
    assert_eq!(failed["started_at"], Value::Null);
    stage.stop().await;
}

/// Ten minutes, shortened; and a worker that claimed the job and vanished.
#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_times_out_fails_and_is_not_retried() {
    let stage = Stage::start().await;
    let policy = stage.policy().await;
    assert_eq!((&policy["timeout_seconds"], &policy["on_timeout"]), (&json!(600), &json!("fail")));
    stage.change(&json!({"timeout_seconds": 1})).await;
    let job = stage.user.post("/jobs", &dialogue()).await.expect(202);
    let silent = stage.server.client(DEFAULT_TENANT, Role::Worker).await;
    let claim =
        json!({"definition_keys": ["multi_role_tts"], "limit": 1, "wait_seconds": 10, "lease_seconds": 60});
    let claimed = silent.post("/api/v1/worker/jobs/claim", &claim).await.expect(200);
    assert_eq!(claimed["jobs"][0]["id"], job["id"]);
    let failed = stage.until(job["id"].as_str().unwrap(), "failed").await;
    assert_eq!(failed["retry_count"], 0);
    let late = json!({"fence": claimed["jobs"][0]["fence"], "result": {}});
    let path = format!("/api/v1/worker/jobs/{}/complete", job["id"].as_str().unwrap());
    silent.post(&path, &late).await.problem(409, "lease-lost");
    stage.stop().await;
}

/// Without a gap the end of a turn and the start of the next overlap.
#[tokio::test(flavor = "multi_thread")]
async fn turns_without_a_gap_are_cross_faded() {
    let stage = Stage::start().await;
    let _worker = stage.worker().await;
    let mut joined = dialogue();
    joined["input_params"]["gap_ms"] = json!(0);
    let job = stage.user.post("/jobs", &joined).await.expect(202);
    let done = stage.until(job["id"].as_str().unwrap(), "completed").await;
    let timings = done["result_metadata"]["turn_timings"].as_array().unwrap();
    let overlap = timings[0]["end_ms"].as_i64().unwrap() - timings[1]["start_ms"].as_i64().unwrap();
    assert!((49..=51).contains(&overlap), "crossfade_ms is 50: {timings:?}");
    assert_eq!(done["result_metadata"]["duration_ms"], timings[1]["end_ms"]);
    stage.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_sees_progress_and_cancels_a_running_job() {
    let stage = Stage::start().await;
    let _worker = stage.worker().await;
    let mut long = dialogue();
    let turns: Vec<Value> = (0..200)
        .map(|index| json!({"speaker": "A", "text": "很高興見到你。".repeat(20), "index": index}))
        .collect();
    long["input_params"]["turns"] = json!(turns);
    let job = stage.user.post("/jobs", &long).await.expect(202);
    let path = format!("/jobs/{}", job["id"].as_str().unwrap());
    eventually("it reports its progress", async || {
        let job = stage.user.get(&path).await.expect(200);
        assert_ne!(job["status"], "completed", "two hundred turns are spoken too quickly for this test");
        job["status"] == "processing" && job["progress"].as_f64().is_some_and(|percent| percent > 0.0)
    })
    .await;
    stage.user.post(&format!("{path}/cancel"), &json!({})).await.expect(200);
    let canceled = stage.until(job["id"].as_str().unwrap(), "cancelled").await;
    assert_eq!((&canceled["audio_file_id"], &canceled["result_metadata"]), (&Value::Null, &Value::Null));
    stage.stop().await;
}

/// Thirty days for failed jobs, seven for canceled ones; the test above checks the thirty days of completed ones.
#[tokio::test(flavor = "multi_thread")]
async fn failed_jobs_are_kept_for_thirty_days_and_canceled_ones_for_seven() {
    let stage = Stage::start().await;
    let kept = json!({"succeeded": 30 * 86400, "failed": 30 * 86400, "dead_letter": 30 * 86400, "canceled": 7 * 86400});
    assert_eq!(stage.policy().await["retention"], kept);
    let job = stage.user.post("/jobs", &dialogue()).await.expect(202);
    let canceled = format!("/jobs/{}", job["id"].as_str().unwrap());
    stage.user.post(&format!("{canceled}/cancel"), &json!({})).await.expect(200);
    let mut unvoiced = dialogue();
    unvoiced["input_params"]["voice_assignments"][0]["voice_id"] = json!("zh-TW-Nobody");
    let job = stage.user.post("/jobs", &unvoiced).await.expect(202);
    let failed = format!("/jobs/{}", job["id"].as_str().unwrap());
    let _worker = stage.worker().await;
    stage.until(job["id"].as_str().unwrap(), "failed").await;

    for (days, canceled_status, failed_status) in
        [(6, 200, 200), (2, 404, 200), (21, 404, 200), (2, 404, 404)]
    {
        stage.pass(days).await;
        assert_eq!(stage.user.get(&canceled).await.status, canceled_status, "after {days} more days");
        assert_eq!(stage.user.get(&failed).await.status, failed_status, "after {days} more days");
    }
    stage.stop().await;
}
