//! A stream of changed job counts, for pages and programs that refresh when something has changed. The counters are read once a
//! second and sent only when they differ, so that a thousand transitions are one event. No connection is held between two reads.

use std::time::Duration;

use futures_util::stream::{self, Stream};
use windlass::admin::{Reach, Summary};

use super::app::App;
use super::continued_access::StreamAccess;
use super::problem::Problem;

const EVERY: Duration = Duration::from_secs(1);
/// A keep-alive after this many unchanged reads, so that a closed connection is noticed.
const KEEP_ALIVE_AFTER: u32 = 15;

/// One item of the stream.
#[derive(Debug)]
pub(crate) enum Change {
    /// The counts have changed.
    Counts(Summary),
    /// A keep-alive: nothing has changed for a while.
    Nothing,
    /// The caller has lost access; the last item.
    Revoked(Problem),
}

/// The changes of one tenant, or of all, until the server stops or the caller loses access. The first item is sent immediately.
pub(crate) fn changes(app: App, reach: Reach, access: StreamAccess) -> impl Stream<Item = Change> + Send {
    let watch = ChangeWatch { app, reach, access, last: None, has_tried: false, unchanged: 0 };
    stream::unfold(Some(watch), |watch| async move {
        let mut watch = watch?;
        let change = watch.next().await?;
        let rest = (!matches!(change, Change::Revoked(_))).then_some(watch);
        Some((change, rest))
    })
}

struct ChangeWatch {
    app: App,
    reach: Reach,
    access: StreamAccess,
    /// What was sent last.
    last: Option<Summary>,
    has_tried: bool,
    unchanged: u32,
}

impl ChangeWatch {
    async fn next(&mut self) -> Option<Change> {
        loop {
            if self.has_tried {
                tokio::select! {
                    () = tokio::time::sleep(self.access.pace(EVERY)) => {}
                    () = self.app.stopping().cancelled() => return None,
                }
            }
            if let Err(problem) = self.access.renew().await {
                return Some(Change::Revoked(problem));
            }
            self.has_tried = true;
            // A failed read is tried again; until then the page shows the last counts.
            if let Ok(mut now) = self.read().await {
                // The age grows by itself; that is not a change.
                let age = now.oldest_queued_age_seconds.take();
                if self.last.as_ref() != Some(&now) {
                    self.last = Some(now.clone());
                    self.unchanged = 0;
                    now.oldest_queued_age_seconds = age;
                    return Some(Change::Counts(now));
                }
            }
            self.unchanged += 1;
            if self.unchanged >= KEEP_ALIVE_AFTER {
                self.unchanged = 0;
                return Some(Change::Nothing);
            }
        }
    }

    async fn read(&self) -> windlass::Result<Summary> {
        if self.reach == Reach::Everything {
            return Ok(self.app.overview_of_all().await?.all.clone());
        }
        let reading = self.app.queue().read(self.reach).await?;
        let overview = reading.overview().await?;
        reading.end().await?;
        Ok(overview.all)
    }
}
