//! The steady run while an old transaction prevents vacuum from removing rows.

use super::Suite;
use crate::Result;
use crate::database::connect;

impl Suite<'_> {
    pub(super) async fn pinned(&mut self) -> Result<()> {
        let url = self.server.fresh_database().await?;
        let holder = connect(&url).await?;
        // The snapshot is taken by the first query, not by BEGIN.
        holder
            .batch_execute("begin isolation level repeatable read; select count(*) from windlass.line")
            .await?;
        let ran = self.run_steady("pinned", &url, &self.sizes.pinned).await?;
        holder.batch_execute("commit").await?;
        let (first, last) = ran.first_and_last(self.sizes.window);
        self.figures.steady_pinned = Some(ran.rate);
        self.figures.extra.pinned_first10 = Some(first);
        self.figures.extra.pinned_last10 = Some(last);
        self.figures.extra.pinned_jobs = Some(ran.handled as f64);
        Ok(())
    }
}
