//! The raw limits: how fast this server writes rows of the same width and keys with plain SQL.
//!
//! Every loop runs inside the server on two connections. The lifecycle limit is the rate at which the four rows of a job could be
//! written one after the other: 1 / (the sum of the four times per row).

use std::time::Instant;

use tokio::task::JoinSet;
use tokio_postgres::Client;
use tokio_postgres::types::Json;
use uuid::Uuid;
use windlass::DEFAULT_TENANT;

use crate::Result;
use crate::database::connect;
use crate::figures::Raw;
use crate::noop;
use crate::repeated::Repeated;
use crate::server::Server;

const TABLES: &str = include_str!("raw/tables.sql");
const LOOPS: &str = include_str!("raw/loops.sql");

const CONNECTIONS: i32 = 2;
const BATCH: i32 = 500;
const BULK_BATCH: i32 = 1000;
const SINGLE_CALLERS: usize = 32;

pub(crate) struct RawPlan {
    /// Rows per loop.
    pub(crate) rows: i32,
    pub(crate) single_commits: u64,
}

/// The results of the rounds. They alternate with the rounds of windlass, so that a slow phase of the machine affects both.
#[derive(Default)]
pub(crate) struct Samples {
    body: Repeated,
    live: Repeated,
    delete: Repeated,
    attempt: Repeated,
    bulk: Repeated,
    single: Repeated,
}

impl Samples {
    pub(crate) fn figures(&self) -> Raw {
        let mut raw = Raw {
            insert_body: self.body.figure(),
            insert_live: self.live.figure(),
            delete_live: self.delete.figure(),
            append_attempt: self.attempt.figure(),
            lifecycle_limit: None,
            insert_bulk: self.bulk.figure(),
            single_commits_32: self.single.figure(),
        };
        raw.lifecycle_limit = lifecycle_limit(&raw);
        raw
    }
}

/// One round of the server-side loops, in a new database.
pub(crate) async fn loops(server: &Server, url: &str, plan: &RawPlan, samples: &mut Samples) -> Result<()> {
    let bench = Bench { server, url, rows: plan.rows, admin: connect(url).await? };
    bench.prepare().await?;
    if samples.body.is_empty() {
        // Discarded: on a new server the first half gigabyte of WAL creates its files, which halved the rate of the first
        // measurement.
        bench.rate("insert_body", BATCH).await?;
    }
    bench.empty().await?;
    samples.body.measure(bench.rate("insert_body", BATCH)).await?;
    samples.live.measure(bench.rate("insert_live", BATCH)).await?;
    samples.delete.measure(bench.rate("delete_live", BATCH)).await?;
    samples.attempt.measure(bench.rate("append_attempt", BATCH)).await?;
    bench.empty().await?;
    samples.bulk.measure(bench.rate("insert_body", BULK_BATCH)).await?;
    Ok(())
}

/// One round of single commits, in the database that the loops have prepared.
pub(crate) async fn singles(server: &Server, url: &str, plan: &RawPlan, samples: &mut Samples) -> Result<()> {
    Bench { server, url, rows: plan.rows, admin: connect(url).await? }.empty().await?;
    samples.single.measure(single_commits(url, plan.single_commits)).await?;
    Ok(())
}

/// Prepares a new database for [`bulk_insert`] and [`single_inserts`].
pub(crate) async fn prepare(server: &Server, url: &str, plan: &RawPlan) -> Result<()> {
    Bench { server, url, rows: plan.rows, admin: connect(url).await? }.prepare().await
}

/// Bodies per second, 1000 per transaction.
pub(crate) async fn bulk_insert(server: &Server, url: &str, plan: &RawPlan) -> Result<f64> {
    Bench { server, url, rows: plan.rows, admin: connect(url).await? }.rate("insert_body", BULK_BATCH).await
}

/// Bodies per second, one per transaction, over 32 connections.
pub(crate) async fn single_inserts(url: &str, plan: &RawPlan) -> Result<f64> {
    single_commits(url, plan.single_commits).await
}

fn lifecycle_limit(raw: &Raw) -> Option<f64> {
    let seconds = [raw.insert_body?, raw.insert_live?, raw.delete_live?, raw.append_attempt?].map(f64::recip);
    Some(seconds.iter().sum::<f64>().recip())
}

struct Bench<'a> {
    server: &'a Server,
    url: &'a str,
    rows: i32,
    admin: Client,
}

impl Bench<'_> {
    async fn prepare(&self) -> Result<()> {
        self.admin.batch_execute(TABLES).await?;
        self.admin.batch_execute(LOOPS).await?;
        let fill = "insert into raw.source
            select n, raw.id_at((extract(epoch from clock_timestamp()) * 1000)::bigint + n / 400)
              from generate_series(1, $1) n";
        self.admin.execute(fill, &[&self.rows]).await?;
        self.admin.batch_execute("vacuum analyze raw.source").await?;
        Ok(())
    }

    /// Every loop starts with empty tables right after a checkpoint, as every phase of the suite does.
    async fn empty(&self) -> Result<()> {
        self.admin.batch_execute("truncate raw.body, raw.live, raw.attempt").await?;
        self.server.settle_down().await
    }

    /// Rows per second of a loop, all connections together.
    async fn rate(&self, procedure: &str, batch: i32) -> Result<f64> {
        let mut clients = Vec::new();
        for _ in 0..CONNECTIONS {
            let client = connect(self.url).await?;
            // The source must be read in key order, regardless of the statistics of a new table.
            client.batch_execute("set enable_seqscan = off; set enable_bitmapscan = off").await?;
            client.batch_execute("set enable_hashjoin = off; set enable_mergejoin = off").await?;
            clients.push(client);
        }
        let payload = match procedure {
            "insert_body" => format!(", '{}'", noop::payload()),
            _ => String::new(),
        };
        let part = self.rows / CONNECTIONS;
        let began = Instant::now();
        let mut calls = JoinSet::new();
        for (position, client) in (0..).zip(clients) {
            let (first, last) = (position * part + 1, (position + 1) * part);
            let call = format!("call raw.{procedure}({first}, {last}, {batch}{payload})");
            calls.spawn(async move { client.batch_execute(&call).await });
        }
        while let Some(call) = calls.join_next().await {
            call??;
        }
        Ok(f64::from(part * CONNECTIONS) / began.elapsed().as_secs_f64())
    }
}

/// Single-row inserts of the body, one commit each, by this client with a connection and a prepared statement per caller.
async fn single_commits(url: &str, count: u64) -> Result<f64> {
    let each = count / SINGLE_CALLERS as u64;
    let mut callers = Vec::new();
    for _ in 0..SINGLE_CALLERS {
        let client = connect(url).await?;
        let insert = client
            .prepare(
                "insert into raw.body (tenant_id, id, created_at, lane, source, max_attempts, line_seq, payload)
                 values ($1, $2, clock_timestamp(), 1, 1, 25, 64, $3)",
            )
            .await?;
        callers.push((client, insert));
    }
    let payload = serde_json::value::RawValue::from_string(noop::payload())?;
    let began = Instant::now();
    let mut calls = JoinSet::new();
    for (client, insert) in callers {
        let payload = payload.clone();
        calls.spawn(async move {
            for _ in 0..each {
                client.execute(&insert, &[&DEFAULT_TENANT, &Uuid::now_v7(), &Json(&*payload)]).await?;
            }
            Ok::<(), tokio_postgres::Error>(())
        });
    }
    while let Some(call) = calls.join_next().await {
        call??;
    }
    Ok((each * SINGLE_CALLERS as u64) as f64 / began.elapsed().as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::{Raw, lifecycle_limit};

    #[test]
    fn the_lifecycle_limit_is_one_over_the_sum_of_the_times() {
        let four = Some(400_000.0);
        let raw = Raw {
            insert_body: four,
            insert_live: four,
            delete_live: four,
            append_attempt: four,
            ..Raw::default()
        };
        assert!((lifecycle_limit(&raw).unwrap() - 100_000.0).abs() < 1e-6);
        assert_eq!(lifecycle_limit(&Raw::default()), None);
    }
}
