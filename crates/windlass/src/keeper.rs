//! The keeper: promotes due jobs, reaps lost ones, fires schedules, dispatches events and deletes old data.
//!
//! Every [`Worker`](crate::Worker) runs one unless it is configured otherwise. Many may run at once: each duty
//! processes only rows that no other keeper has locked, and none needs a leader to be correct. A process without
//! workers can run one by itself:
//!
//! ```no_run
//! # async fn example() -> windlass::Result<()> {
//! use tokio_util::sync::CancellationToken;
//! use windlass::keeper::{Keeper, KeeperSettings};
//!
//! let queue = windlass::Queue::connect_to("postgresql://localhost/app").await?;
//! let stop = CancellationToken::new();
//! Keeper::new(queue, KeeperSettings::default()).run(stop).await;
//! # Ok(())
//! # }
//! ```
//!
//! It stops when its token is canceled, after the duty in progress.

mod dispatch_events;
mod expire;
mod fold;
mod leader;
mod partition;
mod promote;
mod prune;
mod purge_tenants;
mod reap;
mod retire;
mod sample;
mod schedule;
mod seal;
mod settings;
mod share;
mod unblock;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::error::Result;
pub use crate::model::duty::Duty;
use crate::queue::Queue;
use crate::queue::listen::{self, Wake};
use crate::telemetry;
pub use settings::KeeperSettings;

/// The tasks of a keeper, each with its own connection, so that none waits for another's statement. A duty that must
/// not be delayed by another one is alone in its task.
const TASKS: [&[Duty]; 8] = [
    &[Duty::Promote],
    &[Duty::Schedule],
    &[Duty::Dispatch],
    &[Duty::Reap],
    &[Duty::Unblock],
    &[Duty::Expire, Duty::Fold],
    &[Duty::Retire],
    &[Duty::Partition, Duty::Prune, Duty::Seal, Duty::PurgeTenants, Duty::Sample],
];

/// The result of one round of a duty.
///
/// ```no_run
/// # async fn example(queue: &windlass::Queue) -> windlass::Result<()> {
/// use windlass::keeper::{Duty, Keeper, KeeperSettings};
///
/// let keeper = Keeper::new(queue.clone(), KeeperSettings::default());
/// // Until nothing is left to delete.
/// loop {
///     let round = keeper.run_once(Duty::Prune).await?;
///     println!("{} rows, next in {:?}", round.moved, round.next);
///     if !round.is_full {
///         break;
///     }
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Round {
    /// How many rows the round changed.
    pub moved: u64,
    /// There may be more to do immediately.
    pub is_full: bool,
    /// When there will be something to do, if that is known to be earlier than the usual interval.
    pub next: Option<Duration>,
}

/// How long the server may work on one statement of a duty. Every duty works in batches, so this applies only to
/// failures.
const DUTY_LIMIT: Duration = Duration::from_secs(300);

/// The lease of the lead covers a round of pruning that takes this long. Another keeper checks no more often anyway.
const PRUNE_ROUND: Duration = Duration::from_secs(30);

/// Runs the maintenance duties of one queue.
///
/// ```no_run
/// # async fn example(queue: &windlass::Queue) -> windlass::Result<()> {
/// use tokio_util::sync::CancellationToken;
/// use windlass::keeper::{Duty, Keeper, KeeperSettings};
///
/// let keeper = Keeper::new(queue.clone(), KeeperSettings::default());
/// keeper.run_once(Duty::Promote).await?;
///
/// let stop = CancellationToken::new();
/// let running = tokio::spawn(keeper.run(stop.clone()));
/// stop.cancel();
/// running.await.ok();
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Keeper {
    queue: Queue,
    settings: KeeperSettings,
    holder: Uuid,
    last_tenant: Arc<dispatch_events::LastTenant>,
    wakes: Option<broadcast::Sender<Wake>>,
}

impl Keeper {
    /// Creates a keeper for one queue. It does nothing until [`Keeper::run`] or [`Keeper::run_once`].
    pub fn new(queue: Queue, settings: KeeperSettings) -> Self {
        let queue = queue.limited_to(DUTY_LIMIT);
        Self { queue, settings, holder: Uuid::new_v4(), last_tenant: Arc::default(), wakes: None }
    }

    /// Shares the notifications of a worker; a keeper by itself listens for its own.
    pub(crate) fn woken_by(mut self, wakes: broadcast::Sender<Wake>) -> Self {
        self.wakes = Some(wakes);
        self
    }

    /// Runs one duty once.
    pub async fn run_once(&self, duty: Duty) -> Result<Round> {
        let database = self.queue.database();
        match duty {
            Duty::Promote => promote::run_once(database).await,
            Duty::Schedule => schedule::run_once(&self.queue, self.holder).await,
            Duty::Dispatch => dispatch_events::run_once(&self.queue, self.holder, &self.last_tenant).await,
            Duty::Reap => reap::run_once(database).await,
            Duty::Expire => expire::run_once(database).await,
            Duty::Unblock => unblock::run_once(database).await,
            Duty::Fold => fold::run_once(database).await,
            Duty::Prune => prune::run_once(database).await,
            Duty::Retire => retire::run_once(database).await,
            Duty::Seal => seal::run_once(database).await,
            Duty::PurgeTenants => purge_tenants::run_once(database).await,
            Duty::Partition => partition::run_once(database).await,
            Duty::Sample => sample::run_once(database).await,
        }
    }

    /// Runs every duty at its interval until it is stopped.
    ///
    /// It uses its own connections: an application or a server that exhausts its pool must not block it.
    pub async fn run(mut self, stop: CancellationToken) {
        match self.queue.apart(TASKS.len()) {
            Ok(apart) => self.queue = apart.limited_to(DUTY_LIMIT),
            Err(error) => telemetry::database_error("keeper", &error),
        }
        let wakes = self.wakes.clone().unwrap_or_else(|| broadcast::channel(4096).0);
        let settings = self.queue.settings();
        let listens = self.wakes.is_none() && settings.listen;
        let listener = async {
            if listens {
                listen::listen(settings.direct.clone(), wakes.clone(), (), stop.clone()).await;
            }
        };
        let tasks = TASKS.map(|duties| self.repeat(duties, &wakes, &stop));
        tokio::join!(futures_util::future::join_all(tasks), listener);
    }

    async fn repeat(&self, duties: &[Duty], wakes: &broadcast::Sender<Wake>, stop: &CancellationToken) {
        let mut due: Vec<Instant> = vec![Instant::now(); duties.len()];
        let mut wakes = wakes.subscribe();
        loop {
            let Some(position) = (0..duties.len()).min_by_key(|&position| due[position]) else { return };
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep_until(due[position]) => {}
                () = woken(&mut wakes, duties) => due[position] = Instant::now(),
            }
            let duty = duties[position];
            let interval = self.interval(duty);
            let began = Instant::now();
            let rest = match self.run_if_leading(duty).await {
                Ok(round) => {
                    telemetry::keeper_moved(duty.as_str(), round.moved);
                    if round.is_full {
                        let rest = self.respite(duty, began.elapsed());
                        self.lead_during(duty, rest).await;
                        rest
                    } else {
                        round.next.map_or(interval, |next| next.min(interval))
                    }
                }
                Err(error) => {
                    telemetry::database_error("keeper", &error);
                    interval.mul_f64(0.5 + rand::random::<f64>())
                }
            };
            due[position] = Instant::now() + rest;
        }
    }

    /// One keeper prunes at a time, and one replaces partitions, so that the share of one is the share of all.
    async fn run_if_leading(&self, duty: Duty) -> Result<Round> {
        if matches!(duty, Duty::Prune | Duty::Retire)
            && !leader::leads(self.queue.database(), duty.as_str(), self.holder, PRUNE_ROUND).await?
        {
            return Ok(Round::default());
        }
        self.run_once(duty).await
    }

    /// Keeps the lead while it pauses between two rounds, so that no other keeper continues in its pause.
    async fn lead_during(&self, duty: Duty, rest: Duration) {
        if !matches!(duty, Duty::Prune | Duty::Retire) {
            return;
        }
        let until_next = rest + PRUNE_ROUND;
        if let Err(error) = leader::leads(self.queue.database(), duty.as_str(), self.holder, until_next).await
        {
            telemetry::database_error("keeper", &error);
        }
    }

    /// Returns how long to pause before continuing with a backlog: not longer than the lead lasts.
    fn respite(&self, duty: Duty, took: Duration) -> Duration {
        if duty == Duty::Prune {
            let rest = took.mul_f64(1.0 / self.settings.prune_share.clamp(0.001, 1.0) - 1.0);
            rest.min(leader::MAX_LEAD.saturating_sub(PRUNE_ROUND))
        } else if duty == Duty::Retire {
            // A step that read a whole partition has used a core for as long as it took.
            took.min(leader::MAX_LEAD.saturating_sub(PRUNE_ROUND))
        } else {
            Duration::ZERO
        }
    }

    fn interval(&self, duty: Duty) -> Duration {
        match duty {
            Duty::Promote => self.settings.promote,
            Duty::Schedule => self.settings.schedule,
            Duty::Dispatch => self.settings.dispatch,
            Duty::Reap => self.settings.reap,
            Duty::Expire => self.settings.expire,
            Duty::Unblock => self.settings.unblock,
            Duty::Fold => self.settings.fold,
            Duty::Prune => self.settings.prune,
            Duty::Retire => self.settings.retire,
            Duty::Seal => self.settings.seal,
            Duty::PurgeTenants => self.settings.purge_tenants,
            Duty::Partition => self.settings.partition,
            Duty::Sample => self.settings.sample,
        }
    }
}

/// Waits for a notification for one of these duties. Only the scheduler, the dispatcher and the unblocker get
/// notifications, and each of them is alone in its task.
async fn woken(wakes: &mut broadcast::Receiver<Wake>, duties: &[Duty]) {
    loop {
        match wakes.recv().await {
            Ok(Wake::Duty(duty)) if duties.contains(&duty) => return,
            Ok(Wake::Duty(_) | Wake::Lane(_) | Wake::LimitFreed(_) | Wake::All)
            | Err(RecvError::Lagged(_)) => {}
            // There are no more notifications; the interval remains.
            Err(RecvError::Closed) => return std::future::pending().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Duty, TASKS};

    #[test]
    fn every_duty_belongs_to_one_task() {
        for duty in Duty::ALL {
            let tasks = TASKS.iter().filter(|duties| duties.contains(&duty)).count();
            assert_eq!(tasks, 1, "{}", duty.as_str());
        }
    }
}
