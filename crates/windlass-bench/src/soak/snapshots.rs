//! Reads snapshots of the database during the run: limits that must hold in each of them, and the number of unfinished jobs.

use std::sync::Arc;
use std::time::Duration;

use tokio_postgres::Client;
use tokio_util::sync::CancellationToken;

use super::installation::{Installation, MAX_QUEUED, MAX_RUNNING};
use super::load::Pace;
use super::work;
use crate::Result;
use crate::database::unfinished;

const EVERY: Duration = Duration::from_millis(700);
/// A snapshot waits for locks on the tables, like everybody.
const LIMIT: Duration = Duration::from_secs(5);

/// What contradicted a check, until the token is canceled.
pub(crate) async fn watch(
    installation: Arc<Installation>,
    pace: Arc<Pace>,
    stop: CancellationToken,
) -> Vec<(&'static str, String)> {
    let mut found = Vec::new();
    while !stop.is_cancelled() {
        // Postgres may be down.
        let seen = tokio::time::timeout(LIMIT, async {
            let client = installation.cluster.client().await?;
            pace.set_backlog(unfinished(&client).await?);
            snapshot(&client, &installation).await
        });
        if let Ok(Ok(seen)) = seen.await {
            found.extend(seen);
        }
        tokio::time::sleep(EVERY).await;
    }
    found
}

async fn snapshot(client: &Client, installation: &Installation) -> Result<Vec<(&'static str, String)>> {
    let row =
        client.query_one(include_str!("snapshots.sql"), &[&installation.tenants[2], &work::LIMITED]).await?;
    let (queued, running, limited): (i64, i64, i64) = (row.get(0), row.get(1), row.get(2));
    let mut found = Vec::new();
    if queued > MAX_QUEUED {
        found.push((
            "27",
            format!("a snapshot has {queued} unfinished jobs of a tenant with a quota of {MAX_QUEUED}"),
        ));
    }
    if running > MAX_RUNNING {
        found.push((
            "25",
            format!("a snapshot has {running} running jobs of a tenant with a limit of {MAX_RUNNING}"),
        ));
    }
    if limited > i64::from(work::MAX_RUNNING) {
        let text = format!(
            "a snapshot has {limited} running jobs of a definition with a limit of {}",
            work::MAX_RUNNING
        );
        found.push(("25", text));
    }
    Ok(found)
}
