//! A long job that reports its progress, logs, and stops when it is canceled.
#![expect(clippy::print_stdout, reason = "an example shows what happens")]

mod common;

use std::error::Error;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windlass::job::{LogPosition, State};
use windlass::{Context, DEFAULT_TENANT, Done, Failure, Handler, JobArgs, Worker};

#[derive(Serialize, Deserialize, JsonSchema)]
struct Train {
    epochs: u32,
}

impl JobArgs for Train {
    const KEY: &'static str = "example.progress_and_cancel";
}

struct Trainer;

impl Handler for Trainer {
    type Args = Train;

    async fn run(&self, job: &Context, args: Train) -> Result<Done, Failure> {
        job.log(&format!("training {} epochs", args.epochs));
        job.progress(25.0, "one of four");
        // Real work checks job.is_stopped() now and then, or waits for both.
        job.stopped().await;
        job.log("stopped");
        Err(Failure::retry("stopped before the end"))
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let (queue, _) = common::connect().await?;
    let worker = Worker::builder(&queue).handler(Trainer).start().await?;
    let mut moves = worker.subscribe();
    let id = queue.enqueue(Train { epochs: 4 }).await?.id;
    while moves.recv().await?.to != State::Running {}

    // Follow the log until the job has said something, then cancel it.
    let mut log = queue.follow_log(DEFAULT_TENANT, id, LogPosition::default());
    while let Some(chunks) = log.next().await? {
        if !chunks.is_empty() {
            break;
        }
    }
    let canceled = queue.cancel(DEFAULT_TENANT, id).await?;
    println!("cancel: {canceled:?}");
    while !moves.recv().await?.to.is_terminal() {}
    worker.stop().await?;

    if let Some(job) = queue.job(DEFAULT_TENANT, id).await? {
        let percent = job.progress_percent.unwrap_or_default();
        println!("the job is {} at {percent} %", job.status);
    }
    Ok(())
}
