//! The list of jobs: cards, charts, filters, rows.

use askama::Template;
use axum::extract::State as FromState;
use axum::response::{IntoResponse, Redirect};
use jiff::{SignedDuration, Timestamp};
use uuid::Uuid;
use windlass::admin::{Activity, Run};
use windlass::internals::headline;
use windlass::job::{Counts, Job, State};

use super::asked::UiQuery;
use super::cards::{Card, Facts, HOUR, cards, minutes};
use super::chart::{Bar, Dot, Figure, Unit, distribution, percentile, scatter, throughput};
use super::count::{count_words, grouped};
use super::frame::{Frame, Section};
use super::mark::Mark;
use super::page::{Page, page};
use super::query::{JobsQuery, SOURCES};
use super::viewer::Viewer;
use super::when::{When, seconds_between, span};
use super::worker_name::brief;
use crate::auth::Permission;
use crate::http::App;

const ROWS: u16 = 50;

/// The number of runs in the charts.
pub(crate) const RUNS: u16 = 200;
const DOTS: usize = 120;

#[derive(Template)]
#[template(path = "jobs.html")]
struct JobsPage {
    frame: Frame,
    query: JobsQuery,
    cards: Vec<Card>,
    throughput: Figure,
    scatter: Figure,
    latency: Figure,
    duration: Figure,
    tabs: Vec<Tab>,
    chips: Vec<Chip>,
    definitions: Vec<String>,
    queues: Vec<String>,
    sources: [&'static str; 4],
    wrong: Option<String>,
    rows: Vec<Row>,
    next_href: Option<String>,
    newest_href: String,
    page_words: String,
    matching: u64,
    matching_more: bool,
    filter_text: String,
    back: String,
    empty_words: String,
    is_first_run: bool,
    may_enqueue: bool,
    may_delete: bool,
    base_url: String,
    tenant_id: Uuid,
    example_key: String,
}

/// The columns that a viewer can hide.
const COLUMNS: [(&str, &str); 7] = [
    ("source", "Source"),
    ("attempts", "Attempts"),
    ("queued", "Queued"),
    ("started", "Started"),
    ("finished", "Finished"),
    ("duration", "Duration"),
    ("worker", "Worker"),
];

struct Tab {
    name: &'static str,
    href: String,
    is_current: bool,
    count: Option<String>,
}

struct Chip {
    text: String,
    without: String,
}

/// One job of the list.
pub(crate) struct Row {
    pub(crate) id: Uuid,
    pub(crate) short: String,
    pub(crate) mark: Mark,
    pub(crate) definition_key: String,
    about: Option<String>,
    source: String,
    attempts: String,
    queued: When,
    started: Option<When>,
    /// When a job that is not ready starts, or starts again.
    due: Option<When>,
    finished: Option<When>,
    duration: Option<Duration>,
    /// The short and the full name.
    worker: Option<(String, String)>,
    may_cancel: bool,
    may_retry: bool,
    revision: String,
}

struct Duration {
    words: String,
    /// Relative to the longest duration on the page, in percent.
    share: u32,
}

/// `GET /ui/jobs`
pub(crate) async fn list(
    FromState(app): FromState<App>,
    viewer: Viewer,
    UiQuery(query): UiQuery<JobsQuery>,
) -> Page {
    let query = query.cleaned();
    // A search for an id redirects to its job.
    if let Some(id) = query.q.as_deref().and_then(|q| Uuid::try_parse(q.trim()).ok()) {
        return Ok(Redirect::to(&format!("/ui/jobs/{id}")).into_response());
    }
    let tenant = viewer.caller.tenant();
    let mut frame = viewer.frame(&app, Section::Jobs).await?;
    let searched = match query.filter(tenant) {
        Ok(filter) if filter.is_search() => {
            let _permit = app.searches().permit(tenant).await?;
            Some(app.queue().search(viewer.caller.reach(), &filter.limit(ROWS)).await?)
        }
        _ => None,
    };
    let reading = app.queue().read(viewer.caller.reach()).await?;
    let overview = reading.overview().await?;
    let counts = &overview.counts;
    let now = frame.now;
    let activity = reading.activity(now - SignedDuration::from_hours(1), 60).await?;
    let runs = reading.runs(&[tenant], RUNS).await?;
    let none = windlass::job::Page::default;
    let (found, wrong) = match query.filter(tenant) {
        Ok(filter) if filter.is_search() => (searched.unwrap_or_default(), None),
        // The counters show that no job matches; a query would read every job of the tenant.
        Ok(_) if query.is_counted() && matching(&query, counts, 0, false).0 == 0 => (none(), None),
        Ok(filter) => (reading.list(&filter.limit(ROWS)).await?, None),
        Err(wrong) => (none(), Some(wrong)),
    };
    reading.end().await?;

    let may_enqueue = viewer.may(Permission::WriteJobs);
    let rows = rows(&found.jobs, now, may_enqueue);
    let waits = sorted(runs.iter().filter_map(Run::waited));
    let facts = Facts { workers: None, p95_wait: percentile(&waits, 0.95), minutes: minutes(&activity, now) };
    let total: i64 = State::ALL.iter().map(|state| overview.all.of(*state)).sum();
    let (matching, matching_more) = matching(&query, counts, rows.len(), found.next.is_some());
    frame.dead_letters = overview.all.dead_letter;
    frame.search = query.q.clone().unwrap_or_default();
    let page_words = match found.searched {
        Some(searched) => searched_words(&query, rows.len(), searched),
        None => page_words(&query, rows.len(), matching, matching_more),
    };
    let chips: Vec<Chip> = query.chips().into_iter().map(|(text, without)| Chip { text, without }).collect();
    let none = match query.state() {
        _ if !chips.is_empty() => "No job in this tenant matches all filters.",
        _ if query.cursor.is_some() => "There are no older jobs.",
        Some(state) => none_in(state),
        None => "This tenant has no jobs.",
    };
    page(&JobsPage {
        // A search that has not read everything says how far it got.
        empty_words: if found.next.is_some() { format!("{none} {page_words}") } else { none.to_owned() },
        cards: cards(&overview.all, &facts, |state| query.with_status(Some(state))),
        throughput: throughput(&bars(&activity, now, 60, HOUR), 60.0),
        scatter: scatter(&dots(&runs)),
        latency: distribution(Unit::Latency, &waits),
        duration: distribution(Unit::Duration, &sorted(runs.iter().filter_map(Run::lasted))),
        tabs: tabs(&query, counts),
        chips,
        definitions: distinct(counts.iter().map(|each| &each.definition_key)),
        queues: distinct(counts.iter().map(|each| &each.queue)),
        sources: SOURCES,
        next_href: found.next.map(|cursor| query.address(None, Some(cursor))),
        newest_href: query.address(None, None),
        page_words,
        matching,
        matching_more,
        filter_text: query.text(None, None),
        back: viewer.address.clone(),
        is_first_run: total == 0 && query == JobsQuery::default(),
        may_enqueue,
        may_delete: viewer.may(Permission::DeleteJobs),
        base_url: viewer.base_url.clone(),
        tenant_id: tenant,
        example_key: "your-definition".to_owned(),
        query,
        wrong,
        rows,
        frame,
    })
}

/// Bars of `each` seconds for the last `count` spans, including spans without activity.
pub(crate) fn bars(activity: &[Activity], now: Timestamp, each: i64, count: i64) -> Vec<Bar> {
    let last = now.as_second() / each;
    let bar = |slot: i64| {
        let from = Timestamp::from_second(slot * each).unwrap_or(now);
        let here = activity.iter().filter(|part| part.from.as_second() / each == slot);
        let (succeeded, failed) =
            here.fold((0, 0), |(good, bad), part| (good + part.succeeded, bad + part.failed));
        Bar { from, succeeded: succeeded as f64, failed: failed as f64 }
    };
    (last - count + 1..=last).map(bar).collect()
}

/// If there are many runs, only every second or third is shown, so that the whole period is covered.
pub(crate) fn dots(runs: &[Run]) -> Vec<Dot> {
    let every = runs.len().div_ceil(DOTS).max(1);
    let dot = |run: &Run| {
        let (at, name) = (run.finished_at, run.definition_key.clone());
        Some(Dot { at, seconds: run.lasted()?, outcome: run.outcome.clone(), name })
    };
    runs.iter().rev().step_by(every).filter_map(dot).rev().collect()
}

pub(crate) fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values
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
        name: Mark::of(state, false).word,
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

/// Returns how many jobs match the filter, and whether there may be more than are known.
fn matching(query: &JobsQuery, counts: &[Counts], shown: usize, has_next: bool) -> (u64, bool) {
    if !query.is_counted() {
        return (shown as u64 + u64::from(has_next), has_next);
    }
    let states: Vec<State> = query.state().map_or(State::ALL.to_vec(), |state| vec![state]);
    let fitting = counts.iter().filter(|each| fits(query, each));
    let count: i64 = fitting.map(|each| states.iter().map(|state| each.of(*state)).sum::<i64>()).sum();
    (count.unsigned_abs(), false)
}

/// The number of jobs that a search found, and the number that it read.
fn searched_words(query: &JobsQuery, shown: usize, searched: usize) -> String {
    let which = if query.cursor.is_some() { "next" } else { "newest" };
    format!("{} found in the {which} {}", count_words(shown, "job"), grouped(searched))
}

fn page_words(query: &JobsQuery, shown: usize, matching: u64, more: bool) -> String {
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

/// The last eight characters, because the first ones are the time and are similar for all jobs.
pub(crate) fn short(id: Uuid) -> String {
    let text = id.simple().to_string();
    text[text.len() - 8..].to_owned()
}

pub(crate) fn rows(jobs: &[Job], now: Timestamp, may_act: bool) -> Vec<Row> {
    let lasted = |job: &Job| {
        let end = job.finished_at.unwrap_or(now);
        job.last_started_at
            .filter(|_| job.status.is_terminal() || job.status == State::Running)
            .map(|start| seconds_between(start, end).max(0.0))
    };
    let longest = jobs.iter().filter_map(lasted).fold(0.001, f64::max);
    let row = |job: &Job| {
        let seconds = lasted(job);
        let subject = job.subject_type.as_ref().zip(job.subject_id.as_ref());
        let about = match (job.progress_percent, subject) {
            (Some(percent), _) if job.status == State::Running => {
                Some(format!("{percent:.0}% {}", job.progress_message.as_deref().unwrap_or_default()))
            }
            (_, Some((kind, id))) => Some(format!("{kind} {id}")),
            _ if job.status.is_terminal() => {
                job.last_error.as_deref().map(|error| headline(error).to_owned())
            }
            _ => None,
        };
        let share = seconds.map_or(0, |seconds| (seconds / longest * 100.0).clamp(1.0, 100.0) as u32);
        Row {
            id: job.id,
            short: short(job.id),
            mark: Mark::of(job.status, job.attempt_count > 0),
            definition_key: job.definition_key.clone(),
            about: about.map(|text| text.chars().take(120).collect()),
            source: job.source.clone(),
            attempts: format!("{}/{}", job.attempt_count, job.max_attempts),
            queued: When::new(job.queued_at, now),
            started: job.last_started_at.map(|at| When::new(at, now)),
            due: (job.status == State::Scheduled).then(|| When::new(job.scheduled_for, now)),
            finished: job.finished_at.map(|at| When::new(at, now)),
            duration: seconds.map(|seconds| Duration { words: span(seconds), share }),
            worker: job.claimed_by_worker.as_ref().map(|name| (brief(name), name.clone())),
            may_cancel: may_act && !job.status.is_terminal() && job.cancel_requested_at.is_none(),
            may_retry: may_act && job.status.is_terminal(),
            revision: format!("{} {}", job.status, job.attempt_count),
        }
    };
    jobs.iter().map(row).collect()
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
