//! The share of one tenant in a round that renders payloads: jobs, and bytes, of payloads and of the conditions that were
//! compared with events. The work stops where the share ends, so a round never costs more than its shares, whatever the
//! templates expand to, and however many events match nothing.

use crate::model::trigger::MAX_BYTES;

/// A round is divided among at least this many tenants: a tenant that is alone gets no round of the full size, because
/// another one that comes meanwhile waits until the round has ended.
const AT_LEAST: usize = 4;

/// The rest of a tenant's share of a round; by default there is none.
#[derive(Default)]
pub(super) struct RoundShare {
    jobs: usize,
    bytes: usize,
    is_unused: bool,
}

impl RoundShare {
    /// An equal share of a round with this many jobs and tenants.
    pub(super) fn among(jobs: usize, tenants: usize) -> Self {
        let bytes = MAX_BYTES as usize / tenants.max(AT_LEAST);
        Self { jobs: jobs / tenants.max(1), bytes, is_unused: true }
    }

    /// The size that the next payload may have; `None` if there is no room for another job. The first one may have any
    /// size, so that every tenant makes progress.
    pub(super) fn room(&self) -> Option<usize> {
        match self {
            Self { is_unused: true, .. } => Some(usize::MAX),
            Self { jobs: 0, .. } | Self { bytes: 0, .. } => None,
            Self { bytes, .. } => Some(*bytes),
        }
    }

    /// Whether more conditions may be compared with an event. It is true at first, so that every tenant makes progress.
    pub(super) fn has_bytes(&self) -> bool {
        self.bytes > 0
    }

    /// Takes the size of conditions that are compared with an event. The first payload still has room after that.
    pub(super) fn examine(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_sub(bytes);
    }

    /// Takes the room of one job.
    pub(super) fn take(&mut self, bytes: usize) {
        self.is_unused = false;
        self.jobs = self.jobs.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_payload_always_fits_and_the_others_only_within_the_share() {
        let mut share = RoundShare::among(500, 8);
        assert_eq!(share.room(), Some(usize::MAX));
        share.take(1000);
        assert_eq!(share.room(), Some(MAX_BYTES as usize / 8 - 1000));
        share.take(MAX_BYTES as usize);
        assert_eq!(share.room(), None);
        let mut single = RoundShare::among(1, 1);
        assert_eq!(single.room(), Some(usize::MAX));
        single.take(10);
        assert_eq!(single.room(), None, "it was the only job");
    }

    #[test]
    fn conditions_use_up_the_share_except_for_the_first_payload() {
        let mut share = RoundShare::among(500, 8);
        assert!(share.has_bytes());
        share.examine(MAX_BYTES as usize);
        assert!(!share.has_bytes());
        assert_eq!(share.room(), Some(usize::MAX), "otherwise a large payload would never fit");
        share.take(1);
        assert_eq!(share.room(), None);
    }
}
