//! Whether a job contains a text: in its subject, its keys, its tags, or its payload as it is shown.

use serde_json::Value;

use crate::model::record::shown_key;
use crate::store::search::Candidate;
use crate::text::redact::Rules;

/// The text to search for.
#[derive(Debug, Clone)]
pub(super) struct SearchText {
    whole: String,
    plain: String,
}

impl SearchText {
    pub(super) fn new(text: &str) -> Self {
        Self { whole: text.to_owned(), plain: plain(text) }
    }

    pub(super) fn is_in(&self, job: &Candidate) -> bool {
        let keys = [&job.subject_id, &job.correlation_id, &job.source_ref];
        keys.into_iter().flatten().any(|key| *key == self.whole)
            || job.dedupe_key.as_deref().is_some_and(|key| shown_key(key) == self.whole)
            || job.tags.contains(&self.whole)
            || self.is_in_payload(job)
    }

    fn is_in_payload(&self, job: &Candidate) -> bool {
        // A payload that cannot be parsed is shown as text.
        let payload = serde_json::from_str(&job.payload).unwrap_or_else(|_| Value::from(job.payload.clone()));
        let rules = job.redaction.as_ref().and_then(|redaction| Rules::of(redaction).ok());
        // Rules that cannot be parsed may redact anything.
        rules.is_some_and(|rules| plain(&rules.payload(&payload).to_string()).contains(&self.plain))
    }
}

/// In lower case and without the spaces after separators, which depend on the serializer.
fn plain(text: &str) -> String {
    text.to_lowercase().replace(": ", ":").replace(", ", ",")
}
