//! A schedule that is created from code, previewed, and fired now.
#![expect(clippy::print_stdout, reason = "an example shows what happens")]

mod common;

use std::error::Error;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use windlass::schedule::{Misfire, NewTrigger, Overlap};
use windlass::{Context, DEFAULT_TENANT, Definition, Done, Failure, Handler, JobArgs, Worker};

#[derive(Serialize, Deserialize, JsonSchema)]
struct Report {
    days: u32,
}

impl JobArgs for Report {
    const KEY: &'static str = "example.schedules";
}

struct Reporter;

impl Handler for Reporter {
    type Args = Report;

    async fn run(&self, _: &Context, args: Report) -> Result<Done, Failure> {
        println!("reported {} days", args.days);
        Ok(Done::new())
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let (queue, _) = common::connect().await?;
    queue.define(&Definition::of::<Report>()).await?;

    let weekly = NewTrigger::schedule("weekly report", "0 6 * * mon", Report::KEY)
        .timezone("Europe/Berlin")
        .payload_template(json!({ "days": 7 }))
        .misfire(Misfire::FireOnce)
        .overlap(Overlap::Skip);
    let trigger = queue.create_trigger(DEFAULT_TENANT, &weekly, "example").await?;
    let next = queue.preview(DEFAULT_TENANT, trigger.id, 3).await?;
    println!("the next {} instants are Mondays at 06:00", next.len());

    // The keeper of any worker fires it on Monday. Here it is fired now, by hand.
    let worker = Worker::builder(&queue).handler(Reporter).start().await?;
    let mut moves = worker.subscribe();
    let fired = queue.run_trigger(DEFAULT_TENANT, trigger.id, None, "example").await?;
    println!("outcome: {}", fired.outcome);
    while !moves.recv().await?.to.is_terminal() {}
    worker.stop().await?;
    queue.delete_trigger(DEFAULT_TENANT, trigger.id, None, "example").await?;
    Ok(())
}
