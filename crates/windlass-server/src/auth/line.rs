//! The line of those whose password is to be compared or hashed, which takes memory and time on purpose. It is short: whoever comes
//! beyond its end is told to come back. A network has a few places at once. So that strangers cannot take all of them, networks that
//! failed lately have a part of the line, those that nobody knows a larger one, and those from which somebody signed in all of it.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::http::{Problem, ProblemKind};

const PLACES: usize = 64;
const OF_UNKNOWN: usize = 48;
const OF_FAILED: usize = 24;
const OF_A_NETWORK: usize = 4;
/// Networks that are remembered to have signed in.
const MOST_KNOWN: usize = 50_000;

/// What is known of a network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    HasFailed,
    Unknown,
}

#[derive(Debug, Default)]
pub(super) struct Line {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    taken: usize,
    of_networks: HashMap<String, usize>,
    known: HashSet<String>,
}

/// One place, given back when it is dropped.
#[derive(Debug)]
#[must_use]
pub(crate) struct Place<'a> {
    line: &'a Line,
    network: String,
}

impl Line {
    pub(super) fn take(&self, network: &str, standing: Standing) -> Result<Place<'_>, Problem> {
        let mut inner = self.lock();
        let most = match standing {
            _ if inner.known.contains(network) => PLACES,
            Standing::Unknown => OF_UNKNOWN,
            Standing::HasFailed => OF_FAILED,
        };
        let of_network = inner.of_networks.get(network).copied().unwrap_or_default();
        if inner.taken >= most || of_network >= OF_A_NETWORK {
            let detail = "too many passwords are being checked at the moment; try again in a few seconds";
            return Err(Problem::of(ProblemKind::Unavailable, detail).retry_after(2));
        }
        inner.taken += 1;
        inner.of_networks.insert(network.to_owned(), of_network + 1);
        Ok(Place { line: self, network: network.to_owned() })
    }

    /// Somebody signed in from there.
    pub(super) fn welcome(&self, network: &str) {
        let mut inner = self.lock();
        if inner.known.len() >= MOST_KNOWN {
            inner.known.clear();
        }
        inner.known.insert(network.to_owned());
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut inner = self.line.lock();
        inner.taken -= 1;
        if let Some(taken) = inner.of_networks.get_mut(&self.network) {
            *taken -= 1;
            if *taken == 0 {
                inner.of_networks.remove(&self.network);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Line, OF_FAILED, OF_UNKNOWN, PLACES, Standing};

    #[test]
    fn each_standing_has_its_part_of_the_line_and_places_are_given_back() {
        let line = Line::default();
        let take = |kind: &str, standing| -> Vec<_> {
            (0..200).filter_map(|n| line.take(&format!("{kind}{n}"), standing).ok()).collect()
        };
        let failed = take("failed", Standing::HasFailed);
        assert_eq!(failed.len(), OF_FAILED);
        let unknown = take("unknown", Standing::Unknown);
        assert_eq!(unknown.len(), OF_UNKNOWN - OF_FAILED);
        (0..200).for_each(|n| line.welcome(&format!("known{n}")));
        assert_eq!(take("known", Standing::Unknown).len(), PLACES - OF_UNKNOWN);
        drop((failed, unknown));
        let inner = line.lock();
        assert_eq!((inner.taken, inner.of_networks.len()), (0, 0));
    }
}
