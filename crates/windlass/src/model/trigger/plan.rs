//! Plans the due instants of a schedule: which fire, which are skipped and why, and which instant is next. Pure: the
//! keeper applies the plan under a guard.

use jiff::{SignedDuration, Timestamp};
use sha2::{Digest, Sha256};
use uuid::Uuid;

use super::{Misfire, NewTrigger};
use crate::model::cron::Schedule;

/// The maximum number of rows for one trigger in one round; a longer backlog continues in the next.
const MAX_ROWS: usize = 500;
/// The maximum number of instants that are planned together. If a backlog is longer (two months of minutes), all of
/// them are misfires.
const MAX_EXAMINED: usize = 100_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Decision {
    Fire,
    /// With the reason that is recorded.
    Skip(&'static str),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FirePlan {
    pub(crate) instants: Vec<(Timestamp, Decision)>,
    /// The first instant after this plan.
    pub(crate) next: Option<Timestamp>,
}

/// `from` is the next instant of the trigger, which is due.
pub(crate) fn plan(fields: &NewTrigger, schedule: &Schedule, from: Timestamp, now: Timestamp) -> FirePlan {
    let until = fields.ends_at.map_or(now, |ends| ends.min(now));
    let mut backlog: Vec<Timestamp> = Vec::new();
    if from <= until {
        backlog.push(from);
        backlog.extend(schedule.due_in(from, until).take(MAX_EXAMINED - 1));
    }
    let is_whole = backlog.len() < MAX_EXAMINED;
    let decided = backlog.iter().enumerate().map(|(position, &due)| {
        let newer = backlog.len() - 1 - position;
        let missed = if fields.is_enabled { "misfire" } else { "paused" };
        (due, if is_whole { decide(fields, due, newer, backlog[0], now) } else { Decision::Skip(missed) })
    });
    let instants: Vec<_> = decided.take(MAX_ROWS).collect();
    let last = instants.last().map_or(until, |(due, _)| *due);
    FirePlan { next: next_due(fields, schedule, last), instants }
}

/// The first instant after this one within the dates of the trigger.
pub(crate) fn next_due(fields: &NewTrigger, schedule: &Schedule, after: Timestamp) -> Option<Timestamp> {
    // An instant is strictly after its lower bound, but the start is inclusive.
    let after = match fields.starts_at {
        Some(starts) if starts > after => starts - SignedDuration::from_nanos(1),
        _ => after,
    };
    schedule.next_after(after).filter(|next| fields.ends_at.is_none_or(|ends| *next <= ends))
}

fn decide(fields: &NewTrigger, due: Timestamp, newer: usize, oldest: Timestamp, now: Timestamp) -> Decision {
    if !fields.is_enabled {
        return Decision::Skip("paused");
    }
    let age = |due: Timestamp| now.duration_since(due);
    let within = |due: Timestamp, seconds: u32| age(due) <= SignedDuration::from_secs(seconds.into());
    let is_late = !within(oldest, fields.misfire_grace_seconds);
    let fires = match fields.misfire {
        Misfire::Skip => within(due, fields.misfire_grace_seconds),
        Misfire::FireOnce => !is_late || newer == 0,
        Misfire::FireAll => {
            within(due, fields.misfire_window_seconds.max(fields.misfire_grace_seconds))
                && newer < fields.misfire_max as usize
        }
    };
    if fires { Decision::Fire } else { Decision::Skip("misfire") }
}

/// The delay between an instant and the start of its job: always the same for the same instant, so that it need not be
/// stored.
pub(crate) fn jitter(fields: &NewTrigger, trigger: Uuid, due: Timestamp) -> f64 {
    if fields.jitter_seconds == 0 {
        return 0.0;
    }
    let digest =
        Sha256::new().chain_update(trigger.as_bytes()).chain_update(due.as_second().to_be_bytes()).finalize();
    let fraction = digest.iter().take(4).fold(0_u32, |sum, byte| sum << 8 | u32::from(*byte));
    f64::from(fraction) / f64::from(u32::MAX) * f64::from(fields.jitter_seconds)
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::{Decision, jitter, next_due, plan};
    use crate::model::cron::Schedule;
    use crate::model::trigger::{Misfire, NewTrigger};

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn hourly(misfire: Misfire) -> NewTrigger {
        NewTrigger {
            misfire,
            timezone: Some("UTC".to_owned()),
            ..NewTrigger::schedule("l", "0 * * * *", "k")
        }
    }

    fn fired(fields: &NewTrigger, from: &str, now: &str) -> (usize, Vec<String>) {
        let schedule = Schedule::new(fields.cron_expr.as_deref().unwrap(), "UTC").unwrap();
        let plan = plan(fields, &schedule, at(from), at(now));
        let fired = plan.instants.iter().filter(|(_, decision)| *decision == Decision::Fire);
        assert!(plan.next.is_none_or(|next| next > plan.instants.last().unwrap().0));
        (plan.instants.len(), fired.map(|(due, _)| due.strftime("%H:%M").to_string()).collect())
    }

    #[test]
    fn an_instant_fired_in_time_is_not_a_misfire() {
        for misfire in [Misfire::Skip, Misfire::FireOnce, Misfire::FireAll] {
            let seen = fired(&hourly(misfire), "2026-11-01T10:00:00Z", "2026-11-01T10:00:59Z");
            assert_eq!(seen, (1, vec!["10:00".to_owned()]));
        }
    }

    #[test]
    fn missed_instants_follow_the_policy_and_are_recorded() {
        let (from, now) = ("2026-11-01T10:00:00Z", "2026-11-01T14:30:00Z");
        assert_eq!(fired(&hourly(Misfire::Skip), from, now), (5, vec![]));
        assert_eq!(fired(&hourly(Misfire::FireOnce), from, now), (5, vec!["14:00".to_owned()]));
        let all = hourly(Misfire::FireAll);
        assert_eq!(fired(&all, from, now).1.len(), 5);
        let two = NewTrigger { misfire_max: 2, ..all.clone() };
        assert_eq!(fired(&two, from, now), (5, vec!["13:00".to_owned(), "14:00".to_owned()]));
        let recent = NewTrigger { misfire_window_seconds: 7200, ..all };
        assert_eq!(fired(&recent, from, now).1, ["13:00", "14:00"]);
        // The latest is in time, so it is the one that fires for all.
        assert_eq!(
            fired(&hourly(Misfire::FireOnce), from, "2026-11-01T14:00:10Z"),
            (5, vec!["14:00".to_owned()])
        );
        assert_eq!(
            fired(&hourly(Misfire::Skip), from, "2026-11-01T14:00:10Z"),
            (5, vec!["14:00".to_owned()])
        );
    }

    /// Document 004's default window of 300 s would have suppressed four of five.
    #[test]
    fn every_minute_with_the_defaults_means_every_minute() {
        let fields = NewTrigger::schedule("l", "* * * * *", "k");
        let seen = fired(&fields, "2026-11-01T10:00:00Z", "2026-11-01T10:00:00.1Z");
        assert_eq!(seen, (1, vec!["10:00".to_owned()]));
        let seen = fired(&fields, "2026-11-01T10:00:00Z", "2026-11-01T10:01:00Z");
        assert_eq!(seen, (2, vec!["10:00".to_owned(), "10:01".to_owned()]));
    }

    #[test]
    fn a_long_backlog_is_processed_in_batches() {
        let fields = NewTrigger { misfire: Misfire::FireOnce, ..NewTrigger::schedule("l", "* * * * *", "k") };
        let schedule = Schedule::new("* * * * *", "UTC").unwrap();
        let (mut from, now) = (at("2026-11-01T00:00:00Z"), at("2026-11-01T20:00:30Z"));
        let (mut recorded, mut fired) = (0, Vec::new());
        while from <= now {
            let plan = plan(&fields, &schedule, from, now);
            recorded += plan.instants.len();
            fired.extend(plan.instants.iter().filter(|(_, d)| *d == Decision::Fire).map(|(due, _)| *due));
            from = plan.next.unwrap();
        }
        assert_eq!((recorded, fired), (1201, vec![at("2026-11-01T20:00:00Z")]));
    }

    #[test]
    fn a_paused_trigger_records_every_instant_and_fires_none() {
        let (from, now) = ("2026-11-01T10:00:00Z", "2026-11-01T14:30:00Z");
        for misfire in [Misfire::Skip, Misfire::FireOnce, Misfire::FireAll] {
            let fields = NewTrigger { is_enabled: false, ..hourly(misfire) };
            assert_eq!(fired(&fields, from, now), (5, vec![]));
            let schedule = Schedule::new("0 * * * *", "UTC").unwrap();
            let plan = plan(&fields, &schedule, at(from), at(now));
            assert!(plan.instants.iter().all(|(_, decision)| *decision == Decision::Skip("paused")));
            assert_eq!(plan.next, Some(at("2026-11-01T15:00:00Z")));
        }
    }

    #[test]
    fn a_trigger_stays_within_its_dates() {
        let fields = NewTrigger {
            starts_at: Some(at("2026-11-02T00:00:00Z")),
            ends_at: Some(at("2026-11-02T01:00:00Z")),
            ..hourly(Misfire::FireAll)
        };
        let schedule = Schedule::new("0 * * * *", "UTC").unwrap();
        assert_eq!(next_due(&fields, &schedule, at("2026-11-01T10:00:00Z")), fields.starts_at);
        let plan = plan(&fields, &schedule, at("2026-11-02T00:00:00Z"), at("2026-11-02T05:00:00Z"));
        assert_eq!((plan.instants.len(), plan.next), (2, None));
    }

    #[test]
    fn jitter_is_bounded_and_the_same_each_time() {
        let fields = NewTrigger { jitter_seconds: 60, ..hourly(Misfire::Skip) };
        let id = uuid::Uuid::from_u128(7);
        let all: Vec<f64> =
            (0..100).map(|n| jitter(&fields, id, Timestamp::from_second(n * 3600).unwrap())).collect();
        assert!(all.iter().all(|seconds| (0.0..=60.0).contains(seconds)));
        assert!(all.iter().any(|seconds| *seconds < 20.0) && all.iter().any(|seconds| *seconds > 40.0));
        assert_eq!(all[3], jitter(&fields, id, Timestamp::from_second(3 * 3600).unwrap()));
    }
}
