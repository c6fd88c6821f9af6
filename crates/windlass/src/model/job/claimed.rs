//! A job that this worker holds, and the fence of its attempt.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use uuid::Uuid;

use super::settle::Budget;
use crate::model::trace::Trace;

/// Proof of holding one attempt of one job. Every write about the attempt contains it, and is rejected when it is
/// stale.
///
/// ```
/// use windlass::job::Fence;
/// use uuid::Uuid;
///
/// let fence = Fence { tenant: windlass::DEFAULT_TENANT, job: Uuid::from_u128(7), attempt: 2, token: Uuid::from_u128(9) };
/// assert_eq!(Fence::decode(&fence.encode()), Some(fence));
/// assert_eq!(Fence::decode("anything else"), None);
/// ```
// Exhaustive: pull workers hold the encoded form, which has exactly these values. Another one would be another type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fence {
    /// The tenant of the job.
    pub tenant: Uuid,
    /// The id of the job.
    pub job: Uuid,
    /// The number of the attempt.
    pub attempt: i32,
    /// The random token of the attempt.
    pub token: Uuid,
}

/// Two UUIDs, the attempt number, and the token.
const FENCE_BYTES: usize = 16 + 16 + 4 + 16;

impl Fence {
    /// The fence as an opaque text, for the pull worker that runs the attempt. It cannot be guessed: the token is 128
    /// random bits, and the statement compares the whole fence.
    #[must_use]
    pub fn encode(&self) -> String {
        let mut bytes = Vec::with_capacity(FENCE_BYTES);
        bytes.extend_from_slice(self.tenant.as_bytes());
        bytes.extend_from_slice(self.job.as_bytes());
        bytes.extend_from_slice(&self.attempt.to_be_bytes());
        bytes.extend_from_slice(self.token.as_bytes());
        URL_SAFE_NO_PAD.encode(bytes)
    }

    /// Parses such a text. Returns none for anything else.
    #[must_use]
    pub fn decode(text: &str) -> Option<Self> {
        let bytes: [u8; FENCE_BYTES] = URL_SAFE_NO_PAD.decode(text).ok()?.try_into().ok()?;
        let (tenant, rest) = bytes.split_first_chunk::<16>()?;
        let (job, rest) = rest.split_first_chunk::<16>()?;
        let (attempt, rest) = rest.split_first_chunk::<4>()?;
        let (token, _) = rest.split_first_chunk::<16>()?;
        Some(Self {
            tenant: Uuid::from_bytes(*tenant),
            job: Uuid::from_bytes(*job),
            attempt: i32::from_be_bytes(*attempt),
            token: Uuid::from_bytes(*token),
        })
    }
}

/// Where a worker holds a job: its position in a block of jobs that were claimed together. Ends are written by place,
/// because that is cheaper than by id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct BlockPlace {
    pub(crate) lane: i32,
    /// The number of the block in its lane.
    pub(crate) block: i64,
    /// From 0 to 63.
    pub(crate) position: i16,
}

#[derive(Debug)]
pub(crate) struct Claimed {
    pub(crate) fence: Fence,
    /// None if the job is known only by its fence.
    pub(crate) place: Option<BlockPlace>,
    pub(crate) definition_key: Arc<str>,
    pub(crate) payload: String,
    pub(crate) queued_ms: i64,
    /// `max_lost` and `max_snoozes` come from the definition and are set when the attempt is settled.
    pub(crate) budget: Budget,
    pub(crate) extra: Extra,
}

impl Claimed {
    /// How long the job had been due.
    pub(crate) fn queued(&self) -> Duration {
        Duration::from_millis(u64::try_from(self.queued_ms).unwrap_or(0))
    }

    pub(crate) fn trace(&self) -> Trace {
        Trace::of(self.fence.job, self.extra.trace.as_deref())
    }
}

/// Fields that most jobs leave empty.
#[derive(Debug, Default, serde::Deserialize)]
pub(crate) struct Extra {
    pub(crate) source_ref: Option<String>,
    pub(crate) correlation_id: Option<String>,
    pub(crate) subject_type: Option<String>,
    pub(crate) subject_id: Option<String>,
    pub(crate) trace: Option<String>,
    pub(crate) tags: Option<Vec<String>>,
    pub(crate) parent_id: Option<Uuid>,
    pub(crate) created_by: Option<Uuid>,
}

#[cfg(test)]
mod tests {
    use super::Fence;
    use uuid::Uuid;

    #[test]
    fn a_fence_round_trips_and_has_one_text() {
        let fence = Fence { tenant: Uuid::new_v4(), job: Uuid::new_v4(), attempt: 7, token: Uuid::new_v4() };
        let text = fence.encode();
        assert_eq!(Fence::decode(&text), Some(fence));
        for at in 0..text.len() {
            for other in ['A', 'z', '5', '-', '_', '=', ' '] {
                let mut changed = text.clone();
                changed.replace_range(at..=at, &other.to_string());
                assert!(changed == text || Fence::decode(&changed) != Some(fence), "{changed}");
            }
        }
        for broken in ["", "x", &text[1..], &format!("{text}A"), &format!("{text} "), "é"] {
            assert_eq!(Fence::decode(broken), None, "{broken}");
        }
    }
}
