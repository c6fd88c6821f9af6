//! Whether a definition accepts a payload, checked within an open transaction.
//!
//! It reads on the connection of that transaction. Reading the route through the queue would take a second connection
//! while the first is held; as many such requests as the pool has connections would wait for each other forever.

use jsonschema::Validator;

use crate::error::{Error, Result};
use crate::model::definition;
use crate::model::new_job::NewJob;
use crate::store;
use crate::store::database::Session;

/// The requirements of a definition for a payload.
pub(super) struct PayloadRules {
    /// Why the definition accepts no jobs, if so.
    refusal: Option<Error>,
    validator: Option<Validator>,
}

impl PayloadRules {
    /// A definition that is missing or inactive is not an error here: the caller may have to record the reason.
    pub(super) async fn read(session: &Session, key: &str) -> Result<Self> {
        let Some((is_active, schema)) = store::definition::schema(session, key).await? else {
            let refusal = Error::UnknownDefinition { key: key.to_owned() };
            return Ok(Self { refusal: Some(refusal), validator: None });
        };
        let refusal = (!is_active).then(|| Error::InactiveDefinition { key: key.to_owned() });
        Ok(Self { refusal, validator: definition::validator(&schema)? })
    }

    /// Returns the job if the definition accepts it.
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
