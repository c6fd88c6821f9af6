//! Limits the number and length of the secrets of one job. Each is searched for in more than twenty forms, in all
//! output of its runs, so the amount determines the cost of a job. Payloads come from tenants.

use serde_json::Value;

use super::keys;
use crate::error::{Error, Result};

/// The maximum number of secrets of one payload. Duplicates count once; values that are too short to be searched for do
/// not count.
pub const MAX_SECRETS: usize = 256;

/// The maximum length of one secret, in bytes: enough for a private key in PEM.
pub const MAX_SECRET_LENGTH: usize = 4 * 1024;

/// The maximum total length of all of them, in bytes.
pub const MAX_SECRET_BYTES: usize = 16 * 1024;

/// A shorter payload cannot exceed the limits: it has no room for 256 strings of six bytes, nor for a string of 4 KiB.
const HARMLESS: usize = MAX_SECRETS * (super::MIN_SECRET_LENGTH + 3);

/// Rejects a payload with more secrets than can be searched for, by the names that are secret in every payload.
pub(crate) fn check(payload: &str) -> Result<()> {
    if payload.len() < HARMLESS {
        return Ok(());
    }
    let Ok(value) = serde_json::from_str::<Value>(payload) else { return Ok(()) };
    let refused = |problem| Error::refused("payload", problem);
    exceeded(keys::secrets_in(&value, &[])).map_or(Ok(()), |problem| Err(refused(problem)))
}

/// The exceeded limit, if any.
pub(super) fn exceeded<T: AsRef<[u8]> + Ord>(mut secrets: Vec<T>) -> Option<String> {
    secrets.sort_unstable();
    secrets.dedup();
    let under = "under names such as `password` or `token`";
    if secrets.len() > MAX_SECRETS {
        return Some(format!("has {} values {under}; at most {MAX_SECRETS} are allowed", secrets.len()));
    }
    let lengths = || secrets.iter().map(|secret| secret.as_ref().len());
    if let Some(length) = lengths().find(|length| *length > MAX_SECRET_LENGTH) {
        return Some(format!(
            "has a value of {length} bytes {under}; at most {MAX_SECRET_LENGTH} are allowed"
        ));
    }
    let total: usize = lengths().sum();
    (total > MAX_SECRET_BYTES).then(|| {
        format!("has values of {total} bytes in total {under}; at most {MAX_SECRET_BYTES} are allowed")
    })
}
