//! How many secret texts one job may have, and how long they may be. Each is searched for in more than twenty forms, in
//! everything that the job's runs say, so the amount decides what a job costs. Payloads come from tenants.

use serde_json::Value;

use super::keys;
use crate::error::{Error, Result};

/// The most secret texts of one payload. One that occurs twice counts once; one that is too short to be found does not
/// count.
pub const MOST_SECRETS: usize = 256;

/// The most bytes of one secret text: enough for a private key in PEM.
pub const LONGEST_SECRET: usize = 4 * 1024;

/// The most bytes of all of them together.
pub const MOST_SECRET_BYTES: usize = 16 * 1024;

/// A shorter payload cannot hold too much: this many bytes hold neither 256 texts of six bytes nor a text of 4 KiB.
const HARMLESS: usize = MOST_SECRETS * (super::SHORTEST_SECRET + 3);

/// Refuses a payload with more secret texts than can be searched for, by the names that are secret in every payload.
pub(crate) fn check(payload: &str) -> Result<()> {
    if payload.len() < HARMLESS {
        return Ok(());
    }
    let Ok(value) = serde_json::from_str::<Value>(payload) else { return Ok(()) };
    let refused = |problem| Error::refused("payload", problem);
    exceeded(keys::secrets_in(&value, &[])).map_or(Ok(()), |problem| Err(refused(problem)))
}

/// What is too much about these texts, if anything is.
pub(super) fn exceeded<T: AsRef<[u8]> + Ord>(mut secrets: Vec<T>) -> Option<String> {
    secrets.sort_unstable();
    secrets.dedup();
    let under = "under names such as `password` or `token`";
    if secrets.len() > MOST_SECRETS {
        return Some(format!("has {} texts {under}; at most {MOST_SECRETS} are allowed", secrets.len()));
    }
    let lengths = || secrets.iter().map(|secret| secret.as_ref().len());
    if let Some(length) = lengths().find(|length| *length > LONGEST_SECRET) {
        return Some(format!("has a text of {length} bytes {under}; at most {LONGEST_SECRET} are allowed"));
    }
    let total: usize = lengths().sum();
    (total > MOST_SECRET_BYTES)
        .then(|| format!("has texts of {total} bytes {under}; at most {MOST_SECRET_BYTES} are allowed"))
}
