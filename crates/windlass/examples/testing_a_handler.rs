//! The test kit: a handler without a database, and a queue in a throw-away database. In an application this is a `#[tokio::test]`.
#![expect(clippy::print_stdout, reason = "an example shows what happens")]

use std::error::Error;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windlass::job::State;
use windlass::testing::{self, TestAttempt};
use windlass::{Context, Definition, Done, Failure, Handler, JobArgs, NewJob};

#[derive(Serialize, Deserialize, JsonSchema)]
struct Charge {
    cents: u32,
}

impl JobArgs for Charge {
    const KEY: &'static str = "example.testing_a_handler";
}

struct Charger;

impl Handler for Charger {
    type Args = Charge;

    async fn run(&self, job: &Context, args: Charge) -> Result<Done, Failure> {
        if args.cents == 0 {
            return Err(Failure::permanent("nothing to charge"));
        }
        if job.failures() == 0 {
            return Err(Failure::retry("the bank is busy"));
        }
        Ok(Done::new().then(NewJob::new("receipt")))
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    // Without a database.
    let ran = testing::run(&Charger, Charge { cents: 0 }).await;
    println!("without money the job is {}", ran.state());
    let ran = TestAttempt::new(Charge { cents: 100 }).failures(1).run(&Charger).await;
    println!("the second attempt {} and enqueues {} job", ran.outcome(), ran.next().len());

    // In a database of its own.
    let database = testing::database().await?;
    for definition in [Definition::of::<Charge>(), Definition::new("receipt")] {
        database.queue().define(&definition).await?;
    }
    let mut client = database.client().await?;
    let tx = client.transaction().await?;
    windlass::enqueue_in(&tx, &Charge { cents: 100 }).await?;
    testing::assert_enqueued(&tx, |charge: &Charge| charge.cents == 100).await;
    tx.commit().await?;

    let first = database.drain(|worker| worker.handler(Charger)).await?;
    println!("after the first attempt the job is {}", first[0].state);
    database.advance(Duration::from_secs(3600)).await?;
    let second = database.drain(|worker| worker.handler(Charger)).await?;
    assert_eq!(second[0].state, State::Succeeded);
    println!("an hour later it is {}", second[0].state);
    Ok(())
}
