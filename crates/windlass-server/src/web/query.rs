//! The filters of the job list in the URL, and their conversion to the filter of the library and back.

use std::fmt::Write as _;

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use serde::Deserialize;
use uuid::Uuid;
use windlass::job::{Filter, Source, State};

pub(crate) const SOURCES: [&str; 4] = ["manual", "event", "schedule", "system"];

/// Every filter of the page. An empty field of a form is treated like a missing one.
#[derive(Debug, Clone, Default, Deserialize, PartialEq, Eq)]
#[serde(default)]
pub(crate) struct JobsQuery {
    pub(crate) status: Option<String>,
    pub(crate) definition: Option<String>,
    pub(crate) queue: Option<String>,
    pub(crate) source: Option<String>,
    pub(crate) tag: Option<String>,
    /// `type/id`
    pub(crate) subject: Option<String>,
    pub(crate) correlation: Option<String>,
    pub(crate) worker: Option<String>,
    pub(crate) after: Option<String>,
    pub(crate) before: Option<String>,
    pub(crate) q: Option<String>,
    pub(crate) cursor: Option<Uuid>,
}

impl JobsQuery {
    /// Removes empty fields.
    pub(crate) fn cleaned(mut self) -> Self {
        for field in self.fields_mut() {
            if field.as_deref().is_some_and(|text| text.trim().is_empty()) {
                *field = None;
            }
        }
        self
    }

    fn fields_mut(&mut self) -> [&mut Option<String>; 11] {
        [
            &mut self.status,
            &mut self.definition,
            &mut self.queue,
            &mut self.source,
            &mut self.tag,
            &mut self.subject,
            &mut self.correlation,
            &mut self.worker,
            &mut self.after,
            &mut self.before,
            &mut self.q,
        ]
    }

    /// Whether a filter has this value.
    pub(crate) fn is(&self, key: &str, value: &str) -> bool {
        self.named().iter().any(|(name, _, given)| *name == key && given.as_deref() == Some(value))
    }

    pub(crate) fn of<'a>(&self, field: &'a Option<String>) -> &'a str {
        field.as_deref().unwrap_or_default()
    }

    /// The fields other than the status, with their names in the URL and on the page.
    fn named(&self) -> [(&'static str, &'static str, &Option<String>); 10] {
        [
            ("definition", "definition", &self.definition),
            ("queue", "queue", &self.queue),
            ("source", "source", &self.source),
            ("tag", "tag", &self.tag),
            ("subject", "subject", &self.subject),
            ("correlation", "correlation", &self.correlation),
            ("worker", "worker", &self.worker),
            ("after", "after", &self.after),
            ("before", "before", &self.before),
            ("q", "search", &self.q),
        ]
    }

    /// The active filters in words, each with the URL of the page without it.
    pub(crate) fn chips(&self) -> Vec<(String, String)> {
        let given =
            self.named().into_iter().filter_map(|(key, word, value)| Some((key, word, value.as_ref()?)));
        given.map(|(key, word, value)| (format!("{word}: {value}"), self.address(Some(key), None))).collect()
    }

    /// The URL of the same list with another status.
    pub(crate) fn with_status(&self, status: Option<State>) -> String {
        let other =
            Self { status: status.map(|state| state.as_str().to_owned()), cursor: None, ..self.clone() };
        other.address(None, None)
    }

    /// The URL of this list, without one of its filters, starting at a cursor.
    pub(crate) fn address(&self, without: Option<&str>, cursor: Option<Uuid>) -> String {
        let text = self.text(without, cursor);
        if text.is_empty() { "/ui/jobs".to_owned() } else { format!("/ui/jobs?{text}") }
    }

    /// The filters as the query of the URL, with an optional cursor.
    pub(crate) fn text(&self, without: Option<&str>, cursor: Option<Uuid>) -> String {
        let mut out = String::new();
        let status = ("status", "status", &self.status);
        for (key, _, value) in std::iter::once(status).chain(self.named()) {
            let Some(value) = value.as_ref().filter(|_| without != Some(key)) else { continue };
            let separator = if out.is_empty() { "" } else { "&" };
            let _ = write!(out, "{separator}{key}=");
            encode_into(&mut out, value);
        }
        if let Some(cursor) = cursor {
            let separator = if out.is_empty() { "" } else { "&" };
            let _ = write!(out, "{separator}cursor={cursor}");
        }
        out
    }

    pub(crate) fn state(&self) -> Option<State> {
        self.status.as_deref()?.parse().ok()
    }

    /// Whether only filters by counted properties are set: then the number of matching jobs is known exactly.
    pub(crate) fn is_counted(&self) -> bool {
        let counted = ["definition", "queue"];
        self.named().iter().all(|(key, _, value)| value.is_none() || counted.contains(key))
    }

    /// The filter of the library, or the error.
    pub(crate) fn filter(&self, tenant: Uuid) -> Result<Filter, String> {
        let mut filter = Filter::new(tenant);
        if let Some(status) = &self.status {
            let state: State = status.parse().map_err(|_| format!("Unknown status: {status}."))?;
            filter = filter.state(state);
        }
        if let Some(key) = &self.definition {
            filter = filter.definition_key(key);
        }
        if let Some(queue) = &self.queue {
            filter = filter.queue(queue);
        }
        if let Some(source) = &self.source {
            filter = filter.source(source_named(source).ok_or_else(|| format!("Unknown source: {source}."))?);
        }
        if let Some(tag) = &self.tag {
            filter = filter.tag(tag);
        }
        if let Some(subject) = &self.subject {
            let (kind, id) = subject
                .split_once('/')
                .ok_or("A subject must have the form type/id, for example photo/4711.")?;
            filter = filter.subject(kind, id);
        }
        if let Some(id) = &self.correlation {
            filter = filter.correlation_id(id);
        }
        if let Some(worker) = &self.worker {
            filter = filter.held_by(worker);
        }
        if let Some(text) = &self.q {
            filter = filter.mentions(text);
        }
        if let Some(after) = &self.after {
            filter = filter.created_after(instant(after)?);
        }
        if let Some(before) = &self.before {
            filter = filter.created_before(instant(before)?);
        }
        if let Some(cursor) = self.cursor {
            filter = filter.older_than(cursor);
        }
        Ok(filter)
    }
}

pub(crate) fn source_named(name: &str) -> Option<Source> {
    [Source::Manual, Source::Event, Source::Schedule, Source::System]
        .into_iter()
        .find(|source| source.as_str() == name)
}

/// An instant of a `datetime-local` field, which has no zone: interpreted as UTC, as its label says.
pub(crate) fn instant(text: &str) -> Result<Timestamp, String> {
    let wrong = || format!("Invalid time: {text}. Use the form 2026-02-16T10:30.");
    text.parse::<Timestamp>().or_else(|_| {
        let civil: DateTime = text.parse().map_err(|_| wrong())?;
        civil.to_zoned(TimeZone::UTC).map(|zoned| zoned.timestamp()).map_err(|_| wrong())
    })
}

/// As `application/x-www-form-urlencoded`: letters, digits, `-`, `_` and `.` are not escaped.
pub(crate) fn encode_into(out: &mut String, text: &str) {
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.') {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;
    use windlass::job::State;

    use super::JobsQuery;

    #[test]
    fn a_filter_round_trips_through_its_url_safely() {
        let hostile = "a&status=x\"><script>/ü %";
        let query = JobsQuery {
            tag: Some(hostile.to_owned()),
            status: Some("failed".to_owned()),
            ..JobsQuery::default()
        };
        let address = query.address(None, Some(Uuid::nil()));
        assert!(
            address.bytes().all(|byte| byte.is_ascii_graphic() && !b"\"<>'".contains(&byte)),
            "{address}"
        );
        let uri: axum::http::Uri = address.parse().unwrap();
        let again: JobsQuery = crate::http::query(&uri).unwrap();
        assert_eq!(again, JobsQuery { cursor: Some(Uuid::nil()), ..query });
    }

    #[test]
    fn empty_fields_filter_nothing() {
        let query = JobsQuery { tag: Some("  ".to_owned()), ..JobsQuery::default() }.cleaned();
        assert_eq!(query, JobsQuery::default());
        assert_eq!(query.with_status(Some(State::DeadLetter)), "/ui/jobs?status=dead_letter");
    }

    #[test]
    fn an_invalid_value_is_explained() {
        let wrong = |query: JobsQuery| query.filter(Uuid::nil()).unwrap_err();
        assert!(wrong(JobsQuery { status: Some("odd".to_owned()), ..JobsQuery::default() }).contains("odd"));
        assert!(
            wrong(JobsQuery { subject: Some("photo".to_owned()), ..JobsQuery::default() })
                .contains("type/id")
        );
        assert!(wrong(JobsQuery { after: Some("soon".to_owned()), ..JobsQuery::default() }).contains("soon"));
        assert!(
            JobsQuery { after: Some("2026-02-16T10:30".to_owned()), ..JobsQuery::default() }
                .filter(Uuid::nil())
                .is_ok()
        );
    }
}
