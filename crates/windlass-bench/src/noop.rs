//! The measured job: a payload of 200 bytes, and a handler that only records its start.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;
use windlass::worker::WorkerBuilder;
use windlass::{Context, Definition, Done, Failure, Handler, JobArgs, NewJob, Queue, Settings, Worker};

use crate::Result;

pub(crate) const KEY: &str = "bench.noop";

/// The slots of the measured worker. A slot is held until its job is settled, so this must cover the batch being claimed, the one
/// running and those being settled (500 each); more only costs memory.
pub(crate) const CONCURRENCY: usize = 2000;

/// Longer than the grace time of the worker.
const STOP_LIMIT: Duration = Duration::from_secs(60);

pub(crate) const PAYLOAD_BYTES: usize = 200;

/// A payload as JSON text of exactly [`PAYLOAD_BYTES`] bytes.
pub(crate) fn payload() -> String {
    let (open, close) = (r#"{"user_id":12345678,"text":""#, r#""}"#);
    let text = "work ".chars().cycle().take(PAYLOAD_BYTES - open.len() - close.len());
    format!("{open}{}{close}", text.collect::<String>())
}

pub(crate) fn new_job(payload: &str, tenant: Option<Uuid>) -> NewJob {
    let job = NewJob::new(KEY).payload_json(payload);
    match tenant {
        Some(tenant) => job.tenant(tenant),
        None => job,
    }
}

/// Calls `on_start` at the start of every run, and succeeds.
pub(crate) struct Noop<F> {
    on_start: F,
}

/// Any JSON, so that nothing but the queue is measured.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub(crate) struct NoopArgs(Value);

impl JobArgs for NoopArgs {
    const KEY: &'static str = KEY;
}

impl<F: Fn(&Context) + Send + Sync + 'static> Handler for Noop<F> {
    type Args = NoopArgs;

    async fn run(&self, job: &Context, _: NoopArgs) -> Result<Done, Failure> {
        (self.on_start)(job);
        Ok(Done::new())
    }
}

/// Connects with this many open connections and a cached definition, as in a long-running service: the benchmark measures
/// enqueues, not connects.
pub(crate) async fn warm_queue(url: &str, connections: usize) -> Result<Queue> {
    let queue = Queue::connect(Settings::new(url)?.connections(connections)).await?;
    // Writes nothing if the definition exists, and with all calls running at once each gets its own connection.
    queue.define(&definition()).await?;
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..connections {
        let queue = queue.clone();
        calls.spawn(async move { queue.define(&definition()).await });
    }
    while let Some(call) = calls.join_next().await {
        call??;
    }
    Ok(queue)
}

/// The same definition that a worker with the handler registers.
pub(crate) fn definition() -> Definition {
    Definition::of::<NoopArgs>()
}

/// The measured worker: all defaults except the number of slots.
pub(crate) fn worker(queue: &Queue, on_start: impl Fn(&Context) + Send + Sync + 'static) -> WorkerBuilder {
    Worker::builder(queue).concurrency(CONCURRENCY).handler(Noop { on_start })
}

/// A worker that counts the starts of its handler.
pub(crate) async fn counting_worker(queue: &Queue) -> Result<(Worker, Arc<AtomicU64>)> {
    let handled = Arc::new(AtomicU64::new(0));
    let counter = handled.clone();
    let worker = worker(queue, move |_| {
        counter.fetch_add(1, Ordering::Relaxed);
    });
    Ok((worker.start().await?, handled))
}

/// Stops a worker that has nothing left to run. If it does not stop in time, that is an error.
pub(crate) async fn stop(worker: Worker) -> Result<()> {
    let stopped = tokio::time::timeout(STOP_LIMIT, worker.stop()).await;
    stopped.map_err(|_| format!("the worker did not stop within {} s", STOP_LIMIT.as_secs()))??;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{PAYLOAD_BYTES, payload};

    #[test]
    fn the_payload_is_json_of_the_given_size() {
        let text = payload();
        assert_eq!(text.len(), PAYLOAD_BYTES);
        assert!(serde_json::from_str::<serde_json::Value>(&text).unwrap().is_object());
    }
}
