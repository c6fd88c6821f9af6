//! Checks before the database is called; errors contain the name of the field. The SQL functions `check_options` and
//! `enqueue` check the same.

use super::NewJob;
use crate::error::{Error, Result};
use crate::model::trace::is_traceparent;

const MAX_TEXT_LENGTH: usize = 500;
const MAX_TAG_LENGTH: usize = 100;
const MAX_TAGS: usize = 20;
const MAX_DEPENDENCIES: usize = 100;

impl NewJob {
    pub(crate) fn check(&self) -> Result<()> {
        crate::text::redact::check_amount(self.payload_text()?)?;
        let options = &self.options;
        let texts = [
            ("queue", &options.queue),
            ("dedupe_key", &options.dedupe_key),
            ("idempotency_key", &options.idempotency_key),
            ("ordering_key", &options.ordering_key),
            ("subject_type", &options.subject_type),
            ("subject_id", &options.subject_id),
            ("correlation_id", &options.correlation_id),
            ("source_ref", &options.source_ref),
            ("trace", &options.trace),
        ];
        check_text("definition_key", &self.definition_key, MAX_TEXT_LENGTH)?;
        for (field, text) in texts {
            if let Some(text) = text {
                check_text(field, text, MAX_TEXT_LENGTH)?;
            }
        }
        match (&options.subject_type, &options.subject_id) {
            (Some(_), None) => return Err(Error::refused("subject_id", "is required with subject_type")),
            (None, Some(_)) => return Err(Error::refused("subject_type", "is required with subject_id")),
            (Some(_), Some(_)) | (None, None) => {}
        }
        if options.depends_on.len() > MAX_DEPENDENCIES {
            let message = format!("must have at most {MAX_DEPENDENCIES} jobs");
            return Err(Error::refused("depends_on", message));
        }
        if options.trace.as_deref().is_some_and(|trace| !is_traceparent(trace)) {
            return Err(Error::refused("trace", "must be a W3C traceparent"));
        }
        if options.delay.is_some_and(|delay| delay > Self::MAX_DELAY) {
            let seconds = Self::MAX_DELAY.as_secs();
            return Err(Error::refused("delay", format!("must be at most {seconds} seconds (ten years)")));
        }
        if options.tags.len() > MAX_TAGS {
            return Err(Error::refused("tags", format!("must have at most {MAX_TAGS} items")));
        }
        options.tags.iter().try_for_each(|tag| check_text("tags", tag, MAX_TAG_LENGTH))
    }
}

fn check_text(field: &str, text: &str, most: usize) -> Result<()> {
    if text.is_empty() || text.len() > most {
        return Err(Error::refused(field, format!("must have 1 to {most} bytes")));
    }
    if text.contains('\0') {
        return Err(Error::refused(field, "must not contain the NUL character"));
    }
    Ok(())
}
