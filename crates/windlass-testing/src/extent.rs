//! How much of an exhaustive product a test run covers.
//!
//! Products such as every zone × every change × every expression take minutes and rarely find anything new. A run covers a random
//! part of them, in CI a part that the commit chooses, so that many runs cover everything. `./dev test --full` covers everything.
//! `./dev test` prints its seed; `WINDLASS_TEST_SEED` repeats it.

use std::hash::{DefaultHasher, Hash, Hasher};

/// At most `most` of these, in their order; all of them in a full run.
pub fn sample<T>(all: Vec<T>, most: usize) -> Vec<T> {
    if is_full() {
        return all;
    }
    let mut chosen: Vec<(u64, usize, T)> =
        all.into_iter().enumerate().map(|(place, one)| (hash(place), place, one)).collect();
    chosen.sort_by_key(|(hash, ..)| *hash);
    chosen.truncate(most);
    chosen.sort_by_key(|(_, place, _)| *place);
    chosen.into_iter().map(|(.., one)| one).collect()
}

/// At most `most` of the variants of one thing; all of them in a full run. Another thing, with another `number`, gets other ones.
pub fn some_of<T: Clone>(variants: &[T], most: usize, number: usize) -> Vec<T> {
    if is_full() || variants.len() <= most {
        return variants.to_vec();
    }
    let first = (seed() as usize).wrapping_add(number * most);
    (0..most).map(|place| variants[first.wrapping_add(place) % variants.len()].clone()).collect()
}

/// The number of repetitions: the first in a normal run, the second in a full one.
pub fn times<T>(sampled: T, full: T) -> T {
    if is_full() { full } else { sampled }
}

pub fn is_full() -> bool {
    std::env::var_os("WINDLASS_TEST_FULL").is_some()
}

fn hash(place: usize) -> u64 {
    let mut hasher = DefaultHasher::new();
    (seed(), place).hash(&mut hasher);
    hasher.finish()
}

/// Defaults to the current hour, so that a failure can be reproduced for a while.
fn seed() -> u64 {
    let given = std::env::var("WINDLASS_TEST_SEED").ok().and_then(|seed| seed.parse().ok());
    given.unwrap_or_else(|| {
        let since_1970 = std::time::UNIX_EPOCH.elapsed().unwrap_or_default();
        since_1970.as_secs() / 3600
    })
}
