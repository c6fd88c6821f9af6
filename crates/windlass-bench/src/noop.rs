//! The job that is measured: a payload of 200 bytes, and a handler that does nothing but be seen.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::Value;
use uuid::Uuid;
use windlass::{Context, Definition, Done, Failure, Handler, NewJob, Queue, Settings, Worker, WorkerBuilder};

use crate::Result;

pub(crate) const KEY: &str = "bench.noop";

/// Slots of the measured worker. A slot is held until its job's end is written, so this must cover the batch being
/// claimed, the one running and those being settled (500 each); more only costs memory.
pub(crate) const CONCURRENCY: usize = 2000;

/// Longer than the worker's own grace time.
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

/// Calls `seen` at the start of every run, and succeeds.
pub(crate) struct Noop<F> {
    seen: F,
}

impl<F: Fn(&Context) + Send + Sync + 'static> Handler for Noop<F> {
    const KEY: &'static str = KEY;
    type Args = Value;

    async fn run(&self, job: &Context, _: Value) -> Result<Done, Failure> {
        (self.seen)(job);
        Ok(Done::new())
    }
}

/// Connects with this many connections, all of them open and the definition known, as in a service that has been up
/// for a while: what is measured is enqueueing and not connecting.
pub(crate) async fn warm_queue(url: &str, connections: usize) -> Result<Queue> {
    let queue = Queue::connect(Settings::new(url)?.connections(connections)).await?;
    // Writes nothing once the definition is there, and with all calls under way at once each gets its own connection.
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

/// As a worker with the handler registers it.
pub(crate) fn definition() -> Definition {
    Definition::new(KEY).arg_schema(schemars::schema_for!(Value).to_value())
}

/// The measured worker: all its defaults but the number of slots.
pub(crate) fn worker(queue: &Queue, seen: impl Fn(&Context) + Send + Sync + 'static) -> WorkerBuilder {
    Worker::builder(queue).concurrency(CONCURRENCY).handler(Noop { seen })
}

/// A worker that counts its handler's starts.
pub(crate) async fn counting_worker(queue: &Queue) -> Result<(Worker, Arc<AtomicU64>)> {
    let handled = Arc::new(AtomicU64::new(0));
    let counter = handled.clone();
    let worker = worker(queue, move |_| {
        counter.fetch_add(1, Ordering::Relaxed);
    });
    Ok((worker.start().await?, handled))
}

/// Stops a worker that has nothing left to run. One that does not stop is a fault to report, not to wait for.
pub(crate) async fn stop(worker: Worker) -> Result<()> {
    let stopped = tokio::time::timeout(STOP_LIMIT, worker.stop()).await;
    stopped.map_err(|_| format!("the worker did not stop within {} s", STOP_LIMIT.as_secs()))??;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{PAYLOAD_BYTES, payload};

    #[test]
    fn the_payload_is_json_of_the_promised_size() {
        let text = payload();
        assert_eq!(text.len(), PAYLOAD_BYTES);
        assert!(serde_json::from_str::<serde_json::Value>(&text).unwrap().is_object());
    }
}
