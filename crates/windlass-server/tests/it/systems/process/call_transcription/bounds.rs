//! What ends a stage that cannot succeed: attempts with the document's backoff, and polls with a limit and a deadline.

use serde_json::json;
use windlass::job::State;
use windlass_testing::eventually;

use super::{Pipeline, stop};

#[tokio::test(flavor = "multi_thread")]
async fn a_failing_stage_backs_off_as_documented() {
    let pipeline = Pipeline::start().await;
    let client = pipeline.stage.server.queue.client().await;
    // Nothing was uploaded.
    let job = pipeline.begin("call-2", json!({"max_attempts": 7})).await;
    let worker = pipeline.worker(&[]);
    for (failures, seconds) in [30, 60, 120, 240, 480, 600].into_iter().enumerate() {
        let attempt = i32::try_from(failures).unwrap() + 1;
        eventually(&format!("attempt {attempt} has failed"), async || {
            let seen = pipeline.stage.job(job).await;
            seen.status == State::Scheduled && seen.attempt_count == attempt
        })
        .await;
        let waits = "select round(extract(epoch from d.due_at - (select max(a.finished_at) from windlass.job_attempts a where a.job_id = d.job_id)))::bigint
            from windlass.deferred d where d.job_id = $1";
        let waits: i64 = client.query_one(waits, &[&job]).await.unwrap().get(0);
        assert_eq!(waits, seconds, "min(600, 30 * 2^{failures})");
        // The test does not wait for it.
        let soon = "update windlass.deferred set due_at = clock_timestamp() where job_id = $1";
        client.execute(soon, &[&job]).await.unwrap();
    }
    eventually("it is out of attempts", async || pipeline.stage.job(job).await.status == State::DeadLetter)
        .await;
    let ended = pipeline.stage.job(job).await;
    assert_eq!(ended.attempt_count, 7);
    assert!(ended.last_error.unwrap().contains("upload.json"), "the reason is stored");
    assert_eq!(pipeline.jobs("call-2").await.len(), 1, "and no stage follows");
    stop(worker).await;
    pipeline.stage.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_endless_transcription_is_bounded_by_polls_and_deadline() {
    let pipeline = Pipeline::start().await;
    let admin = &pipeline.stage.server.admin;
    let listed = admin.get("/api/v1/admin/jobs/definitions").await.expect(200);
    let poll =
        listed["definitions"].as_array().unwrap().iter().find(|one| one["key"] == "call.transcribe_poll");
    let poll = poll.unwrap();
    assert_eq!(poll["max_snoozes"], 240, "an hour of polls at fifteen seconds each");
    let path = format!("/api/v1/admin/jobs/definitions/{}", poll["id"].as_str().unwrap());

    // Two hundred and forty, shortened. The service never returns a result for silence.
    admin.patch(&path, &json!({"max_snoozes": 3})).await.expect(200);
    pipeline.upload("silence", &[]);
    pipeline.begin("silence", json!({})).await;
    let worker = pipeline.worker(&[]);
    let last = async |call: &str| pipeline.jobs(call).await.pop().unwrap();
    eventually("it is abandoned", async || last("silence").await.status == State::Failed).await;
    let ended = last("silence").await;
    assert_eq!(
        (ended.definition_key.as_str(), ended.reason.as_deref()),
        ("call.transcribe_poll", Some("snooze_budget"))
    );
    assert_eq!(pipeline.outcomes(ended.id).await, ["snoozed"; 4]);
    stop(worker).await;

    // The hour, shortened: polls remain, time does not.
    admin.patch(&path, &json!({"max_snoozes": 240})).await.expect(200);
    pipeline.upload("long", &[]);
    pipeline.begin("long", json!({})).await;
    let worker = pipeline.worker(&[("POLL_DEADLINE_SECONDS", "2"), ("POLL_SECONDS", "1")]);
    eventually("it is abandoned in time", async || {
        last("long").await.status.is_terminal() && last("long").await.definition_key == "call.transcribe_poll"
    })
    .await;
    assert_eq!(last("long").await.reason.as_deref(), Some("deadline_passed"));
    stop(worker).await;
    pipeline.stage.end().await;
}
