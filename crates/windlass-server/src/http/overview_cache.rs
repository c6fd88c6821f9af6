//! The job counts of all tenants together, for the pages and streams of super-admins: counted at most once a second, for any
//! number of readers.
//!
//! With ten thousand tenants the count takes tens of milliseconds. So a reader gets the last result if it is at most a few seconds
//! old, and a new one is computed meanwhile; only the first reader after a pause waits. The API always counts again.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use windlass::admin::{Overview, Reach};

use super::app::App;

const FRESH: Duration = Duration::from_secs(1);
const STALE: Duration = Duration::from_secs(5);

#[derive(Debug, Default)]
pub(crate) struct OverviewCache {
    last: Mutex<Option<(Instant, Arc<Overview>)>>,
    /// Held while it is counted: the others wait for the same result, so that a slow database has one count to do.
    counting: Arc<tokio::sync::Mutex<()>>,
}

impl OverviewCache {
    /// The last result that is no older.
    fn last(&self, most: Duration) -> Option<Arc<Overview>> {
        let last = self.last.lock();
        last.as_ref().filter(|(since, _)| since.elapsed() < most).map(|(_, overview)| overview.clone())
    }

    fn keep(&self, since: Instant, overview: Overview) -> Arc<Overview> {
        let overview = Arc::new(overview);
        *self.last.lock() = Some((since, overview.clone()));
        overview
    }
}

impl App {
    /// The counts of all tenants, at most a few seconds old.
    pub(crate) async fn overview_of_all(&self) -> windlass::Result<Arc<Overview>> {
        let counted = self.counted();
        if let Some(overview) = counted.last(FRESH) {
            return Ok(overview);
        }
        if let Some(overview) = counted.last(STALE) {
            if let Ok(turn) = counted.counting.clone().try_lock_owned() {
                let app = self.clone();
                // If it fails, the last result expires, and the next reader gets the error.
                tokio::spawn(async move {
                    let _turn = turn;
                    let _ = app.count_all().await;
                });
            }
            return Ok(overview);
        }
        let _turn = counted.counting.lock().await;
        match counted.last(FRESH) {
            Some(overview) => Ok(overview),
            None => self.count_all().await,
        }
    }

    async fn count_all(&self) -> windlass::Result<Arc<Overview>> {
        let since = Instant::now();
        let reading = self.queue().read(Reach::Everything).await?;
        let overview = reading.overview().await?;
        reading.end().await?;
        Ok(self.counted().keep(since, overview))
    }
}
