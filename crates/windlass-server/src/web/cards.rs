//! The most important numbers. A number that needs attention is marked and has a link.

use windlass::admin::{Activity, Summary};
use windlass::job::State;

use super::chart::trend;
use super::count::{count_words, grouped};
use super::html::Html;
use super::relative_time::span;

pub(crate) struct Card {
    pub(crate) key: &'static str,
    pub(crate) name: &'static str,
    pub(crate) shape: &'static str,
    pub(crate) value: String,
    pub(crate) beside: String,
    pub(crate) tone: &'static str,
    pub(crate) href: String,
    /// The number over the last hour.
    pub(crate) trend: Html,
}

/// The data of the cards, in addition to the counts.
#[derive(Debug, Default)]
pub(crate) struct Facts {
    pub(crate) workers: Option<i64>,
    pub(crate) p95_wait: Option<f64>,
    /// The last hour, minute by minute.
    pub(crate) minutes: Vec<Minute>,
}

/// The activity in one minute, in all queues.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Minute {
    queued: i64,
    running: i64,
    succeeded: i64,
    failed: i64,
}

/// The number of minutes that the cards and the chart of finished attempts add up, with the current one. Both must show the
/// same sums.
pub(crate) const HOUR: i64 = 60;

/// The last hour, with the current minute.
pub(crate) fn minutes(activity: &[Activity], now: jiff::Timestamp) -> Vec<Minute> {
    let first = now.as_second() / 60 - HOUR + 1;
    let mut minutes = vec![Minute::default(); HOUR as usize];
    for part in activity {
        let slot = usize::try_from(part.from.as_second() / 60 - first).ok();
        let Some(minute) = slot.and_then(|slot| minutes.get_mut(slot)) else { continue };
        minute.queued += part.queued;
        minute.running += part.running;
        minute.succeeded += part.succeeded;
        minute.failed += part.failed;
    }
    minutes
}

/// A wait that needs attention.
const SLOW: f64 = 60.0;

/// The shares of failed attempts that are shown as a warning and as an error.
const SOME_FAIL: f64 = 0.01;
const MANY_FAIL: f64 = 0.05;

pub(crate) fn cards(summary: &Summary, facts: &Facts, href: impl Fn(State) -> String) -> Vec<Card> {
    let total = |state: State| summary.of(state);
    let card = |key, name, shape, state: State, beside: String, tone| Card {
        key,
        name,
        shape,
        value: grouped(total(state)),
        beside,
        tone: if total(state) == 0 { "calm" } else { tone },
        href: href(state),
        trend: Html::default(),
    };
    // The current minute is not over, so a trend ends before it.
    let over = facts.minutes.split_last().map_or(&[][..], |(_, over)| over);
    let trended = |card: Card, pick: fn(&Minute) -> i64| Card {
        trend: trend(&over.iter().map(|minute| pick(minute) as f64).collect::<Vec<_>>()),
        ..card
    };
    let lately = |pick: fn(&Minute) -> i64| facts.minutes.iter().map(pick).sum::<i64>();
    let oldest_queued = summary.oldest_queued_age_seconds;
    let is_slow = oldest_queued.is_some_and(|age| age > SLOW);
    let oldest = oldest_queued.map(|age| format!("oldest {}", span(age))).unwrap_or_default();
    let workers = facts.workers.map(|count| format!("on {}", count_words(count, "worker")));
    let (failed, succeeded) = (lately(|minute| minute.failed), lately(|minute| minute.succeeded));
    let rate = failed as f64 / (failed + succeeded).max(1) as f64;
    let (failing, tone) = match failed {
        0 => ("no failed attempts in the last hour".to_owned(), ""),
        some => (
            format!("{} in the last hour ({})", count_words(some, "failed attempt"), percent(rate)),
            match rate {
                many if many >= MANY_FAIL => "bad",
                some if some >= SOME_FAIL => "slow",
                _ => "",
            },
        ),
    };
    let dead = if total(State::DeadLetter) > 0 { "View causes" } else { "" };
    let dead = Card {
        href: "/ui/dead-letters".to_owned(),
        ..card("dead", "Dead letters", "square", State::DeadLetter, dead.to_owned(), "bad")
    };
    let waits = Card {
        key: "wait",
        name: "Queue time (p95)",
        shape: "clock",
        value: facts.p95_wait.map_or_else(|| "–".to_owned(), span),
        beside: "from ready to start".to_owned(),
        tone: match facts.p95_wait {
            None => "calm",
            Some(wait) if wait > SLOW => "slow",
            Some(_) => "",
        },
        href: "/ui/queues".to_owned(),
        trend: Html::default(),
    };
    let hour = match succeeded {
        1 => "1 attempt in the last hour".to_owned(),
        some => format!("{} in the last hour", count_words(some, "attempt")),
    };
    vec![
        trended(
            card("queued", "Queued", "ring", State::Queued, oldest, if is_slow { "slow" } else { "" }),
            |minute| minute.queued,
        ),
        trended(
            card("running", "Running", "turn", State::Running, workers.unwrap_or_default(), ""),
            |minute| minute.running,
        ),
        waits,
        card("scheduled", "Scheduled", "clock", State::Scheduled, String::new(), ""),
        trended(card("failed", "Failed", "cross", State::Failed, failing, tone), |minute| minute.failed),
        dead,
        trended(card("succeeded", "Succeeded", "tick", State::Succeeded, hour, ""), |minute| {
            minute.succeeded
        }),
    ]
}

fn percent(share: f64) -> String {
    let percent = share * 100.0;
    if percent < 1.0 { "under 1%".to_owned() } else { format!("{percent:.0}%") }
}
