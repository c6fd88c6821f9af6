//! A request of a pull worker is validated before anything is changed, and put into the form that is stored. An error names
//! the field.

use std::time::Duration;

use super::{Claim, Heartbeat, WorkerInfo};
use crate::error::{Error, Result};
use crate::store;
use crate::store::pull::{HeartbeatInput, PRESENT};
use crate::text;
use crate::text::json::{self, JsonLimits};
use crate::text::redact::Redactor;

const MAX_WAIT: Duration = Duration::from_secs(60);
const MAX_LEASE: Duration = Duration::from_secs(86_400);
const MAX_JOBS: usize = 100;
const MAX_NAMES: usize = 1000;
pub(super) const MAX_NAME_LENGTH: usize = 200;
const MAX_NAME_BYTES: usize = 64 * 1024;
const MESSAGE_BYTES: usize = 1000;
const LOG_BYTES: usize = 64 * 1024;
const MAX_LOG_BYTES: usize = 1024 * 1024;
const PIECE_BYTES: usize = 16 * 1024;

impl WorkerInfo {
    pub(crate) fn check(&self) -> Result<()> {
        check_names("definition_keys", &self.definition_keys)?;
        check_names("queues", &self.queues)?;
        for (field, text) in [("hostname", &self.hostname), ("version", &self.version)] {
            if text.len() > MAX_NAME_LENGTH || text.contains('\0') {
                return Err(Error::refused(
                    field,
                    format!("must have at most {MAX_NAME_LENGTH} bytes and no NUL"),
                ));
            }
        }
        let metadata = serde_json::to_string(&self.metadata).unwrap_or_default();
        let limits = JsonLimits { max_bytes: 16 * 1024, ..Default::default() };
        json::check(&metadata, &limits).map_err(|refused| Error::json("metadata", refused))
    }

    pub(crate) fn as_stored(&self, name: &str) -> store::worker::WorkerRegistration {
        store::worker::WorkerRegistration {
            worker_id: name.to_owned(),
            hostname: self.hostname.clone(),
            queues: Some(self.queues.clone()),
            definition_keys: self.definition_keys.clone(),
            lease_seconds: PRESENT,
            metadata: serde_json::to_string(&self.metadata).unwrap_or_else(|_| "{}".to_owned()),
        }
    }
}

impl Claim {
    pub(crate) fn check(&self) -> Result<()> {
        if self.definition_keys.is_empty() && self.queues.is_empty() {
            return Err(Error::refused("definition_keys", "is required, or queues"));
        }
        check_names("definition_keys", &self.definition_keys)?;
        check_names("queues", &self.queues)?;
        if self.limit == 0 || self.limit > MAX_JOBS {
            return Err(Error::refused("limit", format!("must be between 1 and {MAX_JOBS}")));
        }
        if self.wait > MAX_WAIT {
            let most = MAX_WAIT.as_secs();
            return Err(Error::refused("wait_seconds", format!("must be between 0 and {most}")));
        }
        check_lease(self.lease)
    }

    /// Whether a worker is registered with the definitions and queues of this claim.
    pub(crate) fn is_registered(&self, as_what: &store::worker::WorkerRegistration) -> bool {
        as_what.definition_keys == self.definition_keys && as_what.queues.as_ref() == Some(&self.queues)
    }

    pub(crate) fn as_introduction(&self, name: &str) -> store::worker::WorkerRegistration {
        store::worker::WorkerRegistration {
            worker_id: name.to_owned(),
            hostname: String::new(),
            queues: Some(self.queues.clone()),
            definition_keys: self.definition_keys.clone(),
            lease_seconds: PRESENT,
            metadata: "{}".to_owned(),
        }
    }
}

impl Heartbeat {
    pub(crate) fn check(&self) -> Result<()> {
        if self.percent.is_some_and(|percent| !percent.is_finite()) {
            return Err(Error::refused("progress/percent", "must be a number"));
        }
        // All of it is searched for secrets, so the size of the request is bounded, not only what is stored.
        let bytes = self.log_bytes();
        if bytes > MAX_LOG_BYTES {
            return Err(Error::refused(
                "log",
                format!("has {bytes} bytes; at most {MAX_LOG_BYTES} are allowed per call"),
            ));
        }
        let bytes = self.message.as_ref().map_or(0, String::len);
        if bytes > LOG_BYTES {
            return Err(Error::refused(
                "progress/message",
                format!("has {bytes} bytes; at most {LOG_BYTES} are allowed"),
            ));
        }
        self.lease.map_or(Ok(()), check_lease)
    }

    fn log_bytes(&self) -> usize {
        self.log.iter().map(String::len).sum()
    }

    pub(crate) fn text_bytes(&self) -> usize {
        self.log_bytes() + self.message.as_ref().map_or(0, String::len)
    }

    pub(crate) fn has_texts(&self) -> bool {
        self.message.is_some() || !self.log.is_empty()
    }

    /// Returns the reports without secrets and in a form that can be stored. Secrets are redacted before anything is
    /// truncated, and in all lines of one call together: a secret that spans several lines is found.
    pub(crate) fn heartbeat_input(&self, redactor: &Redactor) -> HeartbeatInput {
        let message = self.message.as_deref().map(|text| redactor.text(text));
        let message = message.map(|text| text::storable(text.as_bytes(), MESSAGE_BYTES));
        let mut lines = self.log.join("\n");
        if !lines.is_empty() {
            lines.push('\n');
        }
        let mut rest = &text::tail(redactor.text(&lines).as_bytes(), LOG_BYTES)[..];
        let mut log = Vec::new();
        while !rest.is_empty() {
            let cut = (0..=PIECE_BYTES.min(rest.len())).rev().find(|&at| rest.is_char_boundary(at));
            let (piece, more) = rest.split_at(cut.unwrap_or(rest.len()));
            log.push(piece.to_owned());
            rest = more;
        }
        HeartbeatInput {
            lease_seconds: self.lease.map(whole_seconds),
            percent: self.percent.map(|percent| percent.clamp(0.0, 100.0)),
            message,
            log,
        }
    }
}

fn check_lease(lease: Duration) -> Result<()> {
    if lease < Duration::from_secs(1) || lease > MAX_LEASE {
        let most = MAX_LEASE.as_secs();
        return Err(Error::refused("lease_seconds", format!("must be between 1 and {most}")));
    }
    Ok(())
}

fn check_names(field: &str, names: &[String]) -> Result<()> {
    if names.len() > MAX_NAMES {
        return Err(Error::refused(field, format!("must have at most {MAX_NAMES} items")));
    }
    if names.iter().map(String::len).sum::<usize>() > MAX_NAME_BYTES {
        return Err(Error::refused(field, format!("must have at most {MAX_NAME_BYTES} bytes in total")));
    }
    let is_bad = |name: &&String| name.is_empty() || name.len() > MAX_NAME_LENGTH || name.contains('\0');
    match names.iter().position(|name| is_bad(&name)) {
        Some(position) => Err(Error::refused(
            format!("{field}/{position}"),
            format!("must have 1 to {MAX_NAME_LENGTH} bytes"),
        )),
        None => Ok(()),
    }
}

/// Returns a lease in whole seconds, at least one.
pub(crate) fn whole_seconds(duration: Duration) -> i32 {
    i32::try_from(duration.as_secs().max(1)).unwrap_or(i32::MAX)
}
