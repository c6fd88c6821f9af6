//! The measured tenant: it performs one operation after the other, and records the time of each.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use tokio::sync::mpsc::UnboundedReceiver;
use tokio_postgres::Client;
use uuid::Uuid;
use windlass::Queue;
use windlass::job::Filter;

use crate::Result;
use crate::api::Connection;
use crate::noop;

/// Between two rounds.
const PAUSE: Duration = Duration::from_millis(10);
/// The timeout for the start of a job.
const MAX_WAIT: Duration = Duration::from_secs(60);

pub(super) struct Ordinary {
    queue: Queue,
    tenant: Uuid,
    connection: Connection,
    token: String,
    /// The start times of the jobs of this tenant.
    starts: UnboundedReceiver<(Uuid, Instant)>,
    times: BTreeMap<&'static str, Vec<f64>>,
    refused: u64,
    /// For the comparison query.
    raw: Client,
}

impl Ordinary {
    pub(super) async fn new(
        queue: Queue,
        tenant: Uuid,
        address: &str,
        token: String,
        starts: UnboundedReceiver<(Uuid, Instant)>,
        raw: Client,
    ) -> Result<Self> {
        let connection = Connection::open(address).await?;
        Ok(Self { queue, tenant, connection, token, starts, times: BTreeMap::new(), refused: 0, raw })
    }

    /// Runs for this long, at least one round; returns the milliseconds of each operation, and the number of rejected requests.
    pub(super) async fn work(&mut self, lasts: Duration) -> Result<(BTreeMap<&'static str, Vec<f64>>, u64)> {
        let began = Instant::now();
        let payload = noop::payload();
        loop {
            self.round(&payload).await?;
            if began.elapsed() >= lasts {
                return Ok((std::mem::take(&mut self.times), std::mem::take(&mut self.refused)));
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn round(&mut self, payload: &str) -> Result<()> {
        let began = Instant::now();
        self.raw.execute("select 1", &[]).await?;
        self.record("raw_select", began.elapsed());
        self.call("http_live", "GET", "/health/live", "").await?;
        let began = Instant::now();
        let job = self.queue.enqueue(&noop::new_job(payload, Some(self.tenant))).await?.id;
        let acked = Instant::now();
        self.record("enqueue", acked - began);
        let started = self.start_of(job).await?;
        self.record("run", started.saturating_duration_since(acked));
        let began = Instant::now();
        self.queue.list(&Filter::new(self.tenant).mentions("work work").limit(20)).await?;
        self.record("search", began.elapsed());
        let body = format!("{{\"definition_key\":\"{}\",\"payload\":{payload}}}", noop::KEY);
        self.call("http_enqueue", "POST", "/api/v1/jobs", &body).await?;
        self.call("http_job", "GET", &format!("/api/v1/jobs/{job}"), "").await?;
        self.call("http_list", "GET", "/api/v1/jobs?limit=20", "").await?;
        self.call("http_summary", "GET", "/api/v1/jobs/summary", "").await
    }

    async fn start_of(&mut self, job: Uuid) -> Result<Instant> {
        let arrives = async {
            while let Some((id, at)) = self.starts.recv().await {
                if id == job {
                    return Ok(at);
                }
            }
            Err("the worker has stopped".into())
        };
        let waited = tokio::time::timeout(MAX_WAIT, arrives).await;
        waited.map_err(|_| format!("job {job} did not start within {} s", MAX_WAIT.as_secs()))?
    }

    async fn call(&mut self, name: &'static str, method: &str, path: &str, body: &str) -> Result<()> {
        let began = Instant::now();
        let (status, _) = self.connection.call(method, path, &self.token, body).await?;
        if (200..300).contains(&status) {
            self.record(name, began.elapsed());
        } else {
            self.refused += 1;
        }
        Ok(())
    }

    fn record(&mut self, name: &'static str, took: Duration) {
        self.times.entry(name).or_default().push(took.as_secs_f64() * 1000.0);
    }
}
