//! Jobs that are accepted once: by their payload for some time, or by a key while one is active.
#![expect(clippy::print_stdout, reason = "an example shows what happens")]

mod common;

use std::error::Error;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windlass::job::Unique;
use windlass::{Definition, JobArgs};

#[derive(Serialize, Deserialize, JsonSchema)]
struct Remind {
    user: u32,
}

impl JobArgs for Remind {
    const KEY: &'static str = "example.unique_jobs";
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let (queue, _) = common::connect().await?;
    queue.define(&Definition::of::<Remind>()).await?;
    let user = std::process::id();

    // The same definition and payload within a minute is one job.
    let minute = Duration::from_secs(60);
    let first = queue.enqueue(Remind { user }.job().unique_for(minute)).await?;
    let second = queue.enqueue(Remind { user }.job().unique_for(minute)).await?;
    println!("by payload: duplicate {}, same job {}", second.is_duplicate, first.id == second.id);

    // A key of your own, held until the job has ended.
    let keyed = || Remind { user }.job().dedupe_key(format!("remind {user}")).unique(Unique::Active);
    let first = queue.enqueue(keyed()).await?;
    let second = queue.enqueue(keyed()).await?;
    println!("by key: duplicate {}, same job {}", second.is_duplicate, first.id == second.id);
    Ok(())
}
