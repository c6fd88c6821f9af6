//! Whether a definition takes a payload, asked in a transaction that is under way.
//!
//! It reads on that transaction's own connection. To ask the queue for a route instead would take a second connection while the
//! first is held, and as many such requests as the pool has connections would wait for each other.

use jsonschema::Validator;

use crate::error::{Error, Result};
use crate::model::definition;
use crate::model::new_job::NewJob;
use crate::store;
use crate::store::database::Session;

/// What a definition demands of a payload.
pub(super) struct PayloadRules {
    /// Why the definition takes no job at all, if it does not.
    refusal: Option<Error>,
    validator: Option<Validator>,
}

impl PayloadRules {
    /// A definition that is missing or inactive is no error here: a caller may have to write the reason down.
    pub(super) async fn read(session: &Session, key: &str) -> Result<Self> {
        let Some((is_active, schema)) = store::definition::schema(session, key).await? else {
            let refusal = Error::UnknownDefinition { key: key.to_owned() };
            return Ok(Self { refusal: Some(refusal), validator: None });
        };
        let refusal = (!is_active).then(|| Error::InactiveDefinition { key: key.to_owned() });
        Ok(Self { refusal, validator: definition::validator(&schema)? })
    }

    /// Gives the job back if the definition takes it.
    pub(super) fn check(&self, job: NewJob) -> Result<NewJob> {
        job.check()?;
        if let Some(refusal) = &self.refusal {
            return Err(refusal.clone());
        }
        if let Some(validator) = &self.validator {
            definition::check_payload(validator, job.payload_text()?)?;
        }
        Ok(job)
    }
}
