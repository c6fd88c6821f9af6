//! Dead letters, grouped by error. After the cause is fixed, a whole group can be retried.

use std::hash::{DefaultHasher, Hash, Hasher};

use askama::Template;
use axum::extract::State as FromState;
use uuid::Uuid;
use windlass::admin::{DEAD_LETTERS_SEEN, ErrorGroup};
use windlass::internals::headline;
use windlass::job::{Filter, State};

use super::count::{count_words, grouped};
use super::form_body::FormBody;
use super::frame::{Frame, Section};
use super::job_actions::{ActionVerb, all};
use super::jobs::short;
use super::page::{Page, back, page};
use super::relative_time::RelativeTime;
use super::viewer::Viewer;
use crate::auth::Permission;
use crate::http::App;

#[derive(Template)]
#[template(path = "dead_letters.html")]
struct DeadLettersPage {
    frame: Frame,
    groups: Vec<Group>,
    more_groups: usize,
    total: String,
    seen: u16,
    is_cut: bool,
    may_retry: bool,
}

struct Group {
    /// Identifies the group in a form, without its text.
    mark: String,
    definition_key: String,
    headline: String,
    example: String,
    count: usize,
    count_words: String,
    newest: RelativeTime,
    oldest: RelativeTime,
    jobs: Vec<(Uuid, String)>,
}

/// The number of jobs of a group that have a link; all of them are retried.
const LINKED: usize = 8;

/// The number of groups on the page, and the length of an error, in bytes. They keep the page small for any errors.
const SHOWN: usize = 50;
const MAX_ERROR: usize = 600;

/// `GET /ui/dead-letters`
pub(crate) async fn list(FromState(app): FromState<App>, viewer: Viewer) -> Page {
    let mut frame = viewer.frame(&app, Section::DeadLetters).await?;
    let reading = app.queue().read(viewer.caller.reach()).await?;
    let counts = reading.counts().await?;
    let groups = reading.error_groups(viewer.caller.tenant()).await?;
    reading.end().await?;
    frame.dead_letters = counts.iter().map(|each| each.dead_letter).sum();
    let total: i64 = counts.iter().map(|each| each.of(State::DeadLetter)).sum();
    let now = frame.now;
    let group = |group: ErrorGroup| Group {
        mark: mark(&group),
        headline: headline(&group.example).chars().take(160).collect(),
        example: group.example.chars().take(MAX_ERROR).collect(),
        count: group.jobs.len(),
        count_words: count_words(group.jobs.len(), "job"),
        newest: RelativeTime::new(group.newest, now),
        oldest: RelativeTime::new(group.oldest, now),
        jobs: group.jobs.iter().take(LINKED).map(|id| (*id, short(*id))).collect(),
        definition_key: group.definition_key,
    };
    page(&DeadLettersPage {
        more_groups: groups.len().saturating_sub(SHOWN),
        groups: groups.into_iter().take(SHOWN).map(group).collect(),
        total: grouped(total),
        seen: DEAD_LETTERS_SEEN,
        is_cut: total > i64::from(DEAD_LETTERS_SEEN),
        may_retry: viewer.may(Permission::WriteJobs),
        frame,
    })
}

/// `POST /ui/dead-letters`: retries the current jobs of a group, or all dead letters.
pub(crate) async fn retry(FromState(app): FromState<App>, viewer: Viewer, posted: FormBody) -> Page {
    let tenant = viewer.caller.tenant();
    let filter = if posted.get("all").is_some() {
        Filter::new(tenant).state(State::DeadLetter)
    } else {
        let reading = app.queue().read(viewer.caller.reach()).await?;
        let groups = reading.error_groups(tenant).await?;
        reading.end().await?;
        let wanted = posted.get("group").unwrap_or_default();
        match groups.into_iter().find(|group| mark(group) == wanted) {
            Some(group) => Filter::new(tenant).ids(group.jobs),
            None => return Ok(back("/ui/dead-letters", "failed", "The group no longer exists.")),
        }
    };
    let result = all(&app, &viewer, ActionVerb::Retry, &filter).await?;
    Ok(back("/ui/dead-letters", result.role, result.words))
}

fn mark(group: &ErrorGroup) -> String {
    let mut hasher = DefaultHasher::new();
    (&group.definition_key, &group.fingerprint).hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}
