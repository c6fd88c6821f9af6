//! The list of jobs: cards, charts, filters, rows.

mod filters;
mod row;

use askama::Template;
use axum::extract::State as FromState;
use axum::response::{IntoResponse, Redirect};
use jiff::SignedDuration;
use uuid::Uuid;
use windlass::job::State;

use super::cards::{Card, Facts, cards, minutes};
use super::chart::percentile;
use super::frame::{Frame, Section};
use super::page::{Page, page};
use super::query::JobsQuery;
use super::run_charts::{RunCharts, queue_times};
use super::url_parameters::UiQuery;
use super::viewer::Viewer;
use crate::auth::Permission;
use crate::http::App;
use filters::{FilterBar, matching, page_words, searched_words};

pub(crate) use row::{JobRow, rows, short};

const ROWS: u16 = 50;

/// The number of runs in the charts.
const RUNS: u16 = 200;

#[derive(Template)]
#[template(path = "jobs.html")]
struct JobsPage {
    frame: Frame,
    query: JobsQuery,
    cards: Vec<Card>,
    charts: RunCharts,
    filters: FilterBar,
    list: JobList,
    /// What is wrong with the filters.
    wrong: Option<String>,
    /// What the first jobs of a tenant can be created with.
    first: Option<FirstJob>,
    may_enqueue: bool,
    may_delete: bool,
    /// The address of this page, to which its actions return.
    back: String,
}

/// The rows, and what is said and linked below them.
struct JobList {
    rows: Vec<JobRow>,
    next_href: Option<String>,
    newest_href: String,
    page_words: String,
    empty_words: String,
    matching: u64,
    has_more_matching: bool,
    /// The filter as a form sends it, for an action on all matching jobs.
    filter_text: String,
}

struct FirstJob {
    base_url: String,
    tenant_id: Uuid,
    example_key: &'static str,
}

/// The columns between the checkbox and the actions.
const COLUMNS: [Column; 10] = [
    Column::always("Job"),
    Column::always("Status"),
    Column::always("Definition"),
    Column { key: "source", name: "Source", is_number: false },
    Column { key: "attempts", name: "Attempts", is_number: true },
    Column { key: "queued", name: "Queued", is_number: false },
    Column { key: "started", name: "Started", is_number: false },
    Column { key: "finished", name: "Finished", is_number: false },
    Column { key: "duration", name: "Duration", is_number: true },
    Column { key: "worker", name: "Worker", is_number: false },
];

struct Column {
    /// The name of a column that a viewer can hide.
    key: &'static str,
    name: &'static str,
    is_number: bool,
}

impl Column {
    const fn always(name: &'static str) -> Self {
        Self { key: "", name, is_number: false }
    }
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
    let no_jobs = windlass::job::Page::default;
    let (found, wrong) = match query.filter(tenant) {
        Ok(filter) if filter.is_search() => (searched.unwrap_or_default(), None),
        // The counters show that no job matches; a query would read every job of the tenant.
        Ok(_) if query.is_counted() && matching(&query, counts, 0, false).0 == 0 => (no_jobs(), None),
        Ok(filter) => (reading.list(&filter.limit(ROWS)).await?, None),
        Err(wrong) => (no_jobs(), Some(wrong)),
    };
    reading.end().await?;

    let may_enqueue = viewer.may(Permission::WriteJobs);
    let filters = FilterBar::new(&query, counts);
    let rows = rows(&found.jobs, now, may_enqueue);
    let (matching, has_more_matching) = matching(&query, counts, rows.len(), found.next.is_some());
    let page_words = match found.searched {
        Some(searched) => searched_words(&query, rows.len(), searched),
        None => page_words(&query, rows.len(), matching, has_more_matching),
    };
    let none = filters.none_words(&query);
    let list = JobList {
        rows,
        // A search that has not read everything says how far it got.
        empty_words: if found.next.is_some() { format!("{none} {page_words}") } else { none.to_owned() },
        next_href: found.next.map(|cursor| query.address(None, Some(cursor))),
        newest_href: query.address(None, None),
        page_words,
        matching,
        has_more_matching,
        filter_text: query.text(None, None),
    };
    let waits = queue_times(runs.iter());
    let facts = Facts { workers: None, p95_wait: percentile(&waits, 0.95), minutes: minutes(&activity, now) };
    let total: i64 = State::ALL.iter().map(|state| overview.all.of(*state)).sum();
    let is_first_run = total == 0 && query == JobsQuery::default();
    frame.dead_letters = overview.all.dead_letter;
    frame.search = query.q.clone().unwrap_or_default();
    page(&JobsPage {
        cards: cards(&overview.all, &facts, |state| query.with_status(Some(state))),
        charts: RunCharts::new(&activity, &runs, &waits, now),
        filters,
        list,
        wrong,
        first: is_first_run.then(|| FirstJob {
            base_url: viewer.base_url.clone(),
            tenant_id: tenant,
            example_key: "your-definition",
        }),
        may_enqueue,
        may_delete: viewer.may(Permission::DeleteJobs),
        back: viewer.address.clone(),
        query,
        frame,
    })
}
