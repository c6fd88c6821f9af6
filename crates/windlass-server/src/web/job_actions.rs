//! The actions cancel, retry and delete: on one job, on some, or on all that match a filter. Each redirects to the page
//! that it was sent from, which shows the result.

use std::time::Instant;

use axum::extract::State as FromState;
use uuid::Uuid;
use windlass::admin::{Bulk, BulkCursor};
use windlass::job::{Canceled, Filter};

use super::count::{count_words, grouped};
use super::form_body::FormBody;
use super::jobs::short;
use super::page::{Page, back, sentence};
use super::query::JobsQuery;
use super::viewer::Viewer;
use crate::auth::Permission;
use crate::http::{App, Problem, ProblemKind, query};

/// `POST /ui/jobs/act`
pub(crate) async fn act(FromState(app): FromState<App>, viewer: Viewer, posted: FormBody) -> Page {
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
        Ok(result) => Ok(back(&to, result.role, result.words)),
        // A rejected action changes nothing; the user stays on the page and sees the reason.
        Err(problem) if problem.kind.is_correctable() => Ok(back(&to, "failed", sentence(&problem.detail))),
        Err(problem) => Err(problem.into()),
    }
}

/// What is said about an action: whether it succeeded, and in which words.
pub(crate) struct ActionResult {
    pub(crate) role: &'static str,
    pub(crate) words: String,
}

impl ActionResult {
    fn succeeded(words: String) -> Self {
        Self { role: "succeeded", words }
    }
}

async fn cancel(app: &App, viewer: &Viewer, id: Uuid) -> Result<ActionResult, Problem> {
    let acting = app.queue().act(viewer.caller.reach(), &viewer.caller.actor()).await?;
    let words = match acting.cancel(id).await? {
        Canceled::Now => format!("Canceled job {}.", short(id)),
        Canceled::Requested => format!("Requested cancellation of job {}.", short(id)),
        // It had ended: nothing was changed, so there is nothing to commit.
        _ => {
            return Ok(ActionResult::succeeded(format!("Job {} had already finished.", short(id))));
        }
    };
    acting.commit().await?;
    Ok(ActionResult::succeeded(words))
}

async fn retry(app: &App, viewer: &Viewer, id: Uuid) -> Result<ActionResult, Problem> {
    let acting = app.queue().act(viewer.caller.reach(), &viewer.caller.actor()).await?;
    acting.retry(id).await?;
    acting.commit().await?;
    Ok(ActionResult::succeeded(format!("Job {} queued again.", short(id))))
}

async fn many(app: &App, viewer: &Viewer, posted: &FormBody) -> Result<ActionResult, Problem> {
    let tenant = viewer.caller.tenant();
    let verb = match posted.get("act") {
        Some("cancel") => ActionVerb::Cancel,
        Some("retry") => ActionVerb::Retry,
        Some("delete") if viewer.may(Permission::DeleteJobs) => ActionVerb::Delete,
        Some("delete") => {
            return Err(Problem::of(ProblemKind::Forbidden, "you need the permission to delete jobs"));
        }
        _ => return Err(Problem::invalid("/act", "must be cancel, retry or delete")),
    };
    let filter = match posted.get("every") {
        Some(text) => {
            let uri =
                format!("/?{text}").parse().map_err(|_| Problem::invalid("/every", "invalid filter"))?;
            let asked: JobsQuery = query(&uri).map_err(|_| Problem::invalid("/every", "invalid filter"))?;
            asked.cleaned().filter(tenant).map_err(|wrong| Problem::invalid("", wrong))?
        }
        None => match (verb, &posted.ids("id")[..]) {
            (_, []) => return Err(Problem::invalid("", "no jobs are selected")),
            // The audit trail and the message are those of the button in the row.
            (ActionVerb::Cancel, [only]) => return cancel(app, viewer, *only).await,
            (ActionVerb::Retry, [only]) => return retry(app, viewer, *only).await,
            (_, ids) => Filter::new(tenant).ids(ids.iter().copied()),
        },
    };
    let _permit = if filter.is_search() { Some(app.searches().permit(tenant).await?) } else { None };
    all(app, viewer, verb, &filter).await
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum ActionVerb {
    Cancel,
    Retry,
    Delete,
}

impl ActionVerb {
    fn done(self, changes: &Changes) -> String {
        let Changes { requested, others } = *changes;
        let jobs = count_words(others, "job");
        match (self, others, requested) {
            (Self::Cancel, 0, 0) => "No jobs were canceled.".to_owned(),
            (Self::Cancel, 0, _) => format!("Requested cancellation of {}.", count_words(requested, "job")),
            (Self::Cancel, _, 0) => format!("Canceled {jobs}."),
            (Self::Cancel, _, _) => {
                format!("Canceled {jobs}; requested cancellation of {}.", grouped(requested))
            }
            (Self::Retry, 0, _) => "No jobs were queued again.".to_owned(),
            (Self::Retry, _, _) => format!("{jobs} queued again."),
            (Self::Delete, 0, _) => "No jobs were deleted.".to_owned(),
            (Self::Delete, _, _) => format!("Deleted {jobs}."),
        }
    }
}

/// The number of changed jobs.
#[derive(Debug, Clone, Copy, Default)]
struct Changes {
    /// Running jobs with a cancel request.
    requested: usize,
    others: usize,
}

impl Changes {
    fn add(&mut self, bulk: &Bulk) {
        let requested = bulk.outcomes.iter().filter(|(_, outcome)| outcome == "requested").count();
        self.requested += requested;
        self.others += bulk.changed() - requested;
    }

    const fn is_empty(&self) -> bool {
        self.requested + self.others == 0
    }
}

/// The maximum number of jobs that one request changes. The command line has no such limit.
const MAX: usize = 50_000;

/// Applies the action to all matching jobs, with one transaction and one audit entry per thousand jobs. A problem after
/// the first thousand does not undo them, so both are reported.
pub(crate) async fn all(
    app: &App,
    viewer: &Viewer,
    verb: ActionVerb,
    filter: &Filter,
) -> Result<ActionResult, Problem> {
    // The timeout of the request would not report what was changed.
    let until = Instant::now() + app.options().request_timeout / 2;
    let (mut changes, mut met) = (Changes::default(), 0);
    let mut next = None;
    loop {
        let bulk = match batch(app, viewer, verb, filter, next).await {
            Ok(bulk) => bulk,
            Err(problem) if changes.is_empty() => return Err(problem),
            Err(problem) => {
                let words = format!("{} Then: {}", verb.done(&changes), sentence(&problem.detail));
                return Ok(ActionResult { role: "failed", words });
            }
        };
        changes.add(&bulk);
        met += bulk.outcomes.len();
        next = bulk.next;
        if next.is_none() {
            return Ok(ActionResult::succeeded(verb.done(&changes)));
        }
        if met >= MAX || Instant::now() >= until {
            let words =
                format!("{} More jobs match. Repeat the action to include them.", verb.done(&changes));
            return Ok(ActionResult::succeeded(words));
        }
    }
}

async fn batch(
    app: &App,
    viewer: &Viewer,
    verb: ActionVerb,
    filter: &Filter,
    from: Option<BulkCursor>,
) -> Result<Bulk, Problem> {
    let acting = app.queue().act(viewer.caller.reach(), &viewer.caller.actor()).await?;
    let bulk = match verb {
        ActionVerb::Cancel => acting.cancel_many(filter, from).await?,
        ActionVerb::Retry => acting.retry_many(filter, from).await?,
        ActionVerb::Delete => acting.delete_many(filter, from).await?,
    };
    acting.commit().await?;
    Ok(bulk)
}

#[cfg(test)]
mod tests {
    use super::{ActionVerb, Changes};

    #[test]
    fn a_cancel_counts_canceled_jobs_and_requests_apart() {
        let done = |others, requested| ActionVerb::Cancel.done(&Changes { requested, others });
        assert_eq!(done(3, 2), "Canceled 3 jobs; requested cancellation of 2.");
        assert_eq!(done(1, 0), "Canceled 1 job.");
        assert_eq!(done(0, 1), "Requested cancellation of 1 job.");
        assert_eq!(done(0, 0), "No jobs were canceled.");
    }
}
