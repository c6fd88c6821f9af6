//! The progress reports of runs.

use std::time::Duration;

use serde_json::{Value, json};
use tokio_postgres::Client;
use tokio_postgres::types::ToSql;
use windlass::job::{Fence, LogPosition};
use windlass::worker::Completion;
use windlass::{Context, DEFAULT_TENANT, Definition, Done, Failure, Handler, NewJob, Worker};
use windlass_testing::{TestQueue, eventually, until_waits_or_ends, waiting_for_locks};

use crate::support::{Hand, count, job, soon, worker};

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

/// a report that waits for the end of its attempt changes nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_report_that_a_settlement_overtook_does_not_replace_the_last_one() {
    let (queue, hand, fence) = running().await;
    assert!(hand.progress(&fence).await);
    hand.client.batch_execute("begin").await.unwrap();
    let last = json!({"outcome": 1, "next": 1, "progress": {"percent": 100, "message": "done"}});
    assert!(hand.settle(&fence, Some(last)).await);
    let (late, of) = (Hand { client: queue.client().await, worker: hand.worker }, fence);
    let report = tokio::spawn(async move { late.progress(&of).await });
    until_waits_or_ends(&queue.client().await, &report).await;
    hand.client.batch_execute("commit").await.unwrap();
    assert!(!report.await.unwrap());
    let row = job(&hand.client, fence.job).await;
    assert_eq!((&row["progress_percent"], &row["progress_message"]), (&json!(100), &json!("done")));
}

/// nothing of a purged job is written again.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_written_for_a_job_that_is_purged_meanwhile() {
    let (queue, hand, fence) = running().await;
    let write =
        "select windlass.write_log(array[$1::uuid], array[$2::uuid], array[$3::integer], array[$4::uuid],
        array[$5::integer], array[1::smallint], array['line'], array[$5::integer])";
    let log = async |client: &Client, fence: &Fence, chunk: i32| -> i32 {
        let params: [&(dyn ToSql + Sync); 5] =
            [&fence.tenant, &fence.job, &fence.attempt, &fence.token, &chunk];
        client.query_one(write, &params).await.unwrap().get(0)
    };
    for is_known in [true, false] {
        let fence = match is_known {
            true => {
                assert!(hand.progress(&fence).await);
                assert_eq!(log(&hand.client, &fence, 1).await, 1);
                fence
            }
            false => {
                hand.enqueue("'held'").await;
                hand.claim_one().await
            }
        };
        hand.client.batch_execute("begin").await.unwrap();
        let purge = "select windlass.purge($1, array[$2::uuid])";
        hand.client.execute(purge, &[&fence.tenant, &fence.job]).await.unwrap();
        let (late, of) = (Hand { client: queue.client().await, worker: hand.worker }, fence);
        let report = tokio::spawn(async move { late.progress(&of).await });
        until_waits_or_ends(&queue.client().await, &report).await;
        let (client, of) = (queue.client().await, fence);
        let chunk = tokio::spawn(async move {
            let params: [&(dyn ToSql + Sync); 5] = [&of.tenant, &of.job, &of.attempt, &of.token, &2];
            client.query_one(write, &params).await.unwrap().get::<_, i32>(0)
        });
        eventually("both have read the running job", async || {
            let waiting = waiting_for_locks(&queue.client().await).await;
            i64::from(report.is_finished()) + i64::from(chunk.is_finished()) + waiting == 2
        })
        .await;
        hand.client.batch_execute("commit").await.unwrap();
        assert_eq!((report.await.unwrap(), chunk.await.unwrap()), (false, 0));
        for table in ["progress", "job_log"] {
            assert_eq!(count(&hand.client, &format!("select count(*) from windlass.{table}")).await, 0);
        }
    }
}

/// a purge waits for a report that is not committed yet, and deletes it.
#[tokio::test(flavor = "multi_thread")]
async fn a_purge_deletes_what_an_open_transaction_reports() {
    let (queue, hand, fence) = running().await;
    hand.client.batch_execute("begin").await.unwrap();
    assert!(hand.progress(&fence).await);
    let (purger, of) = (queue.client().await, fence);
    let purge = tokio::spawn(async move {
        let purge = "select windlass.purge($1, array[$2::uuid])";
        purger.query_one(purge, &[&of.tenant, &of.job]).await.unwrap().get::<_, i32>(0)
    });
    until_waits_or_ends(&queue.client().await, &purge).await;
    hand.client.batch_execute("commit").await.unwrap();
    assert_eq!(purge.await.unwrap(), 1);
    assert_eq!(count(&hand.client, "select count(*) from windlass.progress").await, 0);
}

async fn running() -> (TestQueue, Hand, Fence) {
    let queue = TestQueue::create().await;
    let hand = Hand::new(queue.client().await).await;
    hand.define(json!({"key": "held"})).await;
    hand.enqueue("'held'").await;
    let fence = hand.claim_one().await;
    (queue, hand, fence)
}
