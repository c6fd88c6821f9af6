//! The loading tenant: the largest and most frequent requests that an operator token allows.
//!
//! All of them are sent to the server, which limits them. A tenant with a login of Postgres can use as many connections as Postgres
//! allows it, for any statement; its administrator limits that (`alter role … connection limit`).

use std::collections::BTreeMap;

use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::load::Orders;
use crate::Result;
use crate::api::Connection;
use crate::noop;

/// The count of each status by kind of request; a broken connection has status 0.
pub(super) type Answers = BTreeMap<(&'static str, u16), u64>;

const KINDS: [&str; 6] = ["lanes", "bulk", "large", "search", "list", "events"];
/// Below the maximum size of a body (4 MiB).
const BULK_JOBS: usize = 1000;
const BULK_TEXT: usize = 3000;
const LARGE_TEXT: usize = 900 * 1024;
/// No job contains this text, so each search reads as much as it may.
const SEARCH: &str = "/api/v1/jobs?limit=100&q=nothing-has-this";

pub(super) struct Caller {
    number: usize,
    orders: Orders,
    answers: Answers,
}

impl Caller {
    pub(super) fn new(number: usize, orders: &Orders) -> Self {
        Self { number, orders: orders.clone(), answers: Answers::new() }
    }

    pub(super) async fn run(mut self, stop: CancellationToken) -> Result<Answers> {
        let kind = KINDS[self.number % KINDS.len()];
        let mut connection = Connection::open(&self.orders.address).await?;
        // The largest bodies are built once: building them would be most of the work.
        let large = self.request(kind, 0);
        let mut n = 0_u64;
        // At least once: to build the largest bodies may take as long as a short run.
        loop {
            n += 1;
            let small = (kind != "bulk" && kind != "large").then(|| self.request(kind, n));
            let (method, path, body) = small.as_ref().unwrap_or(&large);
            let status = match connection.call(method, path, &self.orders.token, body).await {
                Ok((status, _)) => status,
                Err(_) => {
                    connection = Connection::open(&self.orders.address).await?;
                    0
                }
            };
            *self.answers.entry((kind, status)).or_insert(0) += 1;
            if stop.is_cancelled() {
                return Ok(self.answers);
            }
        }
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
            "search" => ("GET", SEARCH, String::new()),
            _ => ("GET", "/api/v1/jobs?limit=100&status=succeeded", String::new()),
        }
    }
}
