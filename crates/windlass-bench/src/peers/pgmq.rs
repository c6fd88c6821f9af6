//! PGMQ, whose functions are called from here: a consumer reads a batch with a visibility timeout, and deletes or archives the
//! previous one by its array of ids in the same transaction, which is its cheapest way to end many messages.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;
use serde_json::value::RawValue;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_postgres::types::{Json, ToSql};
use tokio_postgres::{AsyncMessage, Client, NoTls, Statement};

use super::child::{Child, ChildCall};
use super::system::Measure;
use crate::Result;
use crate::database::connect;
use crate::noop;

const CONSUMERS: usize = 2;
const BULK_BATCH: u64 = 1000;
const STEADY_BATCH: u64 = 500;
const STEADY_CAP: u64 = 20_000;
const READ: &str = "select msg_id, message from pgmq.read('bench', 30, 500)";
const START_TIMEOUT: Duration = Duration::from_secs(30);

#[derive(Debug, Clone)]
pub(super) struct Pgmq {
    url: String,
    end: &'static str,
}

/// Shared by the producers and the consumers.
#[derive(Debug, Default)]
struct Flow {
    promised: AtomicU64,
    handled: AtomicU64,
    is_over: AtomicBool,
}

impl Pgmq {
    pub(super) fn deleting(url: &str) -> Self {
        Self { url: url.to_owned(), end: "select count(*) from pgmq.delete('bench', $1::bigint[])" }
    }

    pub(super) fn archiving(url: &str) -> Self {
        Self { url: url.to_owned(), end: "select count(*) from pgmq.archive('bench', $1::bigint[])" }
    }

    /// Installs it from its SQL file, and creates the queue.
    pub(super) async fn init(url: &str, sql: &str) -> Result<()> {
        let client = connect(url).await?;
        client.batch_execute(sql).await?;
        Ok(client.batch_execute("select pgmq.create('bench')").await?)
    }

    pub(super) async fn run(&self, call: &ChildCall) -> Result<Child> {
        let (n, callers) = (call.count, call.callers);
        match call.measure {
            Measure::Bulk => self.enqueue(n, callers, BULK_BATCH).await,
            Measure::Single => self.enqueue(n, callers, 1).await,
            Measure::Drain => self.drain(n).await,
            Measure::Steady => self.steady(n, callers).await,
            Measure::Latency => self.latency(n).await,
        }
    }

    async fn enqueue(&self, n: u64, callers: usize, batch: u64) -> Result<Child> {
        let mut producers = Vec::new();
        for _ in 0..callers {
            producers.push(Producer::connect(&self.url, batch).await?);
        }
        let taken = Arc::new(AtomicU64::new(0));
        let began = Instant::now();
        let mut calls: JoinSet<Result<()>> = JoinSet::new();
        for producer in producers {
            let taken = taken.clone();
            calls.spawn(async move {
                loop {
                    let first = taken.fetch_add(batch, Ordering::Relaxed);
                    if first >= n {
                        return Ok(());
                    }
                    producer.send(batch.min(n - first)).await?;
                }
            });
        }
        join(calls).await?;
        Ok(result(n, began))
    }

    async fn drain(&self, n: u64) -> Result<Child> {
        let flow = Arc::new(Flow::default());
        flow.is_over.store(true, Ordering::Relaxed);
        let consumers = self.consumers().await?;
        let began = Instant::now();
        join(start(consumers, &flow)).await?;
        let result = result(flow.handled.load(Ordering::Relaxed), began);
        let left = connect(&self.url).await?.query_one("select count(*) from pgmq.q_bench", &[]).await?;
        let left: i64 = left.get(0);
        if left > 0 || result.n < n {
            return Err(format!("{} of {n} messages were read, and {left} are left", result.n).into());
        }
        Ok(result)
    }

    async fn steady(&self, seconds: u64, callers: usize) -> Result<Child> {
        let flow = Arc::new(Flow::default());
        let mut producers = Vec::new();
        for _ in 0..callers {
            producers.push(Producer::connect(&self.url, STEADY_BATCH).await?);
        }
        let consumers = self.consumers().await?;
        let began = Instant::now();
        let mut calls = start(consumers, &flow);
        for producer in producers {
            let flow = flow.clone();
            calls.spawn(async move { produce(&producer, &flow).await });
        }
        let over = tokio::time::sleep(Duration::from_secs(seconds));
        tokio::select! {
            () = over => {}
            // Until the time is over, they end only with an error.
            Some(ended) = calls.join_next() => ended??,
        }
        let rate = flow.handled.load(Ordering::Relaxed) as f64 / began.elapsed().as_secs_f64();
        flow.is_over.store(true, Ordering::Relaxed);
        join(calls).await?;
        let n = flow.handled.load(Ordering::Relaxed);
        Ok(Child { seconds: n as f64 / rate.max(1e-9), ..result(n, began) })
    }

    /// With a notification of every insert.
    async fn latency(&self, n: u64) -> Result<Child> {
        let producer = Producer::connect(&self.url, 1).await?;
        producer.client.batch_execute("select pgmq.enable_notify_insert('bench', 0)").await?;
        let (started, mut starts) = mpsc::unbounded_channel();
        let (client, mut connection) = tokio_postgres::connect(&self.url, NoTls).await?;
        let (notify, mut notified) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            while let Some(Ok(message)) = std::future::poll_fn(|cx| connection.poll_message(cx)).await {
                if let AsyncMessage::Notification(_) = message {
                    // The receiver is dropped at the end.
                    let _ = notify.send(());
                }
            }
        });
        client.batch_execute("listen \"pgmq.q_bench.INSERT\"").await?;
        let consumer = Consumer::of(client, self.end).await?;
        let consuming: tokio::task::JoinHandle<Result<()>> = tokio::spawn(async move {
            loop {
                // Without a notification, it polls once a second.
                let _ = tokio::time::timeout(Duration::from_secs(1), notified.recv()).await;
                let ids = ids(&consumer.client.query(&consumer.read, &[]).await?)?;
                for _ in &ids {
                    let _ = started.send(Instant::now());
                }
                if !ids.is_empty() {
                    consumer.client.query_one(&consumer.end, &[&ids]).await?;
                }
            }
        });
        let began = Instant::now();
        let mut ms = Vec::new();
        for position in 0..n + 3 {
            tokio::time::sleep(Duration::from_millis(rand::random_range(5..55))).await;
            producer.send(1).await?;
            let acknowledged = Instant::now();
            let start = tokio::time::timeout(START_TIMEOUT, starts.recv()).await;
            let start = start.map_err(|_| "a message was not read in time")?.ok_or("the consumer ended")?;
            // The first ones include preparing the statements.
            if position >= 3 {
                ms.push(start.saturating_duration_since(acknowledged).as_secs_f64() * 1000.0);
            }
        }
        consuming.abort();
        Ok(Child { ms, ..result(n, began) })
    }

    async fn consumers(&self) -> Result<Vec<Consumer>> {
        let mut consumers = Vec::new();
        for _ in 0..CONSUMERS {
            consumers.push(Consumer::of(connect(&self.url).await?, self.end).await?);
        }
        Ok(consumers)
    }
}

struct Producer {
    client: Client,
    send: Statement,
    payload: Box<RawValue>,
    is_batch: bool,
}

impl Producer {
    async fn connect(url: &str, batch: u64) -> Result<Self> {
        let client = connect(url).await?;
        let is_batch = batch > 1;
        let (name, kind) = if is_batch { ("send_batch", "jsonb[]") } else { ("send", "jsonb") };
        let send = client.prepare(&format!("select * from pgmq.{name}('bench', $1::{kind})")).await?;
        Ok(Self { client, send, payload: RawValue::from_string(noop::payload())?, is_batch })
    }

    async fn send(&self, count: u64) -> Result<()> {
        if self.is_batch {
            let messages: Vec<Json<&RawValue>> = (0..count).map(|_| Json(&*self.payload)).collect();
            self.client.query(&self.send, &[&messages]).await?;
        } else {
            self.client.query_one(&self.send, &[&Json(&*self.payload)]).await?;
        }
        Ok(())
    }
}

async fn produce(producer: &Producer, flow: &Flow) -> Result<()> {
    while !flow.is_over.load(Ordering::Relaxed) {
        let promised = flow.promised.fetch_add(STEADY_BATCH, Ordering::Relaxed) + STEADY_BATCH;
        if promised.saturating_sub(flow.handled.load(Ordering::Relaxed)) > STEADY_CAP {
            flow.promised.fetch_sub(STEADY_BATCH, Ordering::Relaxed);
            tokio::time::sleep(Duration::from_millis(1)).await;
            continue;
        }
        producer.send(STEADY_BATCH).await?;
    }
    Ok(())
}

struct Consumer {
    client: Client,
    read: Statement,
    end: Statement,
}

impl Consumer {
    async fn of(client: Client, end: &str) -> Result<Self> {
        let (read, end) = (client.prepare(READ).await?, client.prepare(end).await?);
        Ok(Self { client, read, end })
    }

    /// Ends with the first empty read after `is_over`.
    async fn consume(&self, flow: &Flow) -> Result<()> {
        let mut ended: Vec<i64> = Vec::new();
        loop {
            let client = &self.client;
            let rows = if ended.is_empty() {
                client.query(&self.read, &[]).await?
            } else {
                let parameters: [&(dyn ToSql + Sync); 1] = [&ended];
                // All four are sent at once.
                let (_, _, rows, _) = tokio::try_join!(
                    client.batch_execute("begin"),
                    client.query_one(&self.end, &parameters),
                    client.query(&self.read, &[]),
                    client.batch_execute("commit"),
                )?;
                rows
            };
            ended = ids(&rows)?;
            flow.handled.fetch_add(ended.len() as u64, Ordering::Relaxed);
            if ended.is_empty() {
                if flow.is_over.load(Ordering::Relaxed) {
                    return Ok(());
                }
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
    }
}

/// The ids of messages, whose payloads are parsed as for a handler.
fn ids(rows: &[tokio_postgres::Row]) -> Result<Vec<i64>> {
    let read = rows.iter().map(|row| {
        let Json(_): Json<Value> = row.try_get(1)?;
        Ok(row.try_get(0)?)
    });
    read.collect()
}

fn start(consumers: Vec<Consumer>, flow: &Arc<Flow>) -> JoinSet<Result<()>> {
    let mut calls = JoinSet::new();
    for consumer in consumers {
        let flow = flow.clone();
        calls.spawn(async move { consumer.consume(&flow).await });
    }
    calls
}

async fn join(mut calls: JoinSet<Result<()>>) -> Result<()> {
    while let Some(ended) = calls.join_next().await {
        ended??;
    }
    Ok(())
}

fn result(n: u64, began: Instant) -> Child {
    Child { n, seconds: began.elapsed().as_secs_f64(), cpu_seconds: 0.0, ms: Vec::new() }
}
