//! How often a keeper performs its duties, and how much of its time it deletes.

use std::time::Duration;

/// The intervals of the duties.
///
/// ```
/// use std::time::Duration;
/// use windlass::keeper::KeeperSettings;
///
/// // Fewer statements for a queue in which a delay of some seconds does not matter.
/// let slow = Duration::from_secs(10);
/// let relaxed = KeeperSettings::default()
///     .promote(slow)
///     .schedule(slow)
///     .dispatch(slow)
///     .reap(slow)
///     .expire(slow)
///     .unblock(slow)
///     .fold(slow);
/// assert_eq!(relaxed.promote, slow);
///
/// let minute = Duration::from_secs(60);
/// let rare = relaxed.prune(minute).prune_share(0.05).retire(minute).seal(minute).purge_tenants(minute);
/// let rare = rare.partition(minute).sample(minute);
/// assert_eq!(rare.prune_share, 0.05);
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct KeeperSettings {
    /// The longest time that the promoter sleeps; it wakes earlier when a job is due.
    pub promote: Duration,
    /// The same for the scheduler, which wakes when a schedule is due or has been changed.
    pub schedule: Duration,
    /// The maximum delay of an event if its notification is lost.
    pub dispatch: Duration,
    /// How often expired leases are reaped.
    pub reap: Duration,
    /// How often jobs past their deadline are ended.
    pub expire: Duration,
    /// How often blocked jobs are checked, in addition to the notifications.
    pub unblock: Duration,
    /// How often the counters are folded.
    pub fold: Duration,
    /// How often expired data is deleted.
    pub prune: Duration,
    /// The share of its time that pruning works while it has a backlog, above 0 and up to 1. The rest is left to the
    /// jobs.
    pub prune_share: f64,
    /// How often a partition to replace is searched.
    pub retire: Duration,
    /// How often actions are chained in the audit trail.
    pub seal: Duration,
    /// How often the data of deleted tenants is purged.
    pub purge_tenants: Duration,
    /// How often partitions are created ahead of time, and divided if many jobs are enqueued.
    pub partition: Duration,
    /// How often activity is summed for the charts.
    pub sample: Duration,
}

impl Default for KeeperSettings {
    fn default() -> Self {
        Self {
            promote: Duration::from_secs(1),
            schedule: Duration::from_secs(1),
            dispatch: Duration::from_secs(1),
            reap: Duration::from_secs(5),
            expire: Duration::from_secs(5),
            unblock: Duration::from_secs(2),
            fold: Duration::from_secs(1),
            prune: Duration::from_secs(60),
            prune_share: 0.1,
            retire: Duration::from_secs(10),
            seal: Duration::from_secs(2),
            purge_tenants: Duration::from_secs(5),
            partition: Duration::from_secs(10),
            sample: Duration::from_secs(5),
        }
    }
}

/// Setters for values that differ from the defaults.
impl KeeperSettings {
    /// Sets [`Self::promote`](field@Self::promote).
    #[must_use]
    pub fn promote(mut self, every: Duration) -> Self {
        self.promote = every;
        self
    }

    /// Sets [`Self::schedule`](field@Self::schedule).
    #[must_use]
    pub fn schedule(mut self, every: Duration) -> Self {
        self.schedule = every;
        self
    }

    /// Sets [`Self::dispatch`](field@Self::dispatch).
    #[must_use]
    pub fn dispatch(mut self, every: Duration) -> Self {
        self.dispatch = every;
        self
    }

    /// Sets [`Self::reap`](field@Self::reap).
    #[must_use]
    pub fn reap(mut self, every: Duration) -> Self {
        self.reap = every;
        self
    }

    /// Sets [`Self::expire`](field@Self::expire).
    #[must_use]
    pub fn expire(mut self, every: Duration) -> Self {
        self.expire = every;
        self
    }

    /// Sets [`Self::unblock`](field@Self::unblock).
    #[must_use]
    pub fn unblock(mut self, every: Duration) -> Self {
        self.unblock = every;
        self
    }

    /// Sets [`Self::fold`](field@Self::fold).
    #[must_use]
    pub fn fold(mut self, every: Duration) -> Self {
        self.fold = every;
        self
    }

    /// Sets [`Self::prune`](field@Self::prune).
    #[must_use]
    pub fn prune(mut self, every: Duration) -> Self {
        self.prune = every;
        self
    }

    /// Sets [`Self::retire`](field@Self::retire).
    #[must_use]
    pub fn retire(mut self, every: Duration) -> Self {
        self.retire = every;
        self
    }

    /// Sets [`Self::seal`](field@Self::seal).
    #[must_use]
    pub fn seal(mut self, every: Duration) -> Self {
        self.seal = every;
        self
    }

    /// Sets [`Self::purge_tenants`](field@Self::purge_tenants).
    #[must_use]
    pub fn purge_tenants(mut self, every: Duration) -> Self {
        self.purge_tenants = every;
        self
    }

    /// Sets [`Self::partition`](field@Self::partition).
    #[must_use]
    pub fn partition(mut self, every: Duration) -> Self {
        self.partition = every;
        self
    }

    /// Sets [`Self::sample`](field@Self::sample).
    #[must_use]
    pub fn sample(mut self, every: Duration) -> Self {
        self.sample = every;
        self
    }

    /// Sets [`Self::prune_share`](field@Self::prune_share).
    #[must_use]
    pub fn prune_share(mut self, share: f64) -> Self {
        self.prune_share = share;
        self
    }
}
