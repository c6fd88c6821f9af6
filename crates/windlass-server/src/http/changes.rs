//! "Something changed": a stream for pages and programs that want to look again when it is worth it. Counters are looked at
//! once a second and told only when they differ, so that a thousand transitions are one event. Nothing is held between looks.

use std::time::Duration;

use futures_util::stream::{self, Stream};
use windlass::{Reach, Summary};

use super::app::App;
use super::problem::Problem;
use super::standing::Standing;

const EVERY: Duration = Duration::from_secs(1);
/// A word now and then, so that whoever is gone is noticed.
const SILENCE: u32 = 15;

/// What a watcher hears.
#[derive(Debug)]
pub(crate) enum Change {
    /// The counts are other than they were.
    Counts(Summary),
    /// Nothing happened for a while; the stream is alive.
    Nothing,
    /// The watcher may no longer know: the last word.
    Revoked(Problem),
}

/// The changes of one tenant, or of all, until the server stops or the watcher may no longer know them. The first one comes at once.
pub(crate) fn changes(app: App, reach: Reach, standing: Standing) -> impl Stream<Item = Change> + Send {
    let watch = Watch { app, reach, standing, last: None, quiet: 0 };
    stream::unfold(Some(watch), |watch| async move {
        let mut watch = watch?;
        let change = watch.next().await?;
        let rest = (!matches!(change, Change::Revoked(_))).then_some(watch);
        Some((change, rest))
    })
}

struct Watch {
    app: App,
    reach: Reach,
    standing: Standing,
    last: Option<Summary>,
    quiet: u32,
}

impl Watch {
    async fn next(&mut self) -> Option<Change> {
        loop {
            if self.last.is_some() {
                tokio::select! {
                    () = tokio::time::sleep(self.standing.pace(EVERY)) => {}
                    () = self.app.stopping().cancelled() => return None,
                }
            }
            if let Err(problem) = self.standing.renew().await {
                return Some(Change::Revoked(problem));
            }
            // A database that does not answer is asked again: the page shows what it has.
            if let Ok(mut now) = self.look().await {
                // It grows by itself and is nothing that happened.
                let age = now.oldest_queued_age_seconds.take();
                if self.last.as_ref() != Some(&now) {
                    self.last = Some(now.clone());
                    self.quiet = 0;
                    now.oldest_queued_age_seconds = age;
                    return Some(Change::Counts(now));
                }
            } else if self.last.is_none() {
                self.last = Some(Summary::default());
            }
            self.quiet += 1;
            if self.quiet >= SILENCE {
                self.quiet = 0;
                return Some(Change::Nothing);
            }
        }
    }

    async fn look(&self) -> windlass::Result<Summary> {
        if self.reach == Reach::Everything {
            return Ok(self.app.everyone().await?.all.clone());
        }
        let looking = self.app.queue().look(self.reach).await?;
        let overview = looking.overview().await?;
        looking.end().await?;
        Ok(overview.all)
    }
}
