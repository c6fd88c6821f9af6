//! A quiet point: nobody calls, nothing is broken, and every job ends. Then the evidence is collected.

use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tokio_postgres::Client;
use uuid::Uuid;

use super::Site;
use super::checker::{self, Evidence};
use super::installation::proxy::Network;
use super::installation::{Installation, command};
use super::ledger::Fact;
use crate::Result;

/// Invariant 11: leases, backoffs, timeouts and one minute.
const DRAIN_LIMIT: Duration = Duration::from_secs(150);
const TICK: Duration = Duration::from_millis(200);
/// Between two lines about what is left.
const LINE_EVERY: Duration = Duration::from_secs(10);

/// Waits until no job is left, and returns how long it took. If it takes too long, the checker finds what is left.
pub(super) async fn drain(site: &Site, installation: &Installation) -> Result<Duration> {
    site.ledger.note(Fact::Quiet);
    let began = Instant::now();
    installation.library.set(Network::Healthy);
    installation.sql.set(Network::Healthy);
    for slot in &installation.slots {
        if let Some(proxy) = &slot.proxy {
            proxy.set(Network::Healthy);
        }
        // All of them run the current build at a quiet point.
        if slot.turn.swap(0, Ordering::SeqCst) % 2 == 1 {
            slot.signal(rustix::process::Signal::TERM);
        }
    }
    let client = installation.cluster.ready().await?;
    client.batch_execute("update windlass.queues set is_paused = false where is_paused").await?;
    // The request that should have resumed it may have been lost.
    for row in client.query("select id::text from windlass.tenants where status = 'suspended'", &[]).await? {
        let url = installation.cluster.url(installation.cluster.port);
        command(&installation.windlass, &url, &["tenants", "set", row.get(0), "--resume"]).await?;
    }
    let mut next_line = LINE_EVERY;
    loop {
        let rest = rest(&client).await?;
        if rest.iter().all(|(_, count)| *count == 0) || began.elapsed() > DRAIN_LIMIT {
            return Ok(began.elapsed());
        }
        if began.elapsed() > next_line {
            next_line += LINE_EVERY;
            let left =
                rest.iter().filter(|(_, count)| *count > 0).map(|(what, count)| format!("{count} {what}"));
            println!("soak: still waiting for {}", left.collect::<Vec<_>>().join(", "));
        }
        give_up_waiting(site, &client).await?;
        tokio::time::sleep(TICK).await;
    }
}

/// Unfinished jobs, and what follows from them.
async fn rest(client: &Client) -> Result<[(&'static str, i64); 7]> {
    let query = "select (select coalesce(sum(cardinality(ids)), 0)::bigint from windlass.line),
      (select coalesce(sum(cardinality(ids) - bit_count(ended::bit(64))), 0)::bigint from windlass.live),
      (select count(*) from windlass.deferred), (select count(*) from windlass.blocked), (select count(*) from windlass.event_pending),
      (select count(*) from windlass.tenants where status = 'deleting'),
      (select count(*) from windlass.job_triggers where next_due_at < clock_timestamp())";
    let row = client.query_one(query, &[]).await?;
    let names = [
        "queued jobs",
        "running jobs",
        "scheduled jobs",
        "blocked jobs",
        "events",
        "deleted tenants",
        "schedules",
    ];
    let mut number = 0;
    Ok(names.map(|name| {
        number += 1;
        (name, row.get(number - 1))
    }))
}

/// Jobs that wait for the retry of one that has failed (`if_unmet` = `wait`) wait forever: an operator cancels them.
async fn give_up_waiting(site: &Site, client: &Client) -> Result<()> {
    let query = "select d.tenant_id, d.job_id from windlass.dependency d
      join windlass.blocked b on b.tenant_id = d.tenant_id and b.job_id = d.job_id
      join windlass.history h on h.tenant_id = d.tenant_id and h.job_id = d.needs_job_id
     where d.if_unmet = 'wait' and h.job_status <> windlass.state_code('succeeded')";
    for row in client.query(query, &[]).await? {
        let (tenant, job): (Uuid, Uuid) = (row.get(0), row.get(1));
        site.ledger.note(Fact::CancelSent { job });
        let canceled = client.query_one("select windlass.cancel($1, $2)::text", &[&tenant, &job]).await;
        if canceled.is_ok() {
            site.ledger.note(Fact::Canceled { job, was_running: false });
        }
    }
    Ok(())
}

pub(super) async fn evidence(site: &Site, installation: &Installation) -> Result<Evidence> {
    let mut client = installation.cluster.ready().await?;
    checker::read::read(&mut client, &site.directory.join("ledger"), &installation.schedules).await
}

/// Seals what is not sealed yet, and verifies the chains.
pub(super) async fn audit_faults(installation: &Installation) -> Result<Vec<String>> {
    let url = installation.cluster.url(installation.cluster.port);
    match command(&installation.windlass, &url, &["audit", "verify"]).await {
        Ok(_) => Ok(Vec::new()),
        Err(error) => Ok(vec![error.to_string()]),
    }
}

/// Processes that mention the directory of this run: those of jobs, because all others have ended. Postgres still runs.
pub(super) fn orphans(directory: &Path) -> Result<Vec<String>> {
    let ours = directory.join("locks").display().to_string();
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc")?.flatten() {
        // A process that ends while it is read is not left.
        let Ok(words) = std::fs::read(entry.path().join("cmdline")) else { continue };
        let words = String::from_utf8_lossy(&words).replace('\0', " ");
        if words.contains(&ours) {
            found.push(format!("process {}: {words}", entry.file_name().display()));
        }
    }
    Ok(found)
}
