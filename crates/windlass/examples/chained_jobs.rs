//! A job that enqueues the next one when it succeeds, and a job that waits for another one.
#![expect(clippy::print_stdout, reason = "an example shows what happens")]

mod common;

use std::error::Error;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windlass::{Context, Done, Failure, Handler, JobArgs, Worker};

#[derive(Serialize, Deserialize, JsonSchema)]
struct Transcribe {
    call: u32,
}

impl JobArgs for Transcribe {
    const KEY: &'static str = "example.chained_jobs.transcribe";
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Summarize {
    text: String,
}

impl JobArgs for Summarize {
    const KEY: &'static str = "example.chained_jobs.summarize";
}

struct Transcriber;

impl Handler for Transcriber {
    type Args = Transcribe;

    async fn run(&self, _: &Context, args: Transcribe) -> Result<Done, Failure> {
        println!("transcribed call {}", args.call);
        // Written in the same statement as the success: both or neither.
        Ok(Done::new().then(Summarize { text: format!("call {}", args.call) }))
    }
}

struct Summarizer;

impl Handler for Summarizer {
    type Args = Summarize;

    async fn run(&self, _: &Context, args: Summarize) -> Result<Done, Failure> {
        println!("summarized {}", args.text);
        Ok(Done::new())
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let (queue, _) = common::connect().await?;
    let worker = Worker::builder(&queue).handler(Transcriber).handler(Summarizer).start().await?;
    let mut moves = worker.subscribe();

    let first = queue.enqueue(Transcribe { call: 1 }).await?;
    // Starts after the first one has succeeded, and is canceled if it does not.
    queue.enqueue(Summarize { text: "after call 1".to_owned() }.job().depends_on(first.id)).await?;

    let mut ended = 0;
    while ended < 3 {
        ended += u32::from(moves.recv().await?.to.is_terminal());
    }
    worker.stop().await?;
    println!("{ended} jobs ended");
    Ok(())
}
