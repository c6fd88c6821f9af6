//! A job that fails twice and is retried after a delay.
#![expect(clippy::print_stdout, reason = "an example shows what happens")]

mod common;

use std::error::Error;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windlass::job::{Backoff, State};
use windlass::{Context, DEFAULT_TENANT, Definition, Done, Failure, Handler, JobArgs, Worker};

#[derive(Serialize, Deserialize, JsonSchema)]
struct Fetch {
    page: String,
}

impl JobArgs for Fetch {
    const KEY: &'static str = "example.retries";
}

struct Fetcher;

impl Handler for Fetcher {
    type Args = Fetch;

    async fn run(&self, job: &Context, args: Fetch) -> Result<Done, Failure> {
        if job.failures() < 2 {
            // Any error converts into a failure that is retried; this one chooses its own delay.
            return Err(Failure::retry_after(Duration::from_millis(50), "connection reset"));
        }
        Ok(Done::new().result(&args.page.len()))
    }

    fn definition(&self) -> Definition {
        let backoff = Backoff::exponential(Duration::from_secs(1), Duration::from_secs(60));
        Definition::of::<Fetch>().max_attempts(5).backoff(backoff)
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let (queue, _) = common::connect().await?;
    let worker = Worker::builder(&queue).handler(Fetcher).start().await?;
    let mut moves = worker.subscribe();
    let id = queue.enqueue(Fetch { page: "/index.html".to_owned() }).await?.id;
    while moves.recv().await?.to != State::Succeeded {}
    worker.stop().await?;

    for attempt in queue.attempts(DEFAULT_TENANT, id).await? {
        let error = attempt.error_text.unwrap_or_default();
        println!("attempt {}: {} {error}", attempt.attempt_no, attempt.status);
    }
    Ok(())
}
