//! The actions cancel, retry and delete: on one job, on some, or on all that match a filter. Each redirects to the page
//! that it was sent from, which shows the result.

use axum::extract::State as FromState;
use uuid::Uuid;
use windlass::job::{Canceled, Filter};

use super::jobs::short;
use super::page::{Page, back, sentence};
use super::posted::Posted;
use super::query::JobsQuery;
use super::viewer::Viewer;
use crate::auth::Permission;
use crate::http::{App, Problem, ProblemKind, query};

/// `POST /ui/jobs/act`
pub(crate) async fn act(FromState(app): FromState<App>, viewer: Viewer, posted: Posted) -> Page {
    let to = posted.get("back").unwrap_or("/ui/jobs").to_owned();
    let one = |name: &str| posted.get(name).and_then(|id| Uuid::try_parse(id).ok());
    let said = if let Some(id) = one("cancel") {
        cancel(&app, &viewer, id).await
    } else if let Some(id) = one("retry") {
        retry(&app, &viewer, id).await
    } else {
        many(&app, &viewer, &posted).await
    };
    match said {
        Ok(words) => Ok(back(&to, "succeeded", words)),
        // A rejected action changes nothing; the user stays on the page and sees the reason.
        Err(problem) if problem.kind.is_correctable() => Ok(back(&to, "failed", sentence(&problem.detail))),
        Err(problem) => Err(problem.into()),
    }
}

async fn cancel(app: &App, viewer: &Viewer, id: Uuid) -> Result<String, Problem> {
    let acting = app.queue().act(viewer.caller.reach(), &viewer.caller.actor()).await?;
    let words = match acting.cancel(id).await? {
        Canceled::Now => format!("Canceled job {}.", short(id)),
        Canceled::Requested => format!("Requested cancellation of job {}.", short(id)),
        // Nothing was changed, so there is nothing to commit.
        Canceled::AlreadyFinished => return Ok(format!("Job {} had already finished.", short(id))),
    };
    acting.commit().await?;
    Ok(words)
}

async fn retry(app: &App, viewer: &Viewer, id: Uuid) -> Result<String, Problem> {
    let acting = app.queue().act(viewer.caller.reach(), &viewer.caller.actor()).await?;
    acting.retry(id).await?;
    acting.commit().await?;
    Ok(format!("Job {} queued again.", short(id)))
}

async fn many(app: &App, viewer: &Viewer, posted: &Posted) -> Result<String, Problem> {
    let tenant = viewer.caller.tenant();
    let mut leaves = false;
    let filter = match posted.get("every") {
        Some(text) => {
            let uri =
                format!("/?{text}").parse().map_err(|_| Problem::invalid("/every", "invalid filter"))?;
            let asked: JobsQuery = query(&uri).map_err(|_| Problem::invalid("/every", "invalid filter"))?;
            leaves = asked.status.is_some();
            asked.cleaned().filter(tenant).map_err(|wrong| Problem::invalid("", wrong))?
        }
        None => {
            let ids = posted.ids("id");
            if ids.is_empty() {
                return Err(Problem::invalid("", "no jobs are selected"));
            }
            Filter::new(tenant).ids(ids)
        }
    };
    let verb = match posted.get("act") {
        Some("cancel") => Verb::Cancel,
        Some("retry") => Verb::Retry,
        Some("delete") if viewer.may(Permission::DeleteJobs) => Verb::Delete,
        Some("delete") => {
            return Err(Problem::of(ProblemKind::Forbidden, "you need the permission to delete jobs"));
        }
        _ => return Err(Problem::invalid("/act", "must be cancel, retry or delete")),
    };
    let _permit = if filter.is_search() { Some(app.searches().permit(tenant).await?) } else { None };
    let changed = all(app, viewer, verb, filter, leaves || matches!(verb, Verb::Delete)).await?;
    let jobs = if changed == 1 { "1 job".to_owned() } else { format!("{changed} jobs") };
    Ok(match verb {
        Verb::Cancel => format!("Canceled {jobs} or requested cancellation."),
        Verb::Retry => format!("{jobs} queued again."),
        Verb::Delete => format!("Deleted {jobs}."),
    })
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Verb {
    Cancel,
    Retry,
    Delete,
}

/// The maximum number of jobs that one request changes. The command line has no such limit.
const MAX: usize = 50_000;

/// Applies the action to all matching jobs, with one transaction and one audit entry per thousand jobs. Returns the
/// number of changed jobs.
///
/// `leaves`: changed jobs no longer match the filter, so the next round finds the rest. Otherwise the next round
/// continues with older ids.
pub(crate) async fn all(
    app: &App,
    viewer: &Viewer,
    verb: Verb,
    mut filter: Filter,
    leaves: bool,
) -> Result<usize, Problem> {
    let (mut changed, mut met) = (0, 0);
    loop {
        let acting = app.queue().act(viewer.caller.reach(), &viewer.caller.actor()).await?;
        let bulk = match verb {
            Verb::Cancel => acting.cancel_many(&filter).await?,
            Verb::Retry => acting.retry_many(&filter).await?,
            Verb::Delete => acting.delete_many(&filter).await?,
        };
        let now = bulk.changed();
        changed += now;
        met += bulk.outcomes.len();
        acting.commit().await?;
        let has_more = bulk.has_more && met < MAX;
        match bulk.outcomes.last() {
            Some(_) if has_more && leaves && now > 0 => {}
            Some((last, _)) if has_more && !leaves => filter = filter.older_than(*last),
            _ => return Ok(changed),
        }
    }
}
