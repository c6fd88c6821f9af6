//! How all tenants stand together, for the pages and streams of super-admins: counted at most once a second, however many look.
//!
//! With ten thousand tenants it takes tens of milliseconds to count. So whoever looks gets the last answer if it is a few seconds old, and
//! the next one is made meanwhile; only the first who looks after a while waits. The API counts anew each time.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use windlass::{Overview, Reach};

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
    /// How all tenants stand, as of a moment ago.
    pub(crate) async fn everyone(&self) -> windlass::Result<Arc<Overview>> {
        match self.counted().last() {
            Some((age, overview)) if age < FRESH => Ok(overview),
            Some((age, overview)) if age < STALE => {
                if !self.counted().is_counting.swap(true, Ordering::AcqRel) {
                    let app = self.clone();
                    // If it fails, the last answer grows old, and then whoever looks is told.
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
