//! A server that is killed completely, with its own data.

use std::fs;

use rustix::process::{Pid, Signal, kill_process};
use windlass::setup::embedded::{Options, Postgres, ServerSource};
use windlass::{Definition, Queue};
use windlass_testing::{eventually, settings};

use super::accounting::{make_effect_table, settle_accounts};
use super::fleet::Fleet;
use super::load::{Enqueuers, job};
use crate::embedded::scratch::{Scratch, connect};

/// Invariants 9 to 11, 15 and 16: twice in a row the server dies under producers and workers, and restarts.
#[tokio::test(flavor = "multi_thread")]
async fn a_killed_server_loses_nothing_it_acknowledged() {
    let (scratch, fleet) = (Scratch::new(), Fleet::new());
    let options = options(&scratch, "on");
    let mut postgres = Postgres::start(&options).await.unwrap();
    windlass::migrate(&settings(&postgres.url())).await.unwrap();
    make_effect_table(&connect(&postgres.url()).await).await;
    let queue = Queue::connect(settings(&postgres.url())).await.unwrap();
    let workers = [fleet.spawn(&postgres.url(), &[]).await, fleet.spawn(&postgres.url(), &[]).await];
    let (mut acked, mut sent) = (Vec::new(), Vec::new());
    for _ in 0..2 {
        let enqueuers = Enqueuers::start(&queue, 4, |number| match number % 10 {
            0 => job("effect", 20),
            _ => job("work", 20),
        });
        eventually("some are acknowledged", async || enqueuers.acked() >= 300).await;
        kill_server(&postgres);
        let url = postgres.url();
        postgres = Postgres::start(&options).await.unwrap();
        assert_eq!(postgres.url(), url);
        let (more_acked, more_sent) = enqueuers.finish().await;
        acked.extend(more_acked);
        sent.extend(more_sent);
    }
    let books = settle_accounts(&connect(&postgres.url()).await, &fleet, &acked, &sent).await;
    for worker in workers {
        worker.finish().await;
    }
    assert!(acked.len() >= 600 && books.overlaps == 0, "{books:?}");
    postgres.stop().await.unwrap();
}

/// Invariant 9 where the database's default does not guarantee durability: our functions set it. No worker runs while jobs are
/// enqueued, because each of its commits would make the earlier ones durable too.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_with_asynchronous_commit_loses_nothing_it_acknowledged() {
    let (scratch, fleet) = (Scratch::new(), Fleet::new());
    let options = options(&scratch, "off");
    let mut postgres = Postgres::start(&options).await.unwrap();
    windlass::migrate(&settings(&postgres.url())).await.unwrap();
    let queue = Queue::connect(settings(&postgres.url())).await.unwrap();
    queue.define(&Definition::new("work")).await.unwrap();
    let (mut acked, mut sent) = (Vec::new(), Vec::new());
    for _ in 0..3 {
        let enqueuers = Enqueuers::start(&queue, 4, |number| match number % 3 {
            0 => job("work", 0).dedupe_key(format!("key {}", uuid::Uuid::new_v4())),
            1 => job("work", 0).tag("tagged"),
            _ => job("work", 0),
        });
        eventually("some are acknowledged", async || enqueuers.acked() >= 200).await;
        kill_server(&postgres);
        postgres = Postgres::start(&options).await.unwrap();
        let (more_acked, more_sent) = enqueuers.finish().await;
        acked.extend(more_acked);
        sent.extend(more_sent);
    }
    let worker = fleet.spawn(&postgres.url(), &[("--concurrency", "100")]).await;
    settle_accounts(&connect(&postgres.url()).await, &fleet, &acked, &sent).await;
    worker.finish().await;
    postgres.stop().await.unwrap();
}

fn options(scratch: &Scratch, synchronous_commit: &str) -> Options {
    let settings = vec![("synchronous_commit".into(), synchronous_commit.into())];
    scratch.options().source(ServerSource::System).settings(settings)
}

/// The postmaster first, so that it cannot clean up, then its children.
fn kill_server(postgres: &Postgres) {
    let text = fs::read_to_string(postgres.data_dir().join("postmaster.pid")).unwrap();
    let postmaster: i32 = text.lines().next().unwrap().trim().parse().unwrap();
    let children = fs::read_to_string(format!("/proc/{postmaster}/task/{postmaster}/children")).unwrap();
    let children = children.split_whitespace().map(|pid| pid.parse::<i32>().unwrap());
    for pid in std::iter::once(postmaster).chain(children) {
        // A backend may have ended in the meantime.
        let _ = kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL);
    }
}
