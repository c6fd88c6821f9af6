//! The filter bar of the list of jobs, and what is said about its result.

use windlass::job::{Counts, State};

use crate::web::count::{count_words, grouped};
use crate::web::query::{JobsQuery, SOURCES};
use crate::web::status_mark::StatusMark;

pub(super) struct FilterBar {
    pub(super) tabs: Vec<Tab>,
    pub(super) chips: Vec<Chip>,
    pub(super) definitions: Vec<String>,
    pub(super) queues: Vec<String>,
    pub(super) sources: [&'static str; 4],
}

pub(super) struct Tab {
    pub(super) name: &'static str,
    pub(super) href: String,
    pub(super) is_current: bool,
    pub(super) count: Option<String>,
}

pub(super) struct Chip {
    pub(super) text: String,
    /// The address without this filter.
    pub(super) without: String,
}

impl FilterBar {
    pub(super) fn new(query: &JobsQuery, counts: &[Counts]) -> Self {
        Self {
            tabs: tabs(query, counts),
            chips: query.chips().into_iter().map(|(text, without)| Chip { text, without }).collect(),
            definitions: distinct(counts.iter().map(|each| &each.definition_key)),
            queues: distinct(counts.iter().map(|each| &each.queue)),
            sources: SOURCES,
        }
    }

    /// Why the list is empty.
    pub(super) fn none_words(&self, query: &JobsQuery) -> &'static str {
        match query.state() {
            _ if !self.chips.is_empty() => "No job in this tenant matches all filters.",
            _ if query.cursor.is_some() => "There are no older jobs.",
            Some(state) => none_in(state),
            None => "This tenant has no jobs.",
        }
    }
}

fn distinct<'a>(names: impl Iterator<Item = &'a String>) -> Vec<String> {
    let names: std::collections::BTreeSet<&String> = names.collect();
    names.into_iter().cloned().collect()
}

fn tabs(query: &JobsQuery, counts: &[Counts]) -> Vec<Tab> {
    let current = query.state();
    let counted = |state: State| {
        let fits = counts.iter().filter(|each| fits(query, each));
        Some(fits.map(|each| each.of(state)).sum::<i64>())
            .filter(|count| *count > 0 && query.is_counted())
            .map(grouped)
    };
    let all = Tab { name: "All", href: query.with_status(None), is_current: current.is_none(), count: None };
    let tab = |state: State| Tab {
        name: StatusMark::of(state, false).word,
        href: query.with_status(Some(state)),
        is_current: current == Some(state),
        count: counted(state),
    };
    std::iter::once(all).chain(ORDER.map(tab)).collect()
}

/// The order of the tabs, from waiting to finished jobs.
const ORDER: [State; 8] = [
    State::Queued,
    State::Running,
    State::Scheduled,
    State::Blocked,
    State::Succeeded,
    State::Failed,
    State::DeadLetter,
    State::Canceled,
];

fn fits(query: &JobsQuery, counts: &Counts) -> bool {
    query.definition.as_ref().is_none_or(|key| *key == counts.definition_key)
        && query.queue.as_ref().is_none_or(|queue| *queue == counts.queue)
}

/// The number of jobs that match the filter, and whether there may be more than are known.
pub(super) fn matching(query: &JobsQuery, counts: &[Counts], shown: usize, has_next: bool) -> (u64, bool) {
    if !query.is_counted() {
        return (shown as u64 + u64::from(has_next), has_next);
    }
    let states: Vec<State> = query.state().map_or(State::ALL.to_vec(), |state| vec![state]);
    let fitting = counts.iter().filter(|each| fits(query, each));
    let count: i64 = fitting.map(|each| states.iter().map(|state| each.of(*state)).sum::<i64>()).sum();
    (count.unsigned_abs(), false)
}

/// The number of jobs that a search found, and the number that it read.
pub(super) fn searched_words(query: &JobsQuery, shown: usize, searched: usize) -> String {
    let which = if query.cursor.is_some() { "next" } else { "newest" };
    format!("{} found in the {which} {}", count_words(shown, "job"), grouped(searched))
}

pub(super) fn page_words(query: &JobsQuery, shown: usize, matching: u64, more: bool) -> String {
    match (query.cursor, more) {
        (Some(_), _) => count_words(shown, "older job"),
        (None, true) => format!("Newest {}", count_words(shown, "job")),
        (None, false) if matching <= shown as u64 => count_words(shown, "job"),
        (None, false) => format!("Newest {shown} of {}", count_words(matching, "job")),
    }
}

const fn none_in(state: State) -> &'static str {
    match state {
        State::Queued => "No jobs are queued.",
        State::Running => "No jobs are running.",
        State::Scheduled => "No jobs are scheduled.",
        State::Blocked => "No jobs are blocked.",
        State::Succeeded => "No jobs have succeeded.",
        State::Failed => "No jobs have failed.",
        State::DeadLetter => "There are no dead letters.",
        State::Canceled => "No jobs were canceled.",
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::{JobsQuery, page_words, searched_words};

    #[test]
    fn one_job_is_singular() {
        let first = JobsQuery::default();
        let older = JobsQuery { cursor: Some(Uuid::nil()), ..JobsQuery::default() };
        assert_eq!(page_words(&older, 1, 7, false), "1 older job");
        assert_eq!(page_words(&older, 2, 7, false), "2 older jobs");
        assert_eq!(page_words(&first, 1, 1, false), "1 job");
        assert_eq!(page_words(&first, 1, 2, true), "Newest 1 job");
        assert_eq!(page_words(&first, 50, 51, false), "Newest 50 of 51 jobs");
        assert_eq!(searched_words(&older, 1, 5000), "1 job found in the next 5\u{202f}000");
    }
}
