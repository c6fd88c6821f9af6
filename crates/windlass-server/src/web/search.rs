//! A list that is read whole and looked through by a word: short enough for it, too long to read.

use serde::Deserialize;

use super::html::{Html, escape};

/// What was typed.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Search {
    #[serde(default)]
    q: String,
}

/// Where fewer than this are listed, nobody has to look for one.
const WORTH_A_SEARCH: usize = 10;

impl Search {
    /// Rows on one page; others are found.
    pub(crate) const SHOWN: usize = 200;

    /// Those that fit what was typed, which is given in lower case.
    pub(crate) fn among<'a, T>(&self, all: &'a [T], fits: impl Fn(&T, &str) -> bool) -> Vec<&'a T> {
        let wanted = self.q.trim().to_lowercase();
        all.iter().filter(|one| fits(one, &wanted)).collect()
    }

    pub(crate) fn form(&self, all: usize, action: &str, label: &str, hint: &str) -> Html {
        if all <= WORTH_A_SEARCH {
            return Html::default();
        }
        Html(format!(
            "<form class=\"filters\" action=\"{action}\" role=\"search\" aria-label=\"{label}\"><label class=\"aloud\" for=\"list-q\">{label}</label><input id=\"list-q\" type=\"search\" name=\"q\" value=\"{}\" placeholder=\"{hint}\"><button>Find</button></form>",
            escape(&self.q)
        ))
    }

    /// What stands beside the title: what the list is, or that it is cut.
    pub(crate) fn aside(found: usize, otherwise: &str) -> String {
        if found > Self::SHOWN {
            format!("{} of {found} shown; find others by name", Self::SHOWN)
        } else {
            otherwise.to_owned()
        }
    }
}
