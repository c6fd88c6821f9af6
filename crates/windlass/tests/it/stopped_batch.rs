//! The jobs of one call of a batch handler are stopped for different reasons; each ends by its own.

use std::time::Duration;

use serde_json::Value;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;
use windlass::job::Canceled;
use windlass::{BatchHandler, Context, DEFAULT_TENANT, Definition, Done, Failure, NewJob};
use windlass_testing::TestQueue;

use crate::support::{attempts, job, status, until, worker};

/// Passes the jobs of each call to the test, and never returns.
struct Endless(mpsc::UnboundedSender<Vec<(Uuid, CancellationToken)>>);

windlass_testing::payload!(EndlessArgs(Value) = "endless");

impl BatchHandler for Endless {
    const BATCH: usize = 2;
    type Args = EndlessArgs;

    async fn run(&self, jobs: Vec<(Context, EndlessArgs)>) -> Vec<Result<Done, Failure>> {
        let started = jobs.iter().map(|(job, _)| (job.job_id(), job.cancellation())).collect();
        self.0.send(started).unwrap();
        std::future::pending().await
    }
}

/// A shutdown ended every job of the call by the reason of the last one: as permanently canceled if that was canceled.
#[tokio::test(flavor = "multi_thread")]
async fn a_shutdown_cancels_only_the_jobs_of_a_batch_that_were_canceled() {
    for canceled in 0..2 {
        let queue = TestQueue::create().await;
        let client = queue.client().await;
        queue.define(&Definition::new("endless")).await.unwrap();
        queue.enqueue_many(&vec![NewJob::new("endless"); 2]).await.unwrap();
        let (calls, mut started) = mpsc::unbounded_channel();
        let worker =
            worker(&queue).batch_handler(Endless(calls)).grace(Duration::ZERO).start().await.unwrap();
        let call = started.recv().await.unwrap();
        assert_eq!(call.len(), 2);
        let (id, token) = &call[canceled];
        assert_eq!(queue.cancel(DEFAULT_TENANT, *id).await.unwrap(), Canceled::Requested);
        token.cancelled().await;
        worker.stop().await.unwrap();
        until(&client, *id, "canceled").await;
        let (other, _) = &call[1 - canceled];
        assert_eq!(status(&client, *other).await, "queued", "{}", job(&client, *other).await);
        assert_eq!(attempts(&client, *other).await, ["released"]);
    }
}
