//! The cost of deleting old history: the same steady run without and with a history past its retention, alternating on one
//! database, and the speed of pruning alone.

use std::time::{Duration, Instant};

use tokio_postgres::Client;
use windlass::keeper::{Duty, Keeper, KeeperSettings};
use windlass::{Definition, Queue, Settings};

use crate::driver::{SteadyPlan, steady};
use crate::percentile::median;
use crate::server::Server;
use crate::suite::fill;
use crate::{Result, database};

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct PrunePlan {
    /// Finished jobs that are past their retention.
    pub(crate) history: u64,
    pub(crate) rounds: u64,
    /// The duration of each steady run.
    pub(crate) seconds: u64,
}

/// The old jobs have their own definition, so that the jobs of the steady run are not pruned with them.
const KEY: &str = "bench.old";

pub(crate) async fn run(plan: &PrunePlan) -> Result<()> {
    let server = Server::start().await?;
    let url = server.fresh_database().await?;
    let queue = Queue::connect(Settings::new(&url)?.connections(2)).await?;
    queue.define(&Definition::new(KEY)).await?;
    eprintln!("creating {} finished jobs", plan.history);
    fill(&url, KEY, plan.history).await?;
    let client = database::connect(&url).await?;
    let keeper = Keeper::new(queue, KeeperSettings::default());
    // The first prune searches the beginning of the history, once.
    past_retention(&client, true).await?;
    keeper.run_once(Duty::Prune).await?;

    let (mut without, mut with, mut pruned_per_s) = (Vec::new(), Vec::new(), Vec::new());
    for round in 1..=plan.rounds {
        // The order alternates, so that neither always has the newer database.
        let order = if round % 2 == 1 { [false, true] } else { [true, false] };
        for prunes in order {
            past_retention(&client, prunes).await?;
            server.settle_down().await?;
            let before = pruned(&client).await?;
            let began = Instant::now();
            let rate = steady(&url, &steady_plan(plan), std::future::pending(), |_| {}).await?.rate;
            let each_second = (pruned(&client).await? - before) as f64 / began.elapsed().as_secs_f64();
            eprintln!(
                "round {round} of {}, pruning {prunes}: {rate:.0}/s, {each_second:.0} pruned/s",
                plan.rounds
            );
            if prunes {
                with.push(rate);
                pruned_per_s.push(each_second);
            } else {
                without.push(rate);
            }
        }
    }
    past_retention(&client, true).await?;
    let alone_per_s = alone(&keeper, Duration::from_secs(plan.seconds)).await?;
    server.stop().await?;
    let [without, with, pruned] =
        [&without, &with, &pruned_per_s].map(|rates| median(rates).unwrap_or_default());
    let PrunePlan { history, rounds, seconds } = plan;
    println!(
        "{{\"steady_per_s\": {without:.0}, \"steady_while_pruning_per_s\": {with:.0}, \"ratio\": {:.3}, \
         \"pruned_per_s\": {pruned:.0}, \"pruned_alone_per_s\": {alone_per_s:.0}, \"history\": {history}, \
         \"rounds\": {rounds}, \"seconds\": {seconds}}}",
        with / without
    );
    Ok(())
}

fn steady_plan(plan: &PrunePlan) -> SteadyPlan {
    let seconds = plan.seconds;
    SteadyPlan { seconds, cap: 20_000, batch: 500, callers: 2, at_least: 0, most_seconds: seconds }
}

/// Sets whether the old jobs are past their retention. Not with `define`, which does not remove a rule.
async fn past_retention(client: &Client, is_past: bool) -> Result<()> {
    let retention = if is_past { r#"{"succeeded": 0}"# } else { "{}" };
    let set = format!("update windlass.job_definitions set retention = '{retention}' where key = '{KEY}'");
    client.batch_execute(&set).await?;
    Ok(())
}

async fn pruned(client: &Client) -> Result<u64> {
    let moved = "select coalesce(sum(moved), 0)::bigint from windlass.keeper_mark where duty like 'prune %'";
    Ok(u64::try_from(client.query_one(moved, &[]).await?.get::<_, i64>(0))?)
}

/// Batch after batch, without other load.
async fn alone(keeper: &Keeper, at_most: Duration) -> Result<f64> {
    let began = Instant::now();
    let mut moved = 0;
    while began.elapsed() < at_most {
        let round = keeper.run_once(Duty::Prune).await?;
        moved += round.moved;
        if !round.is_full {
            break;
        }
    }
    Ok(moved as f64 / began.elapsed().as_secs_f64())
}
