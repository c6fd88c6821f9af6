//! The shapes of the queue. Each is created in a new database and then drained by one worker with default settings.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use tokio_postgres::Client;
use uuid::Uuid;
use windlass::{NewJob, Queue};

use super::Case;
use super::claims::Claims;
use super::drain::{Counting, Drained, drain};
use crate::Result;
use crate::cost::Rate;
use crate::database::connect;
use crate::driver::{self, BulkPlan};
use crate::noop;
use crate::server::Server;

const CALLERS: u64 = 8;
const BATCH: u64 = 500;
const PLAIN: u64 = 200_000;
const TENANTS: u64 = 10_000;
const LIMITED: u64 = 1000;
const JOBS_OF_LIMITED: u64 = 100;
const PARENTS: u64 = 300;
const CHILDREN: u64 = 1000;
const DUE: u64 = 1_000_000;
const FAN_OUT: u64 = 10_000;
const LARGE: u64 = 1_000_000;
/// The starts of the large tenant that are timed.
const TIMED: u64 = 300_000;
const SMALL_TENANTS: u64 = 100;
const SMALL_JOBS: u64 = 10;
/// Far enough for any enqueue before it.
const LATER: Duration = Duration::from_secs(24 * 3600);

pub(super) struct Cases<'a> {
    server: &'a Server,
    divisor: u64,
    claims: Claims,
}

struct Filled {
    queue: Queue,
    client: Client,
}

impl<'a> Cases<'a> {
    pub(super) fn new(server: &'a Server, divisor: u64) -> Result<Self> {
        Ok(Self { server, divisor, claims: Claims::install()? })
    }

    /// A size, divided.
    fn of(&self, size: u64) -> u64 {
        (size / self.divisor).max(1)
    }

    async fn fresh(&self) -> Result<Filled> {
        let url = self.server.fresh_database().await?;
        let queue = noop::warm_queue(&url, CALLERS as usize).await?;
        Ok(Filled { client: connect(&url).await?, queue })
    }

    async fn drain(&self, filled: &Filled, jobs: u64) -> Result<Drained> {
        drain(self.server, &self.claims, &filled.queue, &filled.client, jobs).await
    }

    /// A drain of as many plain jobs as the case has, but not more than `PLAIN`: every drain includes the start of the worker.
    pub(super) async fn plain(&self, case: Case) -> Result<Drained> {
        let jobs = match case {
            Case::Fair => return self.large(false).await,
            Case::Tenants => self.of(TENANTS),
            Case::Limits => self.of(LIMITED) * JOBS_OF_LIMITED,
            Case::FanOut => self.of(FAN_OUT),
            Case::Blocked | Case::Unblocked | Case::Due => self.of(PLAIN),
        };
        let filled = self.fresh().await?;
        self.plain_in(&filled, jobs.min(self.of(PLAIN))).await
    }

    async fn plain_in(&self, filled: &Filled, jobs: u64) -> Result<Drained> {
        bulk(&filled.queue, None, jobs).await?;
        self.drain(filled, jobs).await
    }

    pub(super) async fn run(&self, case: Case) -> Result<Drained> {
        match case {
            Case::Tenants => self.tenants().await,
            Case::Limits => self.limits().await,
            Case::Blocked => self.blocked().await,
            Case::Unblocked => self.unblocked().await,
            Case::Due => self.due().await,
            Case::FanOut => self.fan_out().await,
            Case::Fair => self.large(true).await,
        }
    }

    async fn tenants(&self) -> Result<Drained> {
        let filled = self.fresh().await?;
        let tenants = tenants(&filled.queue, "one", self.of(TENANTS)).await?;
        let jobs = enqueue_for(&filled.queue, tenants, 1).await?;
        self.drain(&filled, jobs).await
    }

    /// Each tenant has a tenth of its jobs running at most.
    async fn limits(&self) -> Result<Drained> {
        let filled = self.fresh().await?;
        let tenants = tenants(&filled.queue, "limited", self.of(LIMITED)).await?;
        let most = JOBS_OF_LIMITED / 10;
        let limit = format!("update windlass.tenants set max_running = {most} where slug like 'limited-%'");
        filled.client.batch_execute(&limit).await?;
        let jobs = enqueue_for(&filled.queue, tenants, JOBS_OF_LIMITED).await?;
        self.drain(&filled, jobs).await
    }

    /// The jobs that they depend on are due much later.
    async fn fill_blocked(&self, parents: u64, children: u64) -> Result<Filled> {
        let filled = self.fresh().await?;
        let payload = noop::payload();
        let parents: Vec<NewJob> = (0..parents).map(|_| noop::new_job(&payload, None).delay(LATER)).collect();
        let parents = filled.queue.enqueue_many(&parents).await?;
        let count = parents.len() as u64 * children;
        let child = move |number: u64| {
            let parent = parents[(number / children) as usize].id;
            noop::new_job(&payload, None).depends_on(parent)
        };
        enqueue(&filled.queue, count, child).await?;
        Ok(filled)
    }

    async fn blocked(&self) -> Result<Drained> {
        let filled = self.fill_blocked(self.of(PARENTS), CHILDREN).await?;
        self.plain_in(&filled, self.of(PLAIN)).await
    }

    async fn unblocked(&self) -> Result<Drained> {
        let filled = self.fill_blocked(self.of(PARENTS), CHILDREN).await?;
        make_due(&filled.client, 0).await?;
        self.drain(&filled, self.of(PARENTS) * (CHILDREN + 1)).await
    }

    /// Timed from the instant at which they are due, when the worker is idle.
    async fn due(&self) -> Result<Drained> {
        let filled = self.fresh().await?;
        let (jobs, payload) = (self.of(DUE), noop::payload());
        enqueue(&filled.queue, jobs, move |_| noop::new_job(&payload, None).delay(LATER)).await?;
        let worker = Counting::start(&filled.queue, None).await?;
        make_due(&filled.client, 5 + jobs / 10_000).await?;
        filled.client.batch_execute("vacuum analyze windlass.deferred").await?;
        self.server.settle_down().await?;
        let wait = "select greatest(0, extract(epoch from min(due_at) - clock_timestamp()))::float8 from windlass.deferred";
        let wait: f64 = filled.client.query_one(wait, &[]).await?.get(0);
        tokio::time::sleep(Duration::from_secs_f64(wait)).await;
        self.claims.forget();
        let (began, meter) = (Instant::now(), self.server.meter().await?);
        let handled = worker.until_empty(jobs, &filled.client).await?;
        let seconds = began.elapsed().as_secs_f64();
        let rate = Rate::of(handled, seconds, &meter.stop(None));
        worker.stop().await?;
        let claim_p99_ms = self.claims.p99().unwrap_or_default();
        Ok(Drained { jobs: handled, rate, claim_p99_ms, small_done_at: None })
    }

    async fn fan_out(&self) -> Result<Drained> {
        let children = self.of(FAN_OUT);
        let filled = self.fill_blocked(1, children).await?;
        make_due(&filled.client, 0).await?;
        self.drain(&filled, children + 1).await
    }

    /// The jobs of the small tenants are enqueued last. Only the first starts are timed.
    async fn large(&self, has_small: bool) -> Result<Drained> {
        let filled = self.fresh().await?;
        let large = filled.queue.ensure_tenant("large", "large", 1).await?;
        bulk(&filled.queue, Some(large), self.of(LARGE)).await?;
        let mut small_jobs = 0;
        if has_small {
            let small = tenants(&filled.queue, "small", SMALL_TENANTS).await?;
            small_jobs = enqueue_for(&filled.queue, small, SMALL_JOBS).await?;
        }
        self.server.settle_down().await?;
        self.claims.forget();
        let (began, meter) = (Instant::now(), self.server.meter().await?);
        let worker = Counting::start(&filled.queue, Some(large)).await?;
        let timed = (self.of(TIMED) + 2 * small_jobs).min(self.of(LARGE) + small_jobs);
        let handled = worker.until(timed).await?;
        let rate = Rate::of(handled, began.elapsed().as_secs_f64(), &meter.stop(None));
        let small_done_at = if has_small { Some(worker.small_done_at(small_jobs)?) } else { None };
        let claim_p99_ms = self.claims.p99().unwrap_or_default();
        worker.stop().await?;
        Ok(Drained { jobs: handled, rate, claim_p99_ms, small_done_at })
    }
}

/// All jobs that wait for their time become due at one instant.
async fn make_due(client: &Client, in_seconds: u64) -> Result<()> {
    let due = format!(
        "update windlass.deferred set due_at = date_trunc('second', now()) + interval '{in_seconds} s'"
    );
    Ok(client.batch_execute(&due).await?)
}

async fn bulk(queue: &Queue, tenant: Option<Uuid>, n: u64) -> Result<()> {
    let plan = BulkPlan { n, callers: 2, batch: 1000 };
    driver::enqueue(queue, tenant, &plan).await.map(drop)
}

/// The same number of jobs for each tenant. Returns the number of all.
async fn enqueue_for(queue: &Queue, tenants: Vec<Uuid>, of_each: u64) -> Result<u64> {
    let (count, payload) = (tenants.len() as u64 * of_each, noop::payload());
    let tenant = move |number: u64| tenants[(number / of_each) as usize];
    enqueue(queue, count, move |number| noop::new_job(&payload, Some(tenant(number)))).await?;
    Ok(count)
}

/// Any jobs, by several callers.
async fn enqueue(
    queue: &Queue,
    count: u64,
    job: impl Fn(u64) -> NewJob + Send + Sync + 'static,
) -> Result<()> {
    let (taken, job) = (Arc::new(AtomicU64::new(0)), Arc::new(job));
    let mut calls: JoinSet<Result<()>> = JoinSet::new();
    for _ in 0..CALLERS {
        let (queue, taken, job) = (queue.clone(), taken.clone(), job.clone());
        calls.spawn(async move {
            loop {
                let first = taken.fetch_add(BATCH, Ordering::Relaxed);
                if first >= count {
                    return Ok(());
                }
                let jobs: Vec<NewJob> = (first..count.min(first + BATCH)).map(|number| job(number)).collect();
                queue.enqueue_many(&jobs).await?;
            }
        });
    }
    while let Some(call) = calls.join_next().await {
        call??;
    }
    Ok(())
}

/// Creates tenants `NAME-1`, `NAME-2` and so on.
async fn tenants(queue: &Queue, name: &str, count: u64) -> Result<Vec<Uuid>> {
    let mut calls: JoinSet<Result<Vec<Uuid>>> = JoinSet::new();
    for caller in 0..CALLERS {
        let (queue, name) = (queue.clone(), name.to_owned());
        calls.spawn(async move {
            let mut ids = Vec::new();
            for number in (caller..count).step_by(CALLERS as usize) {
                let slug = format!("{name}-{}", number + 1);
                ids.push(queue.ensure_tenant(&slug, &slug, 1).await?);
            }
            Ok(ids)
        });
    }
    let mut all = Vec::new();
    while let Some(ids) = calls.join_next().await {
        all.extend(ids??);
    }
    Ok(all)
}
