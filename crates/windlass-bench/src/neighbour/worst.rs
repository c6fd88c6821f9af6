//! The loading tenant: the largest and most frequent requests that an operator token and the library allow.

use std::collections::BTreeMap;

use serde_json::json;
use tokio::runtime::Runtime;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;
use windlass::job::Filter;
use windlass::{Queue, Settings};

use crate::Result;
use crate::api::Connection;
use crate::noop;

/// The count of each status by kind of request; a failed search has status 0.
type Answers = BTreeMap<(&'static str, u16), u64>;

/// The callers, on separate threads, so that they do not delay the measured tenant.
pub(super) struct Worst {
    callers: JoinSet<Result<Answers>>,
    runtime: Runtime,
}

const KINDS: [&str; 6] = ["lanes", "bulk", "large", "search", "list", "events"];
/// Below the maximum size of a body (4 MiB).
const BULK_JOBS: usize = 1000;
const BULK_TEXT: usize = 3000;
const LARGE_TEXT: usize = 900 * 1024;

pub(super) fn start(
    callers: usize,
    address: &str,
    token: &str,
    url: &str,
    tenant: Uuid,
    stop: &CancellationToken,
) -> Result<Worst> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .on_thread_start(yield_the_processor)
        .enable_all()
        .build()?;
    let mut tasks = JoinSet::new();
    for number in 0..callers {
        let caller = Caller {
            number,
            address: address.to_owned(),
            token: token.to_owned(),
            url: url.to_owned(),
            tenant,
            answers: Answers::new(),
        };
        tasks.spawn_on(caller.run(stop.clone()), runtime.handle());
    }
    Ok(Worst { callers: tasks, runtime })
}

/// The callers of a real installation run on other machines. Here they get only the time that the server, Postgres and the measured tenant
/// leave, so that the figures show what the load does to windlass and not what its generator does to the machine.
fn yield_the_processor() {
    // If it is refused, the figures are worse, never better.
    let _ = rustix::process::setpriority_process(None, 19);
}

impl Worst {
    /// Waits for the callers to stop and returns the counts.
    pub(super) async fn end(mut self) -> Result<BTreeMap<String, u64>> {
        let mut all = BTreeMap::new();
        while let Some(ended) = self.callers.join_next().await {
            for ((kind, status), count) in ended?? {
                *all.entry(format!("{kind} {status}")).or_insert(0) += count;
            }
        }
        self.runtime.shutdown_background();
        Ok(all)
    }
}

struct Caller {
    number: usize,
    address: String,
    token: String,
    url: String,
    tenant: Uuid,
    answers: Answers,
}

impl Caller {
    async fn run(mut self, stop: CancellationToken) -> Result<Answers> {
        let kind = KINDS[self.number % KINDS.len()];
        if kind == "search" {
            return self.search(stop).await;
        }
        let mut connection = Connection::open(&self.address).await?;
        // The largest bodies are built once: building them would be most of the work.
        let large = self.request(kind, 0);
        let mut n = 0_u64;
        while !stop.is_cancelled() {
            n += 1;
            let small = (kind != "bulk" && kind != "large").then(|| self.request(kind, n));
            let (method, path, body) = small.as_ref().unwrap_or(&large);
            let status = match connection.call(method, path, &self.token, body).await {
                Ok((status, _)) => status,
                Err(_) => {
                    connection = Connection::open(&self.address).await?;
                    0
                }
            };
            *self.answers.entry((kind, status)).or_insert(0) += 1;
        }
        Ok(self.answers)
    }

    /// Through the library, with a separate connection.
    async fn search(mut self, stop: CancellationToken) -> Result<Answers> {
        let queue = Queue::connect(Settings::new(&self.url)?.connections(1)).await?;
        let mut n = 0_u64;
        while !stop.is_cancelled() {
            n += 1;
            let filter = Filter::new(self.tenant).mentions(format!("nothing has this {n}")).limit(100);
            let status = if queue.list(&filter).await.is_ok() { 200 } else { 0 };
            *self.answers.entry(("search", status)).or_insert(0) += 1;
        }
        Ok(self.answers)
    }

    fn request(&self, kind: &str, n: u64) -> (&'static str, &'static str, String) {
        let job = |text: usize| json!({"definition_key": noop::KEY, "payload": {"text": "x".repeat(text)}});
        match kind {
            "lanes" => {
                let mut job = job(10);
                job["queue"] = json!(format!("q{}-{n}", self.number));
                job["priority"] = json!(n % 1000);
                ("POST", "/api/v1/jobs", job.to_string())
            }
            "bulk" => {
                let jobs = vec![job(BULK_TEXT); BULK_JOBS];
                ("POST", "/api/v1/jobs/bulk", json!({"jobs": jobs}).to_string())
            }
            "large" => ("POST", "/api/v1/jobs", job(LARGE_TEXT).to_string()),
            "events" => {
                let event = json!({"name": format!("noise.{n}"), "payload": {"text": "x".repeat(10_000)}});
                ("POST", "/api/v1/events", event.to_string())
            }
            _ => ("GET", "/api/v1/jobs?limit=100&status=succeeded", String::new()),
        }
    }
}
