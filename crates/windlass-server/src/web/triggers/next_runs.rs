//! The next runs of a schedule, told in its own zone, with what a change of the clocks does to them.

use windlass::{ClockChange, DueRun};

use super::super::html::escape;
use super::super::page::sentence;
use super::super::when::When;
use super::schedule_words;

pub(super) fn next_runs(
    cron: &str,
    zone: Option<&str>,
    preview: &windlass::Result<Vec<DueRun>>,
    now: jiff::Timestamp,
) -> String {
    let zone = zone.unwrap_or("UTC");
    let body = match preview {
        Err(error) => format!("<p class=\"wrong\">{}</p>", escape(&sentence(&error.to_string()))),
        Ok(runs) if runs.is_empty() => "<p>It never comes due.</p>".to_owned(),
        Ok(runs) => list(runs, now),
    };
    format!(
        "<section aria-labelledby=\"next\"><h2 id=\"next\">Next runs</h2><p class=\"muted\">{}, {}</p>{body}</section>",
        escape(&schedule_words(cron, zone)),
        escape(zone)
    )
}

fn list(runs: &[DueRun], now: jiff::Timestamp) -> String {
    let items: String = runs
            .iter()
            .map(|run| {
                let change = run
                    .clock_change
                    .map(|change| format!(" <span class=\"badge is-warning\">{}</span>", clock_words(change)))
                    .unwrap_or_default();
                let (day, time, offset) = local_words(&run.local);
                format!(
                    "<li><span class=\"mono\">{day}</span><strong class=\"mono\">{time}</strong><span class=\"mono muted\">{offset}</span>{}{change}</li>",
                    When::new(run.due_at, now)
                )
            })
            .collect();
    format!("<ol class=\"runs\" id=\"next-runs\">{items}</ol>")
}

/// `2026-11-17T02:30:00+01:00` as a day with its name, a time without idle seconds, and the distance to UTC.
fn local_words(local: &str) -> (String, &str, &str) {
    let (date, rest) = local.split_once('T').unwrap_or((local, ""));
    let day = date.parse::<jiff::civil::Date>().map(|date| date.strftime("%a %-d %b %Y").to_string());
    let (time, offset) = rest.split_at_checked(8).unwrap_or((rest, ""));
    (day.unwrap_or_else(|_| escape(date)), time.strip_suffix(":00").unwrap_or(time), offset)
}

const fn clock_words(change: ClockChange) -> &'static str {
    match change {
        ClockChange::MovedPastGap => "moved: this time is skipped that day",
        ClockChange::FirstOfTwo => "the first of two: clocks go back",
        ClockChange::SecondOfTwo => "the second of two: clocks go back",
        ClockChange::ClocksChanged => "after a change of the clocks",
    }
}

#[cfg(test)]
mod tests {
    use super::local_words;

    #[test]
    fn a_due_time_is_told_in_its_own_zone() {
        assert_eq!(
            local_words("2026-11-17T02:30:00+01:00"),
            ("Tue 17 Nov 2026".to_owned(), "02:30", "+01:00")
        );
        assert_eq!(local_words("2026-11-17T02:30:09-05:00").1, "02:30:09");
        assert_eq!(local_words("ü<").0, "ü&lt;");
    }
}
