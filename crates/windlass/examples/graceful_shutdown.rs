//! A worker that stops: it claims no more jobs, and lets the running ones finish.
#![expect(clippy::print_stdout, reason = "an example shows what happens")]

mod common;

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;
use windlass::job::State;
use windlass::{Context, DEFAULT_TENANT, Done, Failure, Handler, JobArgs, Worker};

#[derive(Serialize, Deserialize, JsonSchema)]
struct Upload {}

impl JobArgs for Upload {
    const KEY: &'static str = "example.graceful_shutdown";
}

/// Runs until it is notified.
struct Uploader(Arc<Notify>);

impl Handler for Uploader {
    type Args = Upload;

    async fn run(&self, _: &Context, _: Upload) -> Result<Done, Failure> {
        self.0.notified().await;
        println!("uploaded");
        Ok(Done::new())
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let (queue, _) = common::connect().await?;
    let finish = Arc::new(Notify::new());
    let worker = Worker::builder(&queue)
        .handler(Uploader(finish.clone()))
        .concurrency(1)
        // Jobs that run longer than this return to the queue without counting a failure.
        .grace(Duration::from_secs(60))
        .start()
        .await?;
    let mut moves = worker.subscribe();
    let running = queue.enqueue(Upload {}).await?.id;
    while moves.recv().await?.to != State::Running {}
    let waiting = queue.enqueue(Upload {}).await?.id;

    // A service would wait for a signal here: tokio::signal::ctrl_c().await?
    println!("stopping");
    finish.notify_one();
    worker.stop().await?;

    for (name, id) in [("running", running), ("waiting", waiting)] {
        if let Some(job) = queue.job(DEFAULT_TENANT, id).await? {
            println!("the {name} job is {}", job.status);
        }
    }
    queue.cancel(DEFAULT_TENANT, waiting).await?;
    Ok(())
}
