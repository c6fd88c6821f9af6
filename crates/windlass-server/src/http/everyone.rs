//! The job counts of all tenants together, for the pages and streams of super-admins: counted at most once a second, for any
//! number of readers.
//!
//! With ten thousand tenants the count takes tens of milliseconds. So a reader gets the last result if it is at most a few seconds
//! old, and a new one is computed meanwhile; only the first reader after a pause waits. The API always counts again.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use windlass::admin::{Overview, Reach};

use super::app::App;

const FRESH: Duration = Duration::from_secs(1);
const STALE: Duration = Duration::from_secs(5);

#[derive(Debug, Default)]
pub(crate) struct Everyone {
    last: Mutex<Option<(Instant, Arc<Overview>)>>,
    is_counting: AtomicBool,
}

impl Everyone {
    fn last(&self) -> Option<(Duration, Arc<Overview>)> {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.as_ref().map(|(since, overview)| (since.elapsed(), overview.clone()))
    }
}

impl App {
    /// The counts of all tenants, at most a few seconds old.
    pub(crate) async fn everyone(&self) -> windlass::Result<Arc<Overview>> {
        match self.counted().last() {
            Some((age, overview)) if age < FRESH => Ok(overview),
            Some((age, overview)) if age < STALE => {
                if !self.counted().is_counting.swap(true, Ordering::AcqRel) {
                    let app = self.clone();
                    // If it fails, the last result expires, and the next reader gets the error.
                    tokio::spawn(async move {
                        let _ = app.count_everyone().await;
                        app.counted().is_counting.store(false, Ordering::Release);
                    });
                }
                Ok(overview)
            }
            _ => self.count_everyone().await,
        }
    }

    async fn count_everyone(&self) -> windlass::Result<Arc<Overview>> {
        let since = Instant::now();
        let looking = self.queue().look(Reach::Everything).await?;
        let overview = Arc::new(looking.overview().await?);
        looking.end().await?;
        *self.counted().last.lock().unwrap_or_else(PoisonError::into_inner) = Some((since, overview.clone()));
        Ok(overview)
    }
}
