//! The progress reports of runs.

use std::time::Duration;

use serde_json::{Value, json};
use windlass::job::LogPosition;
use windlass::worker::Completion;
use windlass::{Context, DEFAULT_TENANT, Definition, Done, Failure, Handler, NewJob, Worker};
use windlass_testing::{TestQueue, eventually};

use crate::support::{job, soon, worker};

#[tokio::test(flavor = "multi_thread")]
async fn progress_is_visible_while_the_job_runs() {
    struct Telling(tokio::sync::Semaphore);
    windlass_testing::payload!(TellingArgs(Value) = "telling");

    impl Handler for Telling {
        type Args = TellingArgs;
        async fn run(&self, job: &Context, _: TellingArgs) -> Result<Done, Failure> {
            job.progress(40.0, "two of five");
            let _ = tokio::time::timeout(Duration::from_secs(60), job.stopped()).await;
            let _permit = self.0.acquire().await?;
            Ok(Done::new())
        }
    }
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    let worker: Worker = worker(&queue)
        .handler(Telling(tokio::sync::Semaphore::new(1)))
        .grace(Duration::ZERO)
        .start()
        .await
        .unwrap();
    let id = queue.enqueue(&NewJob::new("telling")).await.unwrap().id;
    eventually("progress is written", async || job(&client, id).await["progress_percent"] == 40.0).await;
    let row = job(&client, id).await;
    assert_eq!((&row["status"], &row["progress_message"]), (&json!("running"), &json!("two of five")));
    worker.stop().await.unwrap();
}

/// However short a run is, and however it ends, its last report is in the job and in its attempt.
#[tokio::test(flavor = "multi_thread")]
async fn the_last_progress_of_a_run_is_written_with_its_end() {
    struct Hasty(String);
    windlass_testing::payload!(HastyArgs(String) = "hasty");

    impl Handler for Hasty {
        type Args = HastyArgs;
        async fn run(&self, job: &Context, HastyArgs(way): HastyArgs) -> Result<Done, Failure> {
            if job.attempt() > 1 {
                return Ok(Done::new());
            }
            for percent in 0..100 {
                job.progress(percent as f32, "on its way");
            }
            job.progress(99.0, &format!("last word of {way}"));
            job.log("and a line");
            match way.as_str() {
                "fails" => Err(Failure::permanent("no")),
                "snoozes" => Ok(Done::snooze(Duration::ZERO)),
                "panics" => panic!("it panics"),
                "completes in its own transaction" => {
                    let (mut client, connection) =
                        tokio_postgres::connect(&self.0, tokio_postgres::NoTls).await?;
                    tokio::spawn(connection);
                    let transaction = client.transaction().await?;
                    let Completion::Ready(done) = job.complete_in(&transaction, Done::new()).await? else {
                        return Err(Failure::permanent("the lease is lost"));
                    };
                    transaction.commit().await?;
                    Ok(done)
                }
                _ => Ok(Done::new()),
            }
        }

        fn definition(&self) -> Definition {
            Definition::of::<HastyArgs>().backoff(soon()).max_attempts(1)
        }
    }
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    let worker = worker(&queue).handler(Hasty(queue.url().to_owned())).start().await.unwrap();
    let ways = ["succeeds", "fails", "panics", "snoozes", "completes in its own transaction"];
    for _ in 0..5 {
        for way in ways {
            let id = queue.enqueue(&NewJob::new("hasty").payload(&way)).await.unwrap().id;
            eventually(&format!("{way}: it has ended"), async || {
                job(&client, id).await["finished_at"] != Value::Null
            })
            .await;
            let row = job(&client, id).await;
            let message = format!("last word of {way}");
            assert_eq!((&row["progress_percent"], &row["progress_message"]), (&json!(99), &json!(message)));
            let kept = queue.attempts(DEFAULT_TENANT, id).await.unwrap();
            assert_eq!(
                (kept[0].progress_percent, kept[0].progress_message.as_deref()),
                (Some(99.0), Some(message.as_str()))
            );
            assert_eq!(
                kept.last().unwrap().progress_percent.is_some(),
                way != "snoozes",
                "an attempt keeps its own progress"
            );
            let log = queue.read_log(DEFAULT_TENANT, id, LogPosition::default()).await.unwrap();
            assert_eq!(log.chunks[0].text, "and a line\n", "{way}");
        }
    }
    worker.stop().await.unwrap();
}
