//! Selects jobs: for lists, and for operations on many jobs.

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use uuid::Uuid;

use crate::model::job::state::State;
use crate::model::new_job::Source;
use crate::text;

/// The maximum number of jobs of one page.
pub(crate) const MAX_PAGE: u16 = 1000;

/// The maximum offset: the database reads the skipped rows anyway.
pub(crate) const FURTHEST_OFFSET: u16 = 10_000;

/// The maximum length of a condition in the audit trail, in bytes.
const MAX_RECORDED: usize = 500;

/// The maximum difference between the time in a job's id and its creation: ids are created with clocks that differ a
/// little from that of the database.
const ID_SLACK: SignedDuration = SignedDuration::from_hours(24);

/// Selects jobs of one tenant, for [`Queue::list`](crate::Queue::list) and the operations on many jobs.
///
/// ```
/// use windlass::DEFAULT_TENANT;
/// use windlass::job::{Filter, Source, State};
///
/// let failed = Filter::new(DEFAULT_TENANT)
///     .state(State::Failed)
///     .definition_key("invoice.send")
///     .queue("mail")
///     .source(Source::Schedule)
///     .subject("customer", "7")
///     .tag("invoice")
///     .correlation_id("request 4711")
///     .created_after("2026-01-01T00:00:00Z".parse()?)
///     .created_before("2026-02-01T00:00:00Z".parse()?)
///     .limit(20);
/// let last_seen = uuid::Uuid::from_u128(7);
/// let second_page = failed.clone().older_than(last_seen);
/// let third_page = failed.offset(40);
/// assert!(!second_page.is_search() && !third_page.is_search());
///
/// let some = Filter::new(DEFAULT_TENANT).ids([last_seen]);
/// let on_one_worker = Filter::new(DEFAULT_TENANT).held_by("host:1:2f6c");
/// # let _ = (some, on_one_worker);
/// assert!(Filter::new(DEFAULT_TENANT).mentions("invoice-4711").is_search());
/// # Ok::<(), jiff::Error>(())
/// ```
///
/// All conditions must match. The list is ordered by id, newest first. A list of queued jobs that is selected only by
/// state, definition, queue, source and time is ordered by the position in the queue, last first.
#[derive(Debug, Clone)]
pub struct Filter {
    pub(crate) tenant: Uuid,
    pub(crate) state: Option<State>,
    pub(crate) definition_key: Option<String>,
    pub(crate) queue: Option<String>,
    pub(crate) source: Option<Source>,
    pub(crate) subject_type: Option<String>,
    pub(crate) subject_id: Option<String>,
    pub(crate) tag: Option<String>,
    pub(crate) correlation_id: Option<String>,
    pub(crate) ids: Option<Vec<Uuid>>,
    pub(crate) created_after: Option<Timestamp>,
    pub(crate) created_before: Option<Timestamp>,
    pub(crate) older_than: Option<Uuid>,
    pub(crate) limit: u16,
    pub(crate) offset: u16,
    pub(crate) held_by: Option<String>,
    pub(crate) mentions: Option<String>,
    /// Omits the running jobs that already have a cancel request, for a cancel.
    pub(crate) without_cancel_requested: bool,
}

impl Filter {
    /// Selects every job of the tenant.
    pub fn new(tenant: Uuid) -> Self {
        Self {
            tenant,
            state: None,
            definition_key: None,
            queue: None,
            source: None,
            subject_type: None,
            subject_id: None,
            tag: None,
            correlation_id: None,
            ids: None,
            created_after: None,
            created_before: None,
            older_than: None,
            limit: 100,
            offset: 0,
            held_by: None,
            mentions: None,
            without_cancel_requested: false,
        }
    }

    /// Only jobs in this state.
    #[must_use]
    pub fn state(mut self, state: State) -> Self {
        self.state = Some(state);
        self
    }

    /// Only jobs of this definition.
    #[must_use]
    pub fn definition_key(mut self, key: impl Into<String>) -> Self {
        self.definition_key = Some(key.into());
        self
    }

    /// Only jobs of this queue.
    #[must_use]
    pub fn queue(mut self, queue: impl Into<String>) -> Self {
        self.queue = Some(queue.into());
        self
    }

    /// Only jobs from this source.
    #[must_use]
    pub fn source(mut self, source: Source) -> Self {
        self.source = Some(source);
        self
    }

    /// Only jobs about this subject.
    #[must_use]
    pub fn subject(mut self, kind: impl Into<String>, id: impl Into<String>) -> Self {
        self.subject_type = Some(kind.into());
        self.subject_id = Some(id.into());
        self
    }

    /// Only jobs with this tag.
    #[must_use]
    pub fn tag(mut self, tag: impl Into<String>) -> Self {
        self.tag = Some(tag.into());
        self
    }

    /// Only jobs with this correlation id.
    #[must_use]
    pub fn correlation_id(mut self, id: impl Into<String>) -> Self {
        self.correlation_id = Some(id.into());
        self
    }

    /// Only these jobs.
    #[must_use]
    pub fn ids(mut self, ids: impl IntoIterator<Item = Uuid>) -> Self {
        self.ids = Some(ids.into_iter().collect());
        self
    }

    /// Only jobs created at this instant or later. A job whose id was chosen by the caller, and is not a UUIDv7 of
    /// about its creation time, is not found by time, here and in [`Filter::created_before`].
    #[must_use]
    pub fn created_after(mut self, at: Timestamp) -> Self {
        self.created_after = Some(at);
        self
    }

    /// Only jobs created before this instant.
    #[must_use]
    pub fn created_before(mut self, at: Timestamp) -> Self {
        self.created_before = Some(at);
        self
    }

    /// Only jobs after this one in the order of the list: [`crate::Page::next`] of the previous page, which is the id
    /// of a job, or a position for a list of queued or running jobs. The id of a job means the jobs with smaller ids.
    #[must_use]
    pub fn older_than(mut self, id: Uuid) -> Self {
        self.older_than = Some(id);
        self
    }

    /// Sets the number of jobs per page (default 100, at most 1000).
    #[must_use]
    pub fn limit(mut self, jobs: u16) -> Self {
        self.limit = jobs.clamp(1, MAX_PAGE);
        self
    }

    /// Skips this many jobs; for the first pages only. [`Filter::older_than`] costs the same at any depth.
    #[must_use]
    pub fn offset(mut self, jobs: u16) -> Self {
        self.offset = jobs.min(FURTHEST_OFFSET);
        self
    }

    /// Only jobs that run on the worker with this id. All other conditions except the tenant and the ids are ignored.
    #[must_use]
    pub fn held_by(mut self, worker_id: impl Into<String>) -> Self {
        self.held_by = Some(worker_id.into());
        self
    }

    /// Only jobs that contain this text in their subject, keys or tags, or in their payload as it is shown: redacted
    /// values are not found. One page searches at most a few thousand jobs, and [`crate::Page::next`] continues there.
    /// All other conditions except the tenant and the ids are ignored.
    #[must_use]
    pub fn mentions(mut self, text: impl Into<String>) -> Self {
        self.mentions = Some(text.into());
        self
    }

    /// The conditions as recorded in the audit trail. Of ids, only the number: the entry contains the jobs that were
    /// changed.
    pub(crate) fn recorded(&self) -> Value {
        let text = |text: &Option<String>| {
            text.as_ref().map(|text| Value::from(text::storable(text.as_bytes(), MAX_RECORDED)))
        };
        let time = |at: Option<Timestamp>| at.map(|at| Value::from(at.to_string()));
        let conditions = [
            ("status", self.state.map(|state| Value::from(state.as_str()))),
            ("definition_key", text(&self.definition_key)),
            ("queue", text(&self.queue)),
            ("source", self.source.map(|source| Value::from(source.as_str()))),
            ("subject_type", text(&self.subject_type)),
            ("subject_id", text(&self.subject_id)),
            ("tag", text(&self.tag)),
            ("correlation_id", text(&self.correlation_id)),
            ("ids", self.ids.as_ref().map(|ids| Value::from(ids.len()))),
            ("created_after", time(self.created_after)),
            ("created_before", time(self.created_before)),
            ("held_by", text(&self.held_by)),
            ("mentions", text(&self.mentions)),
        ];
        let given = conditions.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
        Value::Object(given.collect())
    }

    /// Whether the filter searches for a text.
    pub fn is_search(&self) -> bool {
        self.mentions.is_some()
    }

    /// Ids are read from this one (inclusive) …
    pub(crate) fn lowest_id(&self) -> Uuid {
        let created = self.created_after.and_then(|at| at.checked_sub(ID_SLACK).ok());
        created.map_or_else(Uuid::nil, first_id_of)
    }

    /// … to this one (exclusive).
    pub(crate) fn highest_id(&self) -> Uuid {
        let created = self.created_before.and_then(|at| at.checked_add(ID_SLACK).ok()).map(first_id_of);
        let older_than = self.older_than.filter(|cursor| place_of(*cursor).is_none());
        [older_than, created].into_iter().flatten().min().unwrap_or_else(Uuid::max)
    }

    /// Positions of queued and running jobs are read up to this one (exclusive).
    pub(crate) fn highest_place(&self) -> i64 {
        self.older_than.and_then(place_of).unwrap_or(i64::MAX)
    }

    /// The cursor that continues after this position in the queue.
    pub(crate) fn after_place(place: i64) -> Uuid {
        Uuid::from_u128(PLACE_MARK | u128::from(place.unsigned_abs()) & PLACE_BITS)
    }
}

/// A position in the queue as a cursor: a version 8 UUID of the variant of RFC 9562, with only the position in its last
/// 62 bits. No job has such an id.
const PLACE_MARK: u128 = (8 << 76) | (2 << 62);
const PLACE_BITS: u128 = (1 << 62) - 1;

fn place_of(cursor: Uuid) -> Option<i64> {
    let bits = cursor.as_u128();
    (bits & !PLACE_BITS == PLACE_MARK).then(|| i64::try_from(bits & PLACE_BITS).unwrap_or(i64::MAX))
}

/// The smallest UUIDv7 of an instant: its 48 bits of milliseconds and nothing else.
fn first_id_of(at: Timestamp) -> Uuid {
    let millis = u64::try_from(at.as_millisecond()).unwrap_or(0);
    Uuid::from_u128(u128::from(millis & 0xffff_ffff_ffff) << 80)
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use uuid::{NoContext, Uuid};

    use super::Filter;

    fn id_of(at: Timestamp) -> Uuid {
        let seconds = u64::try_from(at.as_second()).unwrap();
        Uuid::new_v7(uuid::Timestamp::from_unix(NoContext, seconds, 0))
    }

    #[test]
    fn ids_within_a_day_of_the_bounds_are_read() {
        let noon: Timestamp = "2026-03-01T12:00:00Z".parse().unwrap();
        let filter = Filter::new(Uuid::nil()).created_after(noon).created_before(noon);
        let hours = |hours: i64| id_of(noon + jiff::SignedDuration::from_hours(hours));
        assert!(filter.lowest_id() <= hours(-23) && filter.lowest_id() > hours(-25));
        assert!(filter.highest_id() >= hours(23) && filter.highest_id() < hours(25));
    }

    #[test]
    fn a_cursor_lowers_the_bound_and_never_raises_it() {
        let noon: Timestamp = "2026-03-01T12:00:00Z".parse().unwrap();
        let (early, late) = (id_of("2026-01-01T00:00:00Z".parse().unwrap()), Uuid::max());
        let filter = Filter::new(Uuid::nil()).created_before(noon);
        assert_eq!(filter.clone().older_than(early).highest_id(), early);
        assert!(filter.clone().older_than(late).highest_id() < late);
        assert_eq!(Filter::new(Uuid::nil()).highest_id(), Uuid::max());
        assert_eq!(Filter::new(Uuid::nil()).lowest_id(), Uuid::nil());
    }

    #[test]
    fn a_position_is_a_cursor_that_bounds_no_id() {
        let filter = Filter::new(Uuid::nil()).older_than(Filter::after_place(6_400));
        assert_eq!((filter.highest_place(), filter.highest_id()), (6_400, Uuid::max()));
        let job = id_of("2026-01-01T00:00:00Z".parse().unwrap());
        let filter = filter.older_than(job);
        assert_eq!((filter.highest_place(), filter.highest_id()), (i64::MAX, job));
        assert_eq!(Filter::after_place(6_400).get_version_num(), 8);
    }

    #[test]
    fn a_page_has_between_one_and_a_thousand_jobs() {
        let filter = Filter::new(Uuid::nil());
        assert_eq!((filter.clone().limit(0).limit, filter.limit(60_000).limit), (1, 1000));
    }
}
