//! A list that is read as a whole and searched by a word: short enough for that, too long to read.

use serde::Deserialize;

/// The search in the address.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Search {
    #[serde(default)]
    q: String,
}

/// What the page shows of the search.
pub(crate) struct Searched {
    pub(crate) q: String,
    pub(crate) is_shown: bool,
    found: usize,
}

/// A list of at most this many needs no search.
const WORTH_A_SEARCH: usize = 10;

impl Search {
    /// Rows on one page.
    pub(crate) const SHOWN: usize = 200;

    /// Those that match the search, which is given in lower case.
    pub(crate) fn among<'a, T>(&self, all: &'a [T], matches: impl Fn(&T, &str) -> bool) -> Vec<&'a T> {
        let wanted = self.q.trim().to_lowercase();
        all.iter().filter(|one| matches(one, &wanted)).collect()
    }

    pub(crate) fn searched(self, all: usize, found: usize) -> Searched {
        Searched { q: self.q, is_shown: all > WORTH_A_SEARCH, found }
    }
}

impl Searched {
    /// What stands beside the title: what the list is, or that it is cut.
    pub(crate) fn aside(&self, otherwise: &str) -> String {
        if self.found > Search::SHOWN {
            format!("Showing {} of {}; search to find others", Search::SHOWN, self.found)
        } else {
            otherwise.to_owned()
        }
    }
}
