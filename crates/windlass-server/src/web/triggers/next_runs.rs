//! The next runs of a schedule in its own time zone, with notes at clock changes.

use windlass::schedule::{ClockChange, DueRun};

use super::super::relative_time::RelativeTime;
use super::schedule_words;

pub(super) struct NextRuns {
    /// "Every day at 02:30"
    pub(super) words: String,
    pub(super) zone: String,
    /// None if the schedule is invalid.
    pub(super) runs: Option<Vec<NextRun>>,
}

pub(super) struct NextRun {
    pub(super) day: String,
    pub(super) time: String,
    /// The offset from UTC.
    pub(super) offset: String,
    pub(super) when: RelativeTime,
    pub(super) clock_change: Option<&'static str>,
}

impl NextRuns {
    pub(super) fn new(
        cron: &str,
        zone: Option<&str>,
        preview: Option<&[DueRun]>,
        now: jiff::Timestamp,
    ) -> Self {
        let zone = zone.unwrap_or("UTC");
        let next = |run: &DueRun| {
            let (day, time, offset) = local_words(&run.local);
            NextRun {
                day,
                time: time.to_owned(),
                offset: offset.to_owned(),
                when: RelativeTime::new(run.due_at, now),
                clock_change: run.clock_change.map(clock_words),
            }
        };
        Self {
            words: schedule_words(cron, zone),
            zone: zone.to_owned(),
            runs: preview.map(|runs| runs.iter().map(next).collect()),
        }
    }
}

/// `2026-11-17T02:30:00+01:00` as a day with its name, a time without seconds if they are zero, and the offset from
/// UTC.
fn local_words(local: &str) -> (String, &str, &str) {
    let (date, rest) = local.split_once('T').unwrap_or((local, ""));
    let day = date.parse::<jiff::civil::Date>().map(|date| date.strftime("%a %Y-%m-%d").to_string());
    let (time, offset) = rest.split_at_checked(8).unwrap_or((rest, ""));
    (day.unwrap_or_else(|_| date.to_owned()), time.strip_suffix(":00").unwrap_or(time), offset)
}

const fn clock_words(change: ClockChange) -> &'static str {
    match change {
        ClockChange::MovedPastGap => "moved: clocks skip this time",
        ClockChange::FirstOfTwo => "first of two: clocks go back",
        ClockChange::SecondOfTwo => "second of two: clocks go back",
        // `ClocksChanged`, and what a later release adds.
        _ => "clocks changed",
    }
}

#[cfg(test)]
mod tests {
    use super::local_words;

    #[test]
    fn a_due_time_is_shown_in_its_own_zone() {
        assert_eq!(
            local_words("2026-11-17T02:30:00+01:00"),
            ("Tue 2026-11-17".to_owned(), "02:30", "+01:00")
        );
        assert_eq!(local_words("2026-11-17T02:30:09-05:00").1, "02:30:09");
        assert_eq!(local_words("ü<").0, "ü<");
    }
}
