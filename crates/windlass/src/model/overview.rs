//! The job counts of one tenant or of all, as values: counts by status, and the age of the oldest queued job.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Serialize;
use uuid::Uuid;

use super::job::state::State;
use super::record::Counts;

/// Jobs by status, and the age of the oldest queued one.
///
/// ```
/// use windlass::admin::Summary;
/// use windlass::job::State;
///
/// let mut all = Summary::default();
/// let mut mail = Summary::default();
/// mail.queued = 7;
/// all.merge(&mail);
/// assert_eq!(all.of(State::Queued), 7);
/// ```
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Summary {
    /// Jobs that are queued.
    pub queued: i64,
    /// Jobs that are running.
    pub running: i64,
    /// Jobs that are scheduled.
    pub scheduled: i64,
    /// Jobs that are blocked.
    pub blocked: i64,
    /// Jobs that succeeded.
    pub succeeded: i64,
    /// Jobs that failed permanently.
    pub failed: i64,
    /// Jobs that are dead letters.
    pub dead_letter: i64,
    /// Jobs that were canceled.
    pub canceled: i64,
    /// How long the oldest queued job has been due; none if no job is queued.
    pub oldest_queued_age_seconds: Option<f64>,
}

impl Summary {
    /// Returns the number of jobs in a state.
    pub fn of(&self, state: State) -> i64 {
        match state {
            State::Queued => self.queued,
            State::Running => self.running,
            State::Scheduled => self.scheduled,
            State::Blocked => self.blocked,
            State::Succeeded => self.succeeded,
            State::Failed => self.failed,
            State::DeadLetter => self.dead_letter,
            State::Canceled => self.canceled,
        }
    }

    fn of_mut(&mut self, state: State) -> &mut i64 {
        match state {
            State::Queued => &mut self.queued,
            State::Running => &mut self.running,
            State::Scheduled => &mut self.scheduled,
            State::Blocked => &mut self.blocked,
            State::Succeeded => &mut self.succeeded,
            State::Failed => &mut self.failed,
            State::DeadLetter => &mut self.dead_letter,
            State::Canceled => &mut self.canceled,
        }
    }

    /// Adds another part: the sum of the counts, and the longer wait.
    pub fn merge(&mut self, part: &Self) {
        for state in State::ALL {
            *self.of_mut(state) += part.of(state);
        }
        let ages = [self.oldest_queued_age_seconds, part.oldest_queued_age_seconds];
        self.oldest_queued_age_seconds = ages.into_iter().flatten().reduce(f64::max);
    }

    pub(crate) fn add(&mut self, counts: &Counts) {
        for state in State::ALL {
            *self.of_mut(state) += counts.of(state);
        }
    }

    pub(crate) fn waiting_since(&mut self, since: Timestamp, now: Timestamp) {
        let age = (now.duration_since(since).as_secs_f64() * 1000.0).round() / 1000.0;
        let oldest = self.oldest_queued_age_seconds.get_or_insert(0.0);
        *oldest = oldest.max(age);
    }
}

/// The total, and its parts.
///
/// ```no_run
/// # async fn example(reading: &windlass::admin::Reading) -> windlass::Result<()> {
/// let overview = reading.overview().await?;
/// println!("{} queued", overview.all.queued);
/// for (tenant, summary) in overview.busiest() {
///     println!("{tenant}: {} running", summary.running);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Overview {
    /// The counts that it is computed from.
    #[serde(skip)]
    pub counts: Vec<Counts>,
    /// All jobs together.
    pub all: Summary,
    /// The jobs of each tenant.
    pub tenants: BTreeMap<Uuid, Summary>,
    /// The jobs of each queue.
    pub queues: BTreeMap<String, Summary>,
    /// The jobs of each definition.
    pub definitions: BTreeMap<String, Summary>,
    /// All jobs ever enqueued, by definition, from any source. Decreases only when a tenant is deleted.
    #[serde(skip)]
    pub enqueued: BTreeMap<String, i64>,
}

impl Overview {
    /// The tenants ordered by load: by unfinished jobs first, then by finished ones.
    pub fn busiest(&self) -> Vec<(Uuid, &Summary)> {
        let mut tenants: Vec<(Uuid, &Summary)> =
            self.tenants.iter().map(|(id, summary)| (*id, summary)).collect();
        tenants.sort_by_key(|(_, summary)| {
            let ended = summary.succeeded + summary.failed + summary.dead_letter;
            std::cmp::Reverse((summary.queued + summary.running, summary.dead_letter + summary.failed, ended))
        });
        tenants
    }
}
