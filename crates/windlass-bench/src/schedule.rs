//! Schedules and events: the rate when very many triggers are due at the same instant, the delay of the last ones, and the rate at
//! which events are dispatched from the outbox. One keeper, no workers: only the creation of jobs is measured.

use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;
use windlass::events::NewEvent;
use windlass::keeper::{Duty, Keeper, KeeperSettings};
use windlass::schedule::NewTrigger;
use windlass::{DEFAULT_TENANT, Definition, Queue, Settings};

use crate::percentile::percentile;
use crate::server::Server;
use crate::{Result, database};

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct SchedulePlan {
    pub(crate) triggers: u64,
    pub(crate) events: u64,
}

const KEY: &str = "bench.schedule";
const CALLERS: u64 = 8;
const MAX_DURATION: Duration = Duration::from_secs(600);

pub(crate) async fn run(plan: &SchedulePlan) -> Result<()> {
    let server = Server::start().await?;
    let url = server.fresh_database().await?;
    let queue = Queue::connect(Settings::new(&url)?.connections(8)).await?;
    queue.define(&Definition::new(KEY)).await?;
    let fires = fire(&queue, &url, plan.triggers).await?;
    let events_per_s = dispatch(&queue, &url, plan.events).await?;
    server.stop().await?;
    let SchedulePlan { triggers, events } = plan;
    let [p50, p99, last] = fires.late_ms;
    println!(
        "{{\"fires_per_s\": {:.0}, \"late_p50_ms\": {p50:.0}, \"late_p99_ms\": {p99:.0}, \"late_max_ms\": {last:.0}, \
         \"events_per_s\": {events_per_s:.0}, \"triggers\": {triggers}, \"events\": {events}}}",
        fires.per_s
    );
    Ok(())
}

struct Fires {
    per_s: f64,
    late_ms: [f64; 3],
}

/// All triggers are due at the same instant, while a keeper runs as in a worker.
async fn fire(queue: &Queue, url: &str, triggers: u64) -> Result<Fires> {
    let mut makers: tokio::task::JoinSet<Result<()>> = tokio::task::JoinSet::new();
    for caller in 0..CALLERS {
        let queue = queue.clone();
        makers.spawn(async move {
            for n in (caller..triggers).step_by(usize::try_from(CALLERS)?) {
                let new = NewTrigger::schedule(format!("trigger {n}"), "0 0 1 1 *", KEY);
                queue.create_trigger(DEFAULT_TENANT, &new, "bench").await?;
            }
            Ok(())
        });
    }
    while let Some(made) = makers.join_next().await {
        made??;
    }
    let client = database::connect(url).await?;
    client.batch_execute("vacuum analyze windlass.job_triggers").await?;
    let stop = CancellationToken::new();
    let keeper = tokio::spawn(Keeper::new(queue.clone(), KeeperSettings::default()).run(stop.clone()));
    let soon = "update windlass.job_triggers set next_due_at = date_trunc('second', clock_timestamp()) + interval '5 s'";
    client.execute(soon, &[]).await?;
    let began = Instant::now();
    let count = "select count(*) from windlass.fire where outcome = 'fired'";
    while u64::try_from(client.query_one(count, &[]).await?.get::<_, i64>(0))? < triggers {
        if began.elapsed() > MAX_DURATION {
            return Err("the triggers did not fire within ten minutes".into());
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    stop.cancel();
    keeper.await?;
    let late = "select (extract(epoch from decided_at - due_at) * 1000)::float8 from windlass.fire";
    let late: Vec<f64> = client.query(late, &[]).await?.iter().map(|row| row.get(0)).collect();
    let [p50, p99, last] = [0.5, 0.99, 1.0].map(|share| percentile(&late, share).unwrap_or_default());
    Ok(Fires { per_s: triggers as f64 / (last / 1000.0), late_ms: [p50, p99, last] })
}

/// The outbox is filled first, so that the dispatcher is never idle.
async fn dispatch(queue: &Queue, url: &str, events: u64) -> Result<f64> {
    let all = NewTrigger::event("all", "bench.*", KEY).dedupe_window_seconds(0);
    queue.create_trigger(DEFAULT_TENANT, &all, "bench").await?;
    let mut emitters: tokio::task::JoinSet<Result<()>> = tokio::task::JoinSet::new();
    for caller in 0..CALLERS {
        let queue = queue.clone();
        emitters.spawn(async move {
            for n in (caller..events).step_by(usize::try_from(CALLERS)?) {
                queue.emit(&NewEvent::new("bench.tick").payload(&n)).await?;
            }
            Ok(())
        });
    }
    while let Some(emitted) = emitters.join_next().await {
        emitted??;
    }
    let client = database::connect(url).await?;
    client.batch_execute("vacuum analyze windlass.event, windlass.event_pending").await?;
    let keeper = Keeper::new(queue.clone(), KeeperSettings::default());
    let began = Instant::now();
    let mut dispatched = 0;
    while dispatched < events {
        dispatched += keeper.run_once(Duty::Dispatch).await?.moved;
        if began.elapsed() > MAX_DURATION {
            return Err("the events were not dispatched within ten minutes".into());
        }
    }
    Ok(events as f64 / began.elapsed().as_secs_f64())
}
