//! A job that exists if and only if the transaction that enqueued it commits.
#![expect(clippy::print_stdout, reason = "an example shows what happens")]

mod common;

use std::error::Error;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windlass::{Context, Definition, Done, Failure, Handler, JobArgs, Worker};

#[derive(Serialize, Deserialize, JsonSchema)]
struct Resize {
    image: i64,
}

impl JobArgs for Resize {
    const KEY: &'static str = "example.transactional_enqueue";
}

struct Resizer;

impl Handler for Resizer {
    type Args = Resize;

    async fn run(&self, _: &Context, args: Resize) -> Result<Done, Failure> {
        println!("resized image {}", args.image);
        Ok(Done::new())
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let (queue, url) = common::connect().await?;
    queue.define(&Definition::of::<Resize>()).await?;
    let (mut client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await?;
    tokio::spawn(connection);
    client.batch_execute("create temporary table image (id bigint)").await?;

    // Rolled back: neither the image nor the job exists.
    let tx = client.transaction().await?;
    tx.execute("insert into image values (1)", &[]).await?;
    windlass::enqueue_in(&tx, &Resize { image: 1 }).await?;
    tx.rollback().await?;
    println!("rolled back image 1");

    // Committed: both exist.
    let tx = client.transaction().await?;
    tx.execute("insert into image values (2)", &[]).await?;
    windlass::enqueue_in(&tx, &Resize { image: 2 }).await?;
    tx.commit().await?;
    println!("committed image 2");

    let worker = Worker::builder(&queue).handler(Resizer);
    let worker = worker.start().await?;
    let mut moves = worker.subscribe();
    while !moves.recv().await?.to.is_terminal() {}
    worker.stop().await?;
    Ok(())
}
