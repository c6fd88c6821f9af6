//! Jobs to enqueue, and the record of which were acknowledged.

use std::sync::{Arc, Mutex};

use serde_json::json;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;
use windlass::{NewJob, Queue};

pub(crate) fn job(key: &str, ms: u64) -> NewJob {
    NewJob::new(key).payload(&json!({"ms": ms}))
}

/// Enqueues and returns the id.
pub(crate) async fn send(queue: &Queue, job: NewJob) -> Uuid {
    queue.enqueue(&job).await.unwrap().id
}

pub(crate) async fn send_many(queue: &Queue, key: &str, ms: u64, count: usize) -> Vec<Uuid> {
    let jobs: Vec<NewJob> = (0..count).map(|_| job(key, ms)).collect();
    queue.enqueue_many(&jobs).await.unwrap().iter().map(|enqueued| enqueued.id).collect()
}

/// Clients that enqueue one job after the other, whatever happens to the server, and record the responses.
pub(crate) struct Enqueuers {
    notes: Arc<Mutex<Notes>>,
    stop: CancellationToken,
    tasks: JoinSet<()>,
}

#[derive(Default)]
struct Notes {
    sent: Vec<Uuid>,
    acked: Vec<Uuid>,
}

impl Enqueuers {
    /// Each job is one of `make`'s, with an id chosen here, so that the job of a lost response is known.
    pub(crate) fn start(queue: &Queue, count: usize, make: fn(usize) -> NewJob) -> Self {
        let (notes, stop) = (Arc::<Mutex<Notes>>::default(), CancellationToken::new());
        let mut tasks = JoinSet::new();
        for _ in 0..count {
            let (queue, notes, stop) = (queue.clone(), notes.clone(), stop.clone());
            tasks.spawn(async move {
                for number in 0.. {
                    if stop.is_cancelled() {
                        return;
                    }
                    let id = Uuid::now_v7();
                    notes.lock().unwrap().sent.push(id);
                    if queue.enqueue(&make(number).id(id)).await.is_ok() {
                        notes.lock().unwrap().acked.push(id);
                    }
                }
            });
        }
        Self { notes, stop, tasks }
    }

    pub(crate) fn acked(&self) -> usize {
        self.notes.lock().unwrap().acked.len()
    }

    /// Returns (acked, sent).
    pub(crate) async fn finish(mut self) -> (Vec<Uuid>, Vec<Uuid>) {
        self.stop.cancel();
        while let Some(ended) = self.tasks.join_next().await {
            ended.unwrap();
        }
        let mut notes = self.notes.lock().unwrap();
        (std::mem::take(&mut notes.acked), std::mem::take(&mut notes.sent))
    }
}
