//! The next runs of a schedule for display: in its own time zone, with notes at clock changes.

use jiff::Timestamp;
use serde::Serialize;

use super::Schedule;

/// A future run.
///
/// ```
/// use windlass::schedule::Schedule;
///
/// let schedule = Schedule::new("@daily", "UTC")?;
/// for run in schedule.preview("2026-01-01T00:00:00Z".parse()?, 3) {
///     println!("{} ({})", run.due_at, run.local);
///     assert_eq!(run.clock_change, None);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct DueRun {
    /// The due instant.
    pub due_at: Timestamp,
    /// The same in the time zone of the schedule, with its offset: `2026-03-29T03:00:00+02:00`.
    pub local: String,
    /// The effect of a clock change on the run, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clock_change: Option<ClockChange>,
}

/// The effect of a clock change on a run.
///
/// ```
/// use windlass::schedule::{ClockChange, Schedule};
///
/// // The hour from 2:00 to 3:00 does not exist on this day.
/// let schedule = Schedule::new("30 2 * * *", "Europe/Berlin")?;
/// let runs = schedule.preview("2026-03-28T12:00:00Z".parse()?, 1);
/// assert_eq!(runs[0].clock_change, Some(ClockChange::MovedPastGap));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ClockChange {
    /// Its time is skipped that day, so it runs at the first instant after the gap.
    MovedPastGap,
    /// Its time occurs twice; this is the first of the two.
    FirstOfTwo,
    /// The second time that an interval runs at this local time.
    SecondOfTwo,
    /// The clocks changed between the previous run and this one.
    ClocksChanged,
}

impl Schedule {
    /// The next runs after an instant.
    #[must_use]
    pub fn preview(&self, after: Timestamp, count: usize) -> Vec<DueRun> {
        let mut runs: Vec<DueRun> = Vec::with_capacity(count);
        let mut last = after;
        while runs.len() < count {
            let Some(due_at) = self.next_after(last) else { break };
            runs.push(DueRun {
                due_at,
                local: self.local(due_at),
                clock_change: self.clock_change(last, due_at),
            });
            last = due_at;
        }
        runs
    }

    fn local(&self, instant: Timestamp) -> String {
        let offset = self.zone.to_offset(instant);
        instant.display_with_offset(offset).to_string()
    }

    fn clock_change(&self, before: Timestamp, due_at: Timestamp) -> Option<ClockChange> {
        let local = self.zone.to_datetime(due_at);
        let ambiguous = self.zone.to_ambiguous_timestamp(local);
        if ambiguous.is_ambiguous() {
            let is_first = ambiguous.earlier().is_ok_and(|first| first == due_at);
            return Some(if is_first { ClockChange::FirstOfTwo } else { ClockChange::SecondOfTwo });
        }
        let minute = i32::from(local.hour()) * 60 + i32::from(local.minute());
        let is_its_time =
            self.cron.matches_day(local.date()) && self.cron.minute_from(minute) == Some(minute);
        if !is_its_time {
            return Some(ClockChange::MovedPastGap);
        }
        let changed = self.zone.to_offset(before) != self.zone.to_offset(due_at);
        changed.then_some(ClockChange::ClocksChanged)
    }
}
