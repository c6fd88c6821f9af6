//! The pages of the UI with a long history: the server time of each, and its size as a browser gets it.
//!
//! The server is a separate `windlass serve`, the binary next to this one: `cargo build --release -p windlass-server -p windlass-bench`.
//! The time is that of its `Server-Timing` header, from the head of a request to the head of the complete response.

use reqwest::header;
use serde_json::json;
use uuid::Uuid;

use crate::Result;
use crate::api::Windlass;
use crate::database::connect;
use crate::noop;
use crate::percentile::percentile;
use crate::server::Server;
use crate::suite::fill;

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct PagesPlan {
    /// Finished jobs of the measured tenant.
    pub(crate) jobs: u64,
    /// Other tenants.
    pub(crate) tenants: u64,
    /// Reads of each page.
    pub(crate) reads: usize,
}

const SURROUNDINGS: &str = include_str!("pages.sql");

/// The targets of every page.
const MAX_MS: f64 = 50.0;
const MAX_BYTES: usize = 60_000;

pub(crate) async fn run(plan: &PagesPlan) -> Result<()> {
    let server = Server::start().await?;
    println!(
        "{}",
        json!({"server": server.description().await?, "jobs": plan.jobs, "tenants": plan.tenants})
    );
    let url = server.fresh_database().await?;
    noop::warm_queue(&url, 1).await?;
    fill(&url, noop::KEY, plan.jobs).await?;
    let jobs = surround(&url, plan.tenants).await?;
    server.settle_down().await?;
    let windlass = Windlass::start(&url).await?;
    let client = reqwest::Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none()).build()?;
    println!("{:<22} {:>10} {:>10} {:>10}  {:>8}", "page", "p50", "p99", "total", "bytes");
    let mut missed = Vec::new();
    for (name, path) in pages(&jobs) {
        let page = measure(&client, &windlass, &path, plan.reads).await?;
        let word = if page.p99 <= MAX_MS && page.bytes < MAX_BYTES { "" } else { "MISS" };
        println!(
            "{name:<22} {:>7.1} ms {:>7.1} ms {:>7.1} ms  {:>8}  {word}",
            page.p50, page.p99, page.whole, page.bytes
        );
        if !word.is_empty() {
            missed.push(name);
        }
    }
    println!("{}", json!({"most_ms": MAX_MS, "most_bytes": MAX_BYTES, "missed": missed}));
    windlass.stop().await?;
    server.stop().await
}

struct Measured {
    /// Milliseconds of the server.
    p50: f64,
    p99: f64,
    /// The median from the request to the last byte, at the client.
    whole: f64,
    bytes: usize,
}

async fn measure(
    client: &reqwest::Client,
    windlass: &Windlass,
    path: &str,
    reads: usize,
) -> Result<Measured> {
    let (mut times, mut whole, mut bytes) = (Vec::new(), Vec::new(), 0);
    // The first request opens connections and fills caches; it is not measured.
    for read in 0..=reads {
        let began = std::time::Instant::now();
        let response = client
            .get(format!("http://{}{path}", windlass.address))
            .bearer_auth(&windlass.token)
            .header("x-tenant-id", windlass::DEFAULT_TENANT.to_string())
            .header("x-server-timing", "1")
            .header(header::ACCEPT_ENCODING, "gzip")
            .send()
            .await?;
        if response.status() != 200 {
            return Err(format!("{path} returned {}", response.status()).into());
        }
        let timing = response.headers().get("server-timing").and_then(|timing| timing.to_str().ok());
        let ms = timing.and_then(|timing| timing.split("dur=").nth(1)?.parse::<f64>().ok());
        let ms = ms.ok_or("the response has no Server-Timing")?;
        bytes = bytes.max(response.bytes().await?.len());
        if read > 0 {
            times.push(ms);
            whole.push(began.elapsed().as_secs_f64() * 1000.0);
        }
    }
    let of = |values: &[f64], share| percentile(values, share).unwrap_or_default();
    Ok(Measured { p50: of(&times, 0.5), p99: of(&times, 0.99), whole: of(&whole, 0.5), bytes })
}

/// The jobs whose pages are read: a succeeded one and a dead letter.
struct Jobs {
    succeeded: Uuid,
    dead: Uuid,
}

/// Further data: dead letters, a backlog, an hour of activity, other tenants with their own counts.
async fn surround(url: &str, tenants: u64) -> Result<Jobs> {
    let admin = connect(url).await?;
    admin.batch_execute(SURROUNDINGS).await?;
    let call = format!("call surrounded.fill({}, '{}', '{}')", tenants, noop::KEY, noop::payload());
    admin.batch_execute(&call).await?;
    admin.batch_execute("vacuum windlass.job, windlass.history, windlass.total, windlass.tenants").await?;
    let newest = async |status: i16| -> Result<Uuid> {
        let query = "select job_id from windlass.history where tenant_id = $1 and job_status = $2 order by job_id desc limit 1";
        Ok(admin.query_one(query, &[&windlass::DEFAULT_TENANT, &status]).await?.get(0))
    };
    Ok(Jobs { succeeded: newest(1).await?, dead: newest(3).await? })
}

fn pages(jobs: &Jobs) -> Vec<(&'static str, String)> {
    let fixed = [
        ("jobs", "/ui/jobs"),
        ("jobs, succeeded", "/ui/jobs?status=succeeded"),
        ("jobs, dead letters", "/ui/jobs?status=dead_letter"),
        ("jobs, queued", "/ui/jobs?status=queued"),
        ("jobs of a definition", "/ui/jobs?definition=bench.noop"),
        ("jobs, search", "/ui/jobs?q=nothing-like-it"),
        ("new job", "/ui/jobs/new?definition=bench.noop"),
        ("dead letters", "/ui/dead-letters"),
        ("triggers", "/ui/triggers"),
        ("queues", "/ui/queues"),
        ("workers", "/ui/workers"),
        ("overview", "/ui/overview"),
        ("definitions", "/ui/definitions"),
        ("tenants", "/ui/tenants"),
        ("tenants, search", "/ui/tenants?q=tenant%20000"),
        ("members", "/ui/members"),
        ("tokens", "/ui/tokens"),
        ("audit", "/ui/audit"),
    ];
    let mut pages: Vec<_> = fixed.map(|(name, path)| (name, path.to_owned())).into();
    pages.push(("job", format!("/ui/jobs/{}", jobs.succeeded)));
    pages.push(("job, dead letter", format!("/ui/jobs/{}", jobs.dead)));
    pages
}
