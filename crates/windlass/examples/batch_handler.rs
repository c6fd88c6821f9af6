//! A handler that gets several jobs in one call.
#![expect(clippy::print_stdout, reason = "an example shows what happens")]

mod common;

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windlass::{BatchHandler, Context, Definition, Done, Failure, JobArgs, NewJob, Worker};

#[derive(Serialize, Deserialize, JsonSchema)]
struct Index {
    document: u32,
}

impl JobArgs for Index {
    const KEY: &'static str = "example.batch_handler";
}

struct Indexer {
    calls: Arc<AtomicUsize>,
}

impl BatchHandler for Indexer {
    const BATCH: usize = 50;
    type Args = Index;

    async fn run(&self, jobs: Vec<(Context, Index)>) -> Vec<Result<Done, Failure>> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        // One request to the search engine for all of them, then one result for each.
        jobs.iter()
            .map(|(_, args)| match args.document {
                13 => Err(Failure::permanent("this document cannot be read")),
                _ => Ok(Done::new()),
            })
            .collect()
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let (queue, _) = common::connect().await?;
    queue.define(&Definition::of::<Index>()).await?;
    let jobs: Vec<NewJob> = (1..=100).map(|document| Index { document }.job()).collect();
    queue.enqueue_many(&jobs).await?;

    let calls = Arc::new(AtomicUsize::new(0));
    let worker = Worker::builder(&queue)
        .batch_handler(Indexer { calls: calls.clone() })
        .concurrency(100)
        .start()
        .await?;
    let mut moves = worker.subscribe();
    let (mut succeeded, mut failed) = (0, 0);
    while succeeded + failed < jobs.len() {
        match moves.recv().await?.to {
            windlass::job::State::Succeeded => succeeded += 1,
            windlass::job::State::Failed => failed += 1,
            _ => {}
        }
    }
    worker.stop().await?;
    println!("{succeeded} succeeded, {failed} failed");
    println!("fewer calls than jobs: {}", calls.load(Ordering::Relaxed) < jobs.len());
    Ok(())
}
