//! Handlers that share what is expensive to create: here a connection and a counter.
#![expect(clippy::print_stdout, reason = "an example shows what happens")]

mod common;

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windlass::{Context, Done, Failure, Handler, JobArgs, Worker};

/// Created once, used by every run of every handler.
struct Shared {
    client: tokio_postgres::Client,
    runs: AtomicU64,
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Add {
    one: i32,
    other: i32,
}

impl JobArgs for Add {
    const KEY: &'static str = "example.shared_state.add";
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Greet {
    name: String,
}

impl JobArgs for Greet {
    const KEY: &'static str = "example.shared_state.greet";
}

struct Adder(Arc<Shared>);

impl Handler for Adder {
    type Args = Add;

    async fn run(&self, _: &Context, args: Add) -> Result<Done, Failure> {
        self.0.runs.fetch_add(1, Ordering::Relaxed);
        let row = self.0.client.query_one("select $1::integer + $2", &[&args.one, &args.other]).await?;
        let sum: i32 = row.get(0);
        println!("{} + {} = {sum}", args.one, args.other);
        Ok(Done::new().result(&sum))
    }
}

struct Greeter(Arc<Shared>);

impl Handler for Greeter {
    type Args = Greet;

    async fn run(&self, _: &Context, args: Greet) -> Result<Done, Failure> {
        self.0.runs.fetch_add(1, Ordering::Relaxed);
        println!("hello, {}", args.name);
        Ok(Done::new())
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let (queue, url) = common::connect().await?;
    let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await?;
    tokio::spawn(connection);
    let shared = Arc::new(Shared { client, runs: AtomicU64::new(0) });

    let worker = Worker::builder(&queue)
        .handler(Adder(shared.clone()))
        .handler(Greeter(shared.clone()))
        .start()
        .await?;
    let mut moves = worker.subscribe();
    queue.enqueue(Add { one: 2, other: 3 }).await?;
    queue.enqueue(Greet { name: "Ada".to_owned() }).await?;
    let mut ended = 0;
    while ended < 2 {
        ended += u32::from(moves.recv().await?.to.is_terminal());
    }
    worker.stop().await?;
    println!("{} runs", shared.runs.load(Ordering::Relaxed));
    Ok(())
}
