//! The log of a run: followed while it runs, in order, with resume, within bounds, by its own tenant only.

use serde_json::{Value, json};
use tokio::sync::mpsc;
use uuid::Uuid;
use windlass::job::{LogPosition, LogStream};
use windlass::redact::Redactor;
use windlass::{Context, DEFAULT_TENANT, Done, Error, Failure, Handler, NewJob};
use windlass_testing::TestQueue;

use crate::support::{Hand, count, until, worker};

/// Logs the lines that the test sends, until it sends no more.
struct Talk(tokio::sync::Mutex<mpsc::UnboundedReceiver<String>>);

impl Talk {
    fn new() -> (Self, mpsc::UnboundedSender<String>) {
        let (say, lines) = mpsc::unbounded_channel();
        (Self(tokio::sync::Mutex::new(lines)), say)
    }
}

windlass_testing::payload!(TalkArgs(Value) = "talk");

impl Handler for Talk {
    type Args = TalkArgs;

    async fn run(&self, job: &Context, _: TalkArgs) -> Result<Done, Failure> {
        while let Some(line) = self.0.lock().await.recv().await {
            job.log(&line);
        }
        Ok(Done::new().result(&json!({"said": "pass-word-1"})))
    }
}

/// The handler waits for the next line, so each one is read while the job runs. How soon is the sum of two intervals: see
/// `control/logs.rs`.
#[tokio::test]
async fn lines_reach_a_reader_while_the_job_runs_in_order_and_with_resume() {
    let queue = TestQueue::create().await;
    let (talk, say) = Talk::new();
    let worker = worker(&queue).handler(talk).start().await.unwrap();
    let job = queue.enqueue(&NewJob::new("talk")).await.unwrap().id;
    let mut follower = queue.follow_log(DEFAULT_TENANT, job, LogPosition::default());
    for n in 0..3 {
        say.send(format!("line {n}")).unwrap();
        let chunks = follower.next().await.unwrap().unwrap();
        let text: String = chunks.iter().map(|chunk| chunk.text.as_str()).collect();
        assert_eq!(text, format!("line {n}\n"));
        assert_eq!(chunks[0].stream, LogStream::Log);
    }
    let position: LogPosition = follower.position().to_string().parse().unwrap();
    say.send("the last".to_owned()).unwrap();
    drop(say);
    let mut resumed = queue.follow_log(DEFAULT_TENANT, job, position);
    assert_eq!(resumed.next().await.unwrap().unwrap()[0].text, "the last\n");
    assert_eq!(resumed.next().await.unwrap(), None, "the job has ended");
    worker.stop().await.unwrap();
}

#[tokio::test]
async fn a_log_has_no_secrets_and_no_control_characters() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    let (talk, say) = Talk::new();
    let redactor = Redactor::new(["pass-word-1"], [""; 0]).unwrap();
    let worker = worker(&queue).handler(talk).redact(&redactor).start().await.unwrap();
    let job = queue.enqueue(&NewJob::new("talk")).await.unwrap().id;
    say.send("the \u{1b}[31mpass-word-1\0 of cGFzcy13b3JkLTE=".to_owned()).unwrap();
    drop(say);
    let ended = until(&client, job, "succeeded").await;
    let page = queue.read_log(DEFAULT_TENANT, job, LogPosition::default()).await.unwrap();
    assert_eq!(page.chunks[0].text, "the �[31m[redacted]� of [redacted]E=\n");
    assert_eq!(ended["result"], json!({"said": "[redacted]"}));
    worker.stop().await.unwrap();
}

/// Invariant 5, and the bound of the stored log.
#[tokio::test]
async fn a_stale_attempt_cannot_write_and_old_chunks_are_deleted() {
    let queue = TestQueue::create().await;
    let hand = Hand::new(queue.client().await).await;
    hand.define(json!({"key": "held"})).await;
    let job = hand.enqueue("'held'").await;
    let fence = hand.claim_one().await;
    let write =
        "select windlass.write_log(array[$1::uuid], array[$2::uuid], array[$3::integer], array[$4::uuid],
        array[$5::integer], array[1::smallint], array['text'], array[$6::integer])";
    let chunk = async |token: Uuid, number: i32, keep_from: i32| -> i32 {
        let row = hand
            .client
            .query_one(write, &[&fence.tenant, &fence.job, &fence.attempt, &token, &number, &keep_from])
            .await;
        row.unwrap().get(0)
    };
    assert_eq!(chunk(Uuid::new_v4(), 1, 1).await, 0, "a wrong token");
    assert_eq!(chunk(fence.token, 1, 1).await, 1);
    assert_eq!(chunk(fence.token, 1, 1).await, 0, "sent twice, stored once");
    assert_eq!(chunk(fence.token, 2, 1).await, 1);
    assert_eq!(chunk(fence.token, 3, 3).await, 1);
    assert_eq!(
        count(&hand.client, "select count(*) from windlass.job_log").await,
        1,
        "everything before 3 is deleted"
    );
    assert!(hand.settle(&fence, None).await);
    assert_eq!(chunk(fence.token, 4, 1).await, 0, "after its end");
    queue.purge(DEFAULT_TENANT, &[job]).await.unwrap();
    assert_eq!(count(&hand.client, "select count(*) from windlass.job_log").await, 0);
}

#[tokio::test]
async fn the_log_of_another_tenants_job_cannot_be_read() {
    let queue = TestQueue::create().await;
    let other = queue.tenant("other").await;
    let hand = Hand::new(queue.client().await).await;
    hand.define(json!({"key": "held"})).await;
    let job = hand.enqueue("'held'").await;
    let unknown = queue.read_log(other, job, LogPosition::default()).await.unwrap_err();
    assert!(matches!(unknown, Error::UnknownJob { .. }), "{unknown}");
    assert!(queue.read_log(DEFAULT_TENANT, job, LogPosition::default()).await.unwrap().chunks.is_empty());
}

#[tokio::test]
async fn a_job_without_a_live_worker_is_reported() {
    let queue = TestQueue::create().await;
    let (talk, _say) = Talk::new();
    let worker = worker(&queue).handler(talk).queues(["default"]).start().await.unwrap();
    assert_eq!(queue.workers_for("nobody").await.unwrap(), []);
    let workers = queue.workers_for("talk").await.unwrap();
    assert_eq!((workers[0].worker_id.as_str(), workers[0].is_draining), (worker.id(), false));
    assert!(queue.set_draining(worker.id(), true).await.unwrap());
    assert!(queue.workers_for("talk").await.unwrap()[0].is_draining);
    assert!(!queue.set_draining("nobody", true).await.unwrap());
    worker.stop().await.unwrap();
    assert_eq!(queue.workers_for("talk").await.unwrap(), []);
}
