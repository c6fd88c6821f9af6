//! HTTP jobs compared with a plain client: the same endpoint, the same bodies, the same concurrency.
//!
//! The endpoint is in this process and responds after a fixed time, as one that does some work would. The plain client stores
//! nothing: it is the upper limit for any worker.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use windlass::worker::HttpEndpoint;
use windlass::{Definition, NewJob, Queue, Settings, Worker};

use crate::repeated::Repeated;
use crate::server::Server;
use crate::{Result, noop};

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct HttpPlan {
    pub(crate) n: u64,
    pub(crate) concurrency: u64,
    pub(crate) delay_ms: u64,
}

const KEY: &str = "bench.http";
const ROUNDS: usize = 3;
const MAX_DURATION: Duration = Duration::from_secs(600);

pub(crate) async fn run(plan: &HttpPlan) -> Result<()> {
    let endpoint = Endpoint::start(Duration::from_millis(plan.delay_ms)).await?;
    let server = Server::start().await?;
    let (mut plain, mut jobs) = (Repeated::default(), Repeated::default());
    // Alternating, so that a slow phase of the machine affects both.
    for _ in 0..ROUNDS {
        plain.measure(call_plainly(&endpoint, plan)).await?;
        jobs.measure(run_jobs(&server, &endpoint, plan)).await?;
    }
    server.stop().await?;
    let (plain, jobs) = (plain.figure().unwrap_or_default(), jobs.figure().unwrap_or_default());
    let HttpPlan { n, concurrency, delay_ms } = plan;
    println!(
        "{{\"http_plain_per_s\": {plain:.0}, \"http_jobs_per_s\": {jobs:.0}, \"ratio\": {:.2}, \"n\": {n}, \
         \"concurrency\": {concurrency}, \"delay_ms\": {delay_ms}}}",
        jobs / plain
    );
    Ok(())
}

async fn call_plainly(endpoint: &Endpoint, plan: &HttpPlan) -> Result<f64> {
    let client = reqwest::Client::builder().no_proxy().build()?;
    // About what a worker sends: the payload and some metadata.
    let body = format!("{{\"payload\":{},\"fence\":\"{}\"}}", noop::payload(), "x".repeat(300));
    let left = Arc::new(AtomicU64::new(plan.n));
    let began = Instant::now();
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..plan.concurrency {
        let (client, body, left, url) = (client.clone(), body.clone(), left.clone(), endpoint.url.clone());
        calls.spawn(async move {
            while left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok()
            {
                let request = client.post(&url).header("content-type", "application/json");
                request.body(body.clone()).send().await?.error_for_status()?.bytes().await?;
            }
            Ok::<_, reqwest::Error>(())
        });
    }
    while let Some(ended) = calls.join_next().await {
        ended??;
    }
    Ok(plan.n as f64 / began.elapsed().as_secs_f64())
}

async fn run_jobs(server: &Server, endpoint: &Endpoint, plan: &HttpPlan) -> Result<f64> {
    let url = server.fresh_database().await?;
    let queue = Queue::connect(Settings::new(&url)?.connections(4)).await?;
    queue.define(&Definition::new(KEY)).await?;
    let payload = noop::payload();
    let mut left = plan.n;
    while left > 0 {
        let batch: Vec<_> =
            (0..left.min(1000)).map(|_| NewJob::new(KEY).payload_json(payload.as_str())).collect();
        queue.enqueue_many(&batch).await?;
        left -= batch.len() as u64;
    }
    let to = HttpEndpoint::new(endpoint.url.clone()).allow(vec![endpoint.place.clone()]);
    let before = endpoint.answered.load(Ordering::Relaxed);
    let began = Instant::now();
    let calls = usize::try_from(plan.concurrency)?;
    // The same number of running calls as the plain client; more jobs are held while they are settled.
    let worker = Worker::builder(&queue).concurrency(calls).prefetch(calls).http(KEY, &to)?.start().await?;
    while endpoint.answered.load(Ordering::Relaxed) - before < plan.n {
        if began.elapsed() > MAX_DURATION {
            return Err("the HTTP jobs did not finish within ten minutes".into());
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let rate = plan.n as f64 / began.elapsed().as_secs_f64();
    worker.stop().await?;
    Ok(rate)
}

/// Responds to every request after a fixed time, with keep-alive.
struct Endpoint {
    url: String,
    place: String,
    answered: Arc<AtomicU64>,
}

impl Endpoint {
    async fn start(delay: Duration) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let place = listener.local_addr()?.to_string();
        let answered = Arc::new(AtomicU64::new(0));
        tokio::spawn({
            let answered = answered.clone();
            async move {
                while let Ok((stream, _)) = listener.accept().await {
                    let answered = answered.clone();
                    tokio::spawn(async move {
                        // A caller that is done closes its connection.
                        let _ = serve(stream, delay, &answered).await;
                    });
                }
            }
        });
        Ok(Self { url: format!("http://{place}/"), place, answered })
    }
}

async fn serve(mut stream: TcpStream, delay: Duration, answered: &AtomicU64) -> std::io::Result<()> {
    const RESPONSE: &[u8] =
        b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 11\r\n\r\n{\"ok\":true}";
    stream.set_nodelay(true)?;
    let mut bytes = Vec::with_capacity(4096);
    loop {
        let head = loop {
            if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
                break end + 4;
            }
            if stream.read_buf(&mut bytes).await? == 0 {
                return Ok(());
            }
        };
        let text = String::from_utf8_lossy(&bytes[..head]).to_ascii_lowercase();
        let length = text.split("content-length:").nth(1).and_then(|rest| rest.lines().next());
        let length: usize = length.and_then(|length| length.trim().parse().ok()).unwrap_or(0);
        while bytes.len() < head + length {
            if stream.read_buf(&mut bytes).await? == 0 {
                return Ok(());
            }
        }
        bytes.drain(..head + length);
        if !delay.is_zero() {
            tokio::time::sleep(delay).await;
        }
        answered.fetch_add(1, Ordering::Relaxed);
        stream.write_all(RESPONSE).await?;
    }
}
