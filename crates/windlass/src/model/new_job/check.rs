//! What is refused before the database is asked, with the field's name. The SQL door refuses the same (`refuse_options`).

use super::NewJob;
use crate::error::{Error, Result};

const LONGEST_TEXT: usize = 500;
const LONGEST_TAG: usize = 100;
const MOST_TAGS: usize = 20;

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
        check_text("definition_key", &self.definition_key, LONGEST_TEXT)?;
        for (field, text) in texts {
            if let Some(text) = text {
                check_text(field, text, LONGEST_TEXT)?;
            }
        }
        if options.tags.len() > MOST_TAGS {
            return Err(Error::refused("tags", format!("are at most {MOST_TAGS}")));
        }
        options.tags.iter().try_for_each(|tag| check_text("tags", tag, LONGEST_TAG))
    }
}

fn check_text(field: &str, text: &str, most: usize) -> Result<()> {
    if text.is_empty() || text.len() > most {
        return Err(Error::refused(field, format!("must have 1 to {most} bytes")));
    }
    if text.contains('\0') {
        return Err(Error::refused(field, "holds the NUL character, which cannot be stored"));
    }
    Ok(())
}
