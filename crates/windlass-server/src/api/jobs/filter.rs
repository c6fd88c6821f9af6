//! The filter of jobs: the same conditions in the query of a list and in the body of an action on many jobs.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;
use windlass::job::{Filter, Source, State};

use crate::auth::Caller;
use crate::http::{Problem, Time, page_limit, page_offset};

/// The status of a job.
#[derive(Debug, Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Status {
    Scheduled,
    Blocked,
    Queued,
    Running,
    Succeeded,
    Failed,
    DeadLetter,
    Canceled,
}

/// The source of a job.
#[derive(Debug, Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum JobSource {
    Manual,
    Event,
    Schedule,
    System,
}

/// Conditions that must all match.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct FilterBody {
    #[serde(default, deserialize_with = "given")]
    #[schema(nullable = false)]
    status: Option<Status>,
    #[serde(default, deserialize_with = "given")]
    #[schema(nullable = false)]
    source: Option<JobSource>,
    #[serde(default, deserialize_with = "given")]
    #[schema(nullable = false)]
    definition_key: Option<String>,
    #[serde(default, deserialize_with = "given")]
    #[schema(nullable = false)]
    queue: Option<String>,
    /// `type:id`
    #[serde(default, deserialize_with = "given")]
    #[schema(nullable = false, pattern = "^[^:]+:.+$")]
    subject: Option<String>,
    #[serde(default, deserialize_with = "given")]
    #[schema(nullable = false)]
    tag: Option<String>,
    #[serde(default, deserialize_with = "given")]
    #[schema(nullable = false)]
    correlation_id: Option<String>,
    #[serde(default, deserialize_with = "given")]
    #[schema(nullable = false, value_type = Option<String>, format = DateTime)]
    created_after: Option<Time>,
    #[serde(default, deserialize_with = "given")]
    #[schema(nullable = false, value_type = Option<String>, format = DateTime)]
    created_before: Option<Time>,
}

/// A condition. Null is rejected: it would mean no condition, so that an action would affect every job.
pub(super) fn given<'de, T: Deserialize<'de>, D: Deserializer<'de>>(from: D) -> Result<Option<T>, D::Error> {
    let value = Option::deserialize(from)?;
    value.map(Some).ok_or_else(|| D::Error::custom("must not be null; omit it to set no condition"))
}

/// The conditions of a list, and the page.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ListQuery {
    #[param(inline)]
    status: Option<Status>,
    #[param(inline)]
    source: Option<JobSource>,
    definition_key: Option<String>,
    queue: Option<String>,
    /// `type:id`
    #[param(example = "post:42", pattern = "^[^:]+:.+$")]
    subject: Option<String>,
    tag: Option<String>,
    correlation_id: Option<String>,
    /// Currently running on the worker with this id.
    worker: Option<String>,
    /// An id, or a text to search for in subjects, keys, tags and payloads, as far as they are shown. A request searches at most
    /// 5000 jobs; `next_cursor` continues there. A tenant can have at most 2 searches at the same time.
    q: Option<String>,
    #[param(value_type = Option<String>, format = DateTime)]
    created_after: Option<Time>,
    #[param(value_type = Option<String>, format = DateTime)]
    created_before: Option<Time>,
    /// The maximum number of jobs (default 100).
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u16>,
    /// The number of jobs to skip. Prefer `cursor`, whose cost does not grow with the depth.
    #[param(minimum = 0, maximum = 10000)]
    offset: Option<u16>,
    /// The `next_cursor` of the previous page.
    cursor: Option<Uuid>,
}

impl FilterBody {
    pub(crate) fn filter(self, caller: &Caller, place: &str) -> Result<Filter, Problem> {
        let mut filter = Filter::new(caller.tenant());
        if let Some(status) = self.status {
            filter = filter.state(status.into());
        }
        if let Some(source) = self.source {
            filter = filter.source(source.into());
        }
        if let Some(key) = self.definition_key {
            filter = filter.definition_key(key);
        }
        if let Some(queue) = self.queue {
            filter = filter.queue(queue);
        }
        if let Some(subject) = self.subject {
            let pair = subject.split_once(':').filter(|(kind, id)| !kind.is_empty() && !id.is_empty());
            let (kind, id) =
                pair.ok_or_else(|| Problem::invalid(format!("{place}subject"), "must be type:id"))?;
            filter = filter.subject(kind, id);
        }
        if let Some(tag) = self.tag {
            filter = filter.tag(tag);
        }
        if let Some(id) = self.correlation_id {
            filter = filter.correlation_id(id);
        }
        if let Some(at) = self.created_after {
            filter = filter.created_after(at.0);
        }
        if let Some(at) = self.created_before {
            filter = filter.created_before(at.0);
        }
        Ok(filter)
    }
}

impl ListQuery {
    pub(crate) fn filter(self, caller: &Caller) -> Result<Filter, Problem> {
        let conditions = FilterBody {
            status: self.status,
            source: self.source,
            definition_key: self.definition_key,
            queue: self.queue,
            subject: self.subject,
            tag: self.tag,
            correlation_id: self.correlation_id,
            created_after: self.created_after,
            created_before: self.created_before,
        };
        let mut filter = conditions.filter(caller, "?")?;
        let (limit, offset) = (page_limit(self.limit, 100, 1000)?, page_offset(self.offset)?);
        if let Some(worker) = self.worker {
            filter = filter.held_by(worker);
        }
        filter = match self.q.map(|text| (Uuid::try_parse(&text), text)) {
            Some((Ok(id), _)) => filter.ids([id]),
            Some((Err(_), text)) if !text.trim().is_empty() => filter.mentions(text.trim()),
            _ => filter,
        };
        if let Some(cursor) = self.cursor {
            filter = filter.older_than(cursor);
        }
        Ok(filter.limit(limit).offset(offset))
    }
}

impl From<Status> for State {
    fn from(status: Status) -> Self {
        match status {
            Status::Scheduled => Self::Scheduled,
            Status::Blocked => Self::Blocked,
            Status::Queued => Self::Queued,
            Status::Running => Self::Running,
            Status::Succeeded => Self::Succeeded,
            Status::Failed => Self::Failed,
            Status::DeadLetter => Self::DeadLetter,
            Status::Canceled => Self::Canceled,
        }
    }
}

impl From<JobSource> for Source {
    fn from(source: JobSource) -> Self {
        match source {
            JobSource::Manual => Self::Manual,
            JobSource::Event => Self::Event,
            JobSource::Schedule => Self::Schedule,
            JobSource::System => Self::System,
        }
    }
}
