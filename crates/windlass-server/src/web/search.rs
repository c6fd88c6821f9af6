//! A search in a list that is short enough to be read completely, but too long to show.

use serde::Deserialize;

/// The search in the URL.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Search {
    #[serde(default)]
    q: String,
}

/// The search as shown on the page.
pub(crate) struct Searched {
    pub(crate) q: String,
    pub(crate) is_shown: bool,
    found: usize,
}

/// A list of at most this many rows has no search field.
const WORTH_A_SEARCH: usize = 10;

impl Search {
    /// The maximum number of rows on one page.
    pub(crate) const SHOWN: usize = 200;

    /// The rows that match the search, which is passed in lower case.
    pub(crate) fn among<'a, T>(&self, all: &'a [T], matches: impl Fn(&T, &str) -> bool) -> Vec<&'a T> {
        let wanted = self.q.trim().to_lowercase();
        all.iter().filter(|one| matches(one, &wanted)).collect()
    }

    pub(crate) fn searched(self, all: usize, found: usize) -> Searched {
        let is_shown = all > WORTH_A_SEARCH || !self.q.trim().is_empty();
        Searched { q: self.q, is_shown, found }
    }
}

impl Searched {
    /// Whether it can exclude rows.
    pub(crate) fn is_active(&self) -> bool {
        !self.q.trim().is_empty()
    }

    /// The text next to the title: a description of the list, or that not all rows are shown.
    pub(crate) fn aside(&self, otherwise: &str) -> String {
        if self.found > Search::SHOWN {
            format!("Showing {} of {}; search to find others", Search::SHOWN, self.found)
        } else {
            otherwise.to_owned()
        }
    }
}
