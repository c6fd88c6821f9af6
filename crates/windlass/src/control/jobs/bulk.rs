//! Operations on all jobs that match a filter, a thousand per transaction. Each returns a cursor, and the next one continues
//! there: a job is visited once, even if it still matches afterwards, such as a running job with a cancel request or one that
//! could not be retried.

use std::fmt;
use std::str::FromStr;

use uuid::Uuid;

use crate::control::jobs::search;
use crate::control::transaction::Acting;
use crate::error::{Error, Result};
use crate::model::filter::Filter;
use crate::model::job::state::State;
use crate::store;
use crate::store::bulk::Found;

/// The maximum number of jobs of one bulk operation, which is one transaction.
const MAX_AT_ONCE: u16 = 1000;

/// The states of the jobs that a cancel changes, in the order in which jobs pass through them: a job that continues
/// in the meantime is visited later, not missed.
const CANCELABLE: [State; 4] = [State::Blocked, State::Scheduled, State::Queued, State::Running];

/// The states of the jobs that a retry changes.
const RETRYABLE: [State; 4] = [State::DeadLetter, State::Failed, State::Canceled, State::Succeeded];

/// The result of an operation on many jobs.
///
/// ```no_run
/// # async fn example(acting: &windlass::admin::Acting, filter: &windlass::job::Filter) -> windlass::Result<()> {
/// let bulk = acting.cancel_many(filter, None).await?;
/// println!("{} canceled", bulk.changed());
/// for (job, outcome) in &bulk.outcomes {
///     println!("{job}: {outcome}");
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Bulk {
    /// The outcome of each job: `canceled`, `requested`, `queued`, `blocked`, `deleted`; or, unchanged, `finished`,
    /// `not_finished`, `past_deadline`, `duplicate`, `missing`.
    pub outcomes: Vec<(Uuid, String)>,
    /// Where the next call continues, if there may be more jobs.
    pub next: Option<BulkCursor>,
}

impl Bulk {
    /// Returns the number of changed jobs.
    pub fn changed(&self) -> usize {
        let changes = ["canceled", "requested", "queued", "blocked", "deleted"];
        self.outcomes.iter().filter(|(_, outcome)| changes.contains(&outcome.as_str())).count()
    }
}

/// The jobs that an operation on many jobs would change.
///
/// ```no_run
/// # async fn example(acting: &windlass::admin::Acting, filter: &windlass::job::Filter) -> windlass::Result<()> {
/// let page = acting.matching(filter, None).await?;
/// println!("{} jobs{}", page.ids.len(), if page.next.is_some() { " and more" } else { "" });
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct BulkPage {
    /// At most a thousand.
    pub ids: Vec<Uuid>,
    /// Where the next page starts, if there may be more jobs.
    pub next: Option<BulkCursor>,
}

/// Where an operation on many jobs continues. As a text, it is opaque to callers.
///
/// ```no_run
/// # async fn example(queue: &windlass::Queue, actor: &windlass::admin::Actor, dead: &windlass::job::Filter) -> windlass::Result<()> {
/// use windlass::admin::{BulkCursor, Reach};
///
/// // One transaction for each page. A cursor is text for a client that continues later.
/// let mut from: Option<BulkCursor> = None;
/// loop {
///     let acting = queue.act(Reach::Tenant(windlass::DEFAULT_TENANT), actor).await?;
///     let bulk = acting.retry_many(dead, from).await?;
///     acting.commit().await?;
///     match bulk.next {
///         Some(next) => from = next.to_string().parse().ok(),
///         None => break,
///     }
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BulkCursor {
    /// The state whose jobs are next, if the filter has none.
    state: Option<State>,
    /// The cursor within the list; none at its start.
    after: Option<Uuid>,
}

impl fmt::Display for BulkCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state.map_or("", State::as_str);
        match self.after {
            Some(after) => write!(f, "{state}:{after}"),
            None => write!(f, "{state}:"),
        }
    }
}

impl FromStr for BulkCursor {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let invalid = || Error::refused("cursor", "is not a cursor of this operation");
        let (state, after) = text.split_once(':').ok_or_else(invalid)?;
        let state = if state.is_empty() { None } else { Some(state.parse().map_err(|_| invalid())?) };
        let after =
            if after.is_empty() { None } else { Some(Uuid::try_parse(after).map_err(|_| invalid())?) };
        Ok(Self { state, after })
    }
}

/// ```no_run
/// # async fn example(acting: &windlass::admin::Acting) -> windlass::Result<()> {
/// use windlass::job::{Filter, State};
///
/// let dead = Filter::new(windlass::DEFAULT_TENANT).state(State::DeadLetter);
/// println!("{} could be queued again", acting.retryable(&dead, None).await?.ids.len());
/// acting.retry_many(&dead, None).await?;
///
/// let mail = Filter::new(windlass::DEFAULT_TENANT).queue("mail");
/// println!("{} could be canceled", acting.cancelable(&mail, None).await?.ids.len());
/// acting.cancel_many(&mail, None).await?;
///
/// let customer = Filter::new(windlass::DEFAULT_TENANT).subject("customer", "7");
/// println!("{} will be deleted", acting.matching(&customer, None).await?.ids.len());
/// acting.delete_many(&customer, None).await?;
/// # Ok(())
/// # }
/// ```
impl Acting {
    /// Cancels the matching jobs, at most a thousand.
    pub async fn cancel_many(&self, filter: &Filter, from: Option<BulkCursor>) -> Result<Bulk> {
        let BulkPage { ids, next } = self.cancelable(filter, from).await?;
        let found = Found { tenant: filter.tenant, jobs: &ids, filter: &filter.recorded() };
        let outcomes = store::bulk::cancel_many_as(&self.session, &found, &self.actor).await?;
        self.was_recorded();
        Ok(Bulk { outcomes, next })
    }

    /// Queues the matching jobs again, at most a thousand; jobs that have not ended are skipped.
    pub async fn retry_many(&self, filter: &Filter, from: Option<BulkCursor>) -> Result<Bulk> {
        let BulkPage { ids, next } = self.retryable(filter, from).await?;
        let found = Found { tenant: filter.tenant, jobs: &ids, filter: &filter.recorded() };
        let outcomes = store::bulk::retry_many_as(&self.session, &found, &self.actor).await?;
        self.was_recorded();
        Ok(Bulk { outcomes, next })
    }

    /// Deletes the matching jobs with their history, in any state, at most a thousand.
    pub async fn delete_many(&self, filter: &Filter, from: Option<BulkCursor>) -> Result<Bulk> {
        let BulkPage { ids, next } = self.matching(filter, from).await?;
        self.purge(filter, &ids).await?;
        let outcomes = ids.into_iter().map(|id| (id, "deleted".to_owned())).collect();
        Ok(Bulk { outcomes, next })
    }

    /// The matching jobs: those that a deletion would affect.
    pub async fn matching(&self, filter: &Filter, from: Option<BulkCursor>) -> Result<BulkPage> {
        let (ids, next) = self.some(filter, from.and_then(|from| from.after), MAX_AT_ONCE).await?;
        Ok(BulkPage { ids, next: next.map(|after| BulkCursor { state: None, after: Some(after) }) })
    }

    /// The jobs that a cancel would affect: those that have not ended and have no cancel request yet. A call without
    /// a cursor therefore finds other jobs than the previous one.
    pub async fn cancelable(&self, filter: &Filter, from: Option<BulkCursor>) -> Result<BulkPage> {
        let mut filter = filter.clone();
        // If the filter has ids, the result contains each of them, regardless of its state.
        filter.without_cancel_requested = filter.ids.is_none();
        self.in_states(&filter, &CANCELABLE, from).await
    }

    /// The jobs that a retry would affect: only those that have ended.
    pub async fn retryable(&self, filter: &Filter, from: Option<BulkCursor>) -> Result<BulkPage> {
        self.in_states(filter, &RETRYABLE, from).await
    }

    async fn in_states(
        &self,
        filter: &Filter,
        states: &[State],
        from: Option<BulkCursor>,
    ) -> Result<BulkPage> {
        // The others ignore the state.
        if filter.state.is_some() || filter.ids.is_some() || filter.held_by.is_some() || filter.is_search() {
            return self.matching(filter, from).await;
        }
        let first = from.and_then(|from| states.iter().position(|state| from.state == Some(*state)));
        let mut after = from.and_then(|from| from.after);
        let mut ids = Vec::new();
        for state in states.iter().skip(first.unwrap_or(0)) {
            let room = MAX_AT_ONCE - u16::try_from(ids.len()).unwrap_or(MAX_AT_ONCE);
            if room == 0 {
                return Ok(BulkPage { ids, next: Some(BulkCursor { state: Some(*state), after: None }) });
            }
            let (found, next) = self.some(&filter.clone().state(*state), after.take(), room).await?;
            ids.extend(found);
            if next.is_some() {
                return Ok(BulkPage { ids, next: Some(BulkCursor { state: Some(*state), after: next }) });
            }
        }
        Ok(BulkPage { ids, next: None })
    }

    async fn some(
        &self,
        filter: &Filter,
        after: Option<Uuid>,
        most: u16,
    ) -> Result<(Vec<Uuid>, Option<Uuid>)> {
        store::act::plan_as_a_list(&self.session).await?;
        let mut filter = filter.clone().limit(most);
        filter.older_than = after.or(filter.older_than);
        if filter.is_search() {
            let (ids, next, _) = search::within(&self.session, &filter).await?;
            return Ok((ids, next));
        }
        store::list::ids_in(&self.session, &filter).await
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::BulkCursor;
    use crate::model::job::state::State;

    #[test]
    fn a_cursor_is_read_from_its_text() {
        for state in [None, Some(State::DeadLetter)] {
            for after in [None, Some(Uuid::max())] {
                let cursor = BulkCursor { state, after };
                assert_eq!(cursor.to_string().parse::<BulkCursor>().unwrap(), cursor);
            }
        }
        for text in ["", "gone:", "queued", "queued:x", "queued:1:2"] {
            assert!(text.parse::<BulkCursor>().is_err(), "{text}");
        }
    }
}
