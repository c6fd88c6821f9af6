//! What other users of the database do: they end sessions, lock and rewrite our tables, keep snapshots open, take all connections, and
//! install windlass again while everything runs.

use std::time::Duration;

use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use tokio::task::JoinSet;

use crate::Result;
use crate::soak::installation::{Installation, command};
use crate::soak::work::LEASE_SECONDS;

/// Tables that every claim, end, enqueue or heartbeat needs.
const TABLES: [&str; 12] = [
    "line",
    "live",
    "deferred",
    "blocked",
    "dependency",
    "ordering",
    "dedupe",
    "tally",
    "job_workers",
    "waiting",
    "lane",
    "pull_lease",
];

pub(super) async fn terminate_backends(installation: &Installation, random: &mut StdRng) -> Result<String> {
    let client = installation.cluster.client().await?;
    let most: i64 = random.random_range(1..10);
    let query = "select count(pg_terminate_backend(pid)) from (
        select pid from pg_stat_activity where backend_type = 'client backend' and pid <> pg_backend_pid()
         order by state = 'active' desc, random() limit $1) chosen";
    let ended: i64 = client.query_one(query, &[&most]).await?.get(0);
    if ended == 0 {
        return Err("there are no sessions".into());
    }
    Ok(format!("{ended} sessions"))
}

/// In the strongest mode, sometimes for longer than a lease.
pub(super) async fn lock_table(installation: &Installation, random: &mut StdRng) -> Result<String> {
    let client = installation.cluster.client().await?;
    let table = TABLES.choose(random).unwrap_or(&TABLES[0]);
    let milliseconds =
        if random.random_bool(0.3) { LEASE_SECONDS * 1000 + 2000 } else { random.random_range(300..3000) };
    let lock =
        format!("begin; set local lock_timeout = '5s'; lock table windlass.{table} in access exclusive mode");
    client.batch_execute(&lock).await?;
    tokio::time::sleep(Duration::from_millis(milliseconds)).await;
    // The session may have been terminated, which releases the lock too.
    let _ = client.batch_execute("commit").await;
    Ok(format!("{table} for {milliseconds} ms"))
}

/// `vacuum full` or `reindex table`.
pub(super) async fn rewrite(installation: &Installation, verb: &str, random: &mut StdRng) -> Result<String> {
    let client = installation.cluster.client().await?;
    let mut tables = Vec::new();
    for _ in 0..4 {
        let table = *TABLES.choose(random).unwrap_or(&TABLES[0]);
        client.batch_execute("set lock_timeout = '5s'; set statement_timeout = '15s'").await?;
        client.batch_execute(&format!("{verb} windlass.{table}")).await?;
        tables.push(table);
    }
    Ok(tables.join(", "))
}

pub(super) async fn long_snapshot(installation: &Installation, random: &mut StdRng) -> Result<String> {
    let client = installation.cluster.client().await?;
    let seconds = random.random_range(5..15);
    client.batch_execute("begin isolation level repeatable read; select count(*) from windlass.line").await?;
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    // The session may have been terminated.
    let _ = client.batch_execute("commit").await;
    Ok(format!("{seconds} s"))
}

/// As many connections as the server accepts, for a moment.
pub(super) async fn storm(installation: &Installation) -> Result<String> {
    let mut opening = JoinSet::new();
    for _ in 0..150 {
        let url = installation.cluster.url(installation.cluster.port);
        opening.spawn(async move { crate::database::connect(&url).await });
    }
    let mut open = Vec::new();
    while let Some(opened) = opening.join_next().await {
        open.extend(opened?.ok());
    }
    if open.is_empty() {
        return Err("the server accepts no connections".into());
    }
    tokio::time::sleep(Duration::from_millis(1500)).await;
    Ok(format!("{} connections", open.len()))
}

/// Finds that there is nothing to do, or repairs what is missing.
pub(super) async fn migrate(installation: &Installation) -> Result<String> {
    let url = installation.cluster.url(installation.cluster.port);
    Ok(command(&installation.windlass, &url, &["migrate"]).await?.trim().to_owned())
}

/// All functions and views are replaced.
pub(super) async fn install_functions(installation: &Installation) -> Result<String> {
    let client = installation.cluster.client().await?;
    client.batch_execute("update windlass.installed_functions set checksum = 'soak'").await?;
    migrate(installation).await
}
