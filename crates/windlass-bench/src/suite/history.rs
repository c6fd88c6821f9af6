//! The drain again, with millions of finished jobs.

use tokio::task::JoinSet;

use super::{Suite, rate_of};
use crate::Result;
use crate::database::connect;
use crate::noop;
use crate::repeated::Repeated;

const PROCEDURE: &str = include_str!("history.sql");
const CONNECTIONS: u64 = 2;

impl Suite<'_> {
    pub(super) async fn history(&mut self) -> Result<()> {
        let mut rates = Repeated::default();
        let url = self.server.fresh_database().await?;
        self.table.progress(&format!("creating {} finished jobs", self.sizes.history));
        fill(&url, noop::KEY, self.sizes.history).await?;
        for round in 1..=self.sizes.history_rounds {
            self.server.settle_down().await?;
            self.table
                .progress(&format!("drain with history, round {round} of {}", self.sizes.history_rounds));
            rates.measure(async { rate_of(&self.drain_filled(&url).await?.last_line) }).await?;
        }
        self.figures.drain_with_history = rates.figure();
        Ok(())
    }
}

/// Inserts this many finished jobs of a definition.
pub(crate) async fn fill(url: &str, key: &str, jobs: u64) -> Result<()> {
    let admin = connect(url).await?;
    admin.batch_execute(PROCEDURE).await?;
    let lane: i32 =
        admin.query_one("select lane from windlass.route_of(null, $1, null, null)", &[&key]).await?.get(0);
    let payload = noop::payload();
    let mut parts = JoinSet::new();
    for part in 0..CONNECTIONS {
        let client = connect(url).await?;
        let call = format!("call filled.fill({jobs}, {part}, {CONNECTIONS}, {lane}, '{payload}')");
        parts.spawn(async move { client.batch_execute(&call).await });
    }
    while let Some(part) = parts.join_next().await {
        part??;
    }
    let count = i32::try_from(jobs)?;
    let counted = "insert into windlass.tally (tenant_id, lane, succeeded) values ($1, $2, $3)";
    admin.execute(counted, &[&windlass::DEFAULT_TENANT, &lane, &count]).await?;
    // Autovacuum does this within a minute of such a load, and earlier for a history that grew over time.
    admin.batch_execute("vacuum windlass.job, windlass.history").await?;
    Ok(())
}
