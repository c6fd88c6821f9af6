//! The due instants of a schedule: a pure function of a cron expression, a time zone and an instant.
//!
//! croner parses the fields and decides which days match; the effect of clock changes is decided here, because croner
//! treats `0 9,17 * * *` as an interval and so skips a run in a gap. The rule (invariant 36):
//!
//! - An expression with fixed minutes and hours means times of the day. Each runs once per local day: a time that is
//!   skipped by the clocks runs at the first instant after the gap, a time that occurs twice runs the first time.
//! - An expression with `*` in its minutes or hours means an interval. It runs at every instant whose local time
//!   matches, so a repeated hour runs twice and a skipped one does not run, and the distance between runs stays the
//!   same.

mod expression;
mod preview;
mod words;

pub use expression::Cron;
pub use preview::{ClockChange, DueRun};

use jiff::civil::{Date, DateTime};
use jiff::tz::{AmbiguousOffset, TimeZone};
use jiff::{SignedDuration, Timestamp};

use crate::error::{Error, Result};

/// The maximum number of days between two occurrences of the rarest expression, 29 February on one weekday (across
/// 2100).
const RAREST_DAYS: u32 = 366 * 41;

/// A cron expression in a time zone.
///
/// ```
/// use windlass::schedule::Schedule;
///
/// let schedule = Schedule::new("30 2 * * *", "Europe/Berlin")?;
/// assert_eq!(schedule.cron().as_str(), "30 2 * * *");
/// assert_eq!(schedule.zone().iana_name(), Some("Europe/Berlin"));
///
/// let from = "2026-01-01T00:00:00Z".parse()?;
/// let first = schedule.next_after(from).ok_or("never due")?;
/// assert_eq!(first.to_string(), "2026-01-01T01:30:00Z");
/// let until = "2026-01-08T00:00:00Z".parse()?;
/// assert_eq!(schedule.due_in(from, until).count(), 7);
/// assert_eq!(schedule.preview(from, 3).len(), 3);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Schedule {
    cron: Cron,
    zone: TimeZone,
}

impl Schedule {
    /// Returns an error for an invalid expression, one that never occurs, and an unknown time zone, with the name of
    /// the field.
    pub fn new(cron_expr: &str, timezone: &str) -> Result<Self> {
        Ok(Self { cron: Cron::parse(cron_expr)?, zone: zone(timezone)? })
    }

    /// Returns the cron expression.
    pub fn cron(&self) -> &Cron {
        &self.cron
    }

    /// Returns the time zone.
    pub fn zone(&self) -> &TimeZone {
        &self.zone
    }

    /// The first due instant strictly after this one; none only at the end of the calendar.
    #[must_use]
    pub fn next_after(&self, instant: Timestamp) -> Option<Timestamp> {
        if self.cron.is_interval() { self.next_interval(instant) } else { self.next_time_of_day(instant) }
    }

    /// Every due instant after the first bound, up to and including the second.
    pub fn due_in(&self, after: Timestamp, until: Timestamp) -> impl Iterator<Item = Timestamp> + '_ {
        let mut last = after;
        std::iter::from_fn(move || {
            last = self.next_after(last)?;
            (last <= until).then_some(last)
        })
    }

    /// Times of the day have the same order as local times and as instants, so the result is the first local match
    /// whose instant is later than the given one.
    fn next_time_of_day(&self, instant: Timestamp) -> Option<Timestamp> {
        let mut local = self.zone.to_datetime(instant);
        loop {
            local = self.next_local(local, false)?;
            let due = self.instant_of(local)?;
            if due > instant {
                return Some(due);
            }
        }
    }

    /// The instant of a local time of the day, by the rule for gaps and repeated hours.
    fn instant_of(&self, local: DateTime) -> Option<Timestamp> {
        match self.zone.to_ambiguous_timestamp(local).offset() {
            AmbiguousOffset::Unambiguous { offset } => offset.to_timestamp(local).ok(),
            AmbiguousOffset::Fold { before, .. } => before.to_timestamp(local).ok(),
            AmbiguousOffset::Gap { before, .. } => {
                // With the offset before the gap, it is after the change; and no other change is that close.
                let past = before.to_timestamp(local).ok()?.checked_add(SignedDuration::from_secs(1)).ok()?;
                Some(self.zone.preceding(past).next()?.timestamp())
            }
        }
    }

    /// Iterates over the spans between clock changes: within a span, local time advances evenly.
    fn next_interval(&self, instant: Timestamp) -> Option<Timestamp> {
        let mut from = instant;
        let mut is_included = false;
        loop {
            let offset = self.zone.to_offset(from);
            let end = self.zone.following(from).next().map(|change| change.timestamp());
            let local = self.next_local(offset.to_datetime(from), is_included);
            let due = local.and_then(|local| offset.to_timestamp(local).ok());
            match (due, end) {
                (Some(due), Some(end)) if due < end => return Some(due),
                (_, Some(end)) => (from, is_included) = (end, true),
                (due, None) => return due,
            }
        }
    }

    /// The next local time that matches the fields, ignoring clock changes.
    fn next_local(&self, from: DateTime, is_included: bool) -> Option<DateTime> {
        let minute_of_day = i32::from(from.hour()) * 60 + i32::from(from.minute());
        let is_whole = from.second() == 0 && from.subsec_nanosecond() == 0;
        let earliest = if is_included && is_whole { minute_of_day } else { minute_of_day + 1 };
        if self.cron.matches_day(from.date())
            && let Some(minute) = self.cron.minute_from(earliest)
        {
            return at_minute(from.date(), minute);
        }
        let mut day = from.date();
        for _ in 0..RAREST_DAYS {
            let is_near = self.cron.matches_month(day);
            day = if is_near { day } else { day.last_of_month() }.tomorrow().ok()?;
            if self.cron.matches_day(day) {
                return at_minute(day, self.cron.minute_from(0)?);
            }
        }
        None
    }
}

fn at_minute(day: Date, minute: i32) -> Option<DateTime> {
    let (hour, minute) = (i8::try_from(minute / 60).ok()?, i8::try_from(minute % 60).ok()?);
    Some(day.at(hour, minute, 0, 0))
}

/// A time zone of the IANA database, by name.
pub(crate) fn zone(name: &str) -> Result<TimeZone> {
    let is_name = name.len() <= 100 && name.starts_with(|c: char| c.is_ascii_alphabetic());
    let known = is_name.then(|| TimeZone::get(name).ok()).flatten();
    known.ok_or_else(|| {
        let shown: String = name.chars().take(100).filter(|c| !c.is_control()).collect();
        Error::refused("timezone", format!("{shown:?} is not an IANA time zone such as Europe/Berlin or UTC"))
    })
}

#[cfg(test)]
mod tests;
