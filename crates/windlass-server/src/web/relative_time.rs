//! Times as relative text: how long, how long ago, in how long. The exact instant is shown on hover; the script of the
//! page converts it to the viewer's time zone and keeps the text up to date.

use jiff::Timestamp;

/// A duration in at most two units: `850 ms`, `4.2 s`, `37 s`, `4 min 12 s`, `3 h 5 min`, `12 d`. The function `span`
/// of the script returns the same.
pub(crate) fn span(seconds: f64) -> String {
    if seconds < 1.0 {
        return format!("{} ms", (seconds.max(0.0) * 1000.0).round());
    }
    if seconds < 10.0 {
        return format!("{seconds:.1} s");
    }
    if seconds < 60.0 {
        return format!("{} s", seconds.floor());
    }
    const UNITS: [(f64, &str, f64, &str); 3] =
        [(86400.0, "d", 3600.0, "h"), (3600.0, "h", 60.0, "min"), (60.0, "min", 1.0, "s")];
    let fits = UNITS.iter().find(|(size, ..)| seconds >= *size);
    let (size, name, less, lesser) = fits.copied().unwrap_or(UNITS[2]);
    let whole = (seconds / size).floor();
    let rest = ((seconds % size) / less).floor();
    if rest > 0.0 && whole < 10.0 {
        format!("{whole} {name} {rest} {lesser}")
    } else {
        format!("{whole} {name}")
    }
}

/// An instant and the current time; rendered by the macro `time` of the templates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RelativeTime {
    at: Timestamp,
    now: Timestamp,
    is_age: bool,
}

impl RelativeTime {
    /// `4 min ago`, `in 12 s`.
    pub(crate) fn new(at: Timestamp, now: Timestamp) -> Self {
        Self { at, now, is_age: false }
    }

    /// Only the time since then: `4 min`.
    pub(crate) fn age(at: Timestamp, now: Timestamp) -> Self {
        Self { at, now, is_age: true }
    }

    /// The text alone, for a sentence or a title.
    pub(crate) fn words(&self) -> String {
        let seconds = seconds_between(self.at, self.now);
        if self.is_age {
            return span(seconds.max(0.0));
        }
        match seconds {
            near if near.abs() < 1.0 => "now".to_owned(),
            past if past > 0.0 => format!("{} ago", coarse(past)),
            future => format!("in {}", span(whole_if_short((-future).ceil(), -future))),
        }
    }
}

/// The attributes of the `time` element.
impl RelativeTime {
    pub(crate) fn datetime(&self) -> String {
        self.at.strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string()
    }

    /// How the script keeps the text up to date.
    pub(crate) const fn form(&self) -> &'static str {
        if self.is_age { "age" } else { "ago" }
    }

    pub(crate) fn title(&self) -> String {
        exact(self.at)
    }

    pub(crate) fn short_words(&self) -> String {
        self.words().replace(".0 s", " s")
    }
}

/// A past time is shown in one unit, so that a column of times is easy to read; the exact one is shown on hover.
fn coarse(seconds: f64) -> String {
    let whole = [86400.0, 3600.0, 60.0, 1.0].into_iter().find(|size| seconds >= *size).unwrap_or(1.0);
    span((seconds / whole).floor() * whole).replace(".0 s", " s")
}

/// Tenths of a second would change too fast to read.
fn whole_if_short(whole: f64, exact: f64) -> f64 {
    if exact < 10.0 { whole } else { exact }
}

pub(crate) fn seconds_between(earlier: Timestamp, later: Timestamp) -> f64 {
    later.duration_since(earlier).as_secs_f64()
}

/// `2026-11-15 23:04:05 UTC`: shown without a script.
pub(crate) fn exact(at: Timestamp) -> String {
    at.strftime("%Y-%m-%d %H:%M:%S UTC").to_string()
}

#[cfg(test)]
mod tests {
    use jiff::{SignedDuration, Timestamp};

    use super::{RelativeTime, span};

    #[test]
    fn durations_are_shown_in_at_most_two_units() {
        let cases = [
            (0.0, "0 ms"),
            (0.85, "850 ms"),
            (4.23, "4.2 s"),
            (37.9, "37 s"),
            (60.0, "1 min"),
            (252.0, "4 min 12 s"),
            (3600.0 * 3.0 + 300.0, "3 h 5 min"),
            (86400.0 * 12.5, "12 d"),
        ];
        for (seconds, words) in cases {
            assert_eq!(span(seconds), words);
        }
    }

    #[test]
    fn an_instant_is_shown_relative_to_now() {
        let now: Timestamp = "2026-11-15T12:00:00Z".parse().unwrap();
        let at = |seconds: i64| RelativeTime::new(now + SignedDuration::from_secs(seconds), now).words();
        assert_eq!([-252, -7, -11_100, -100_000].map(at), ["4 min ago", "7 s ago", "3 h ago", "1 d ago"]);
        assert_eq!(at(252), "in 4 min 12 s");
        assert_eq!(at(45), "in 45 s");
        assert_eq!(at(0), "now");
        let age = RelativeTime::age(now - SignedDuration::from_secs(5), now);
        assert_eq!((age.datetime().as_str(), age.form()), ("2026-11-15T11:59:55.000Z", "age"));
        assert_eq!(age.short_words(), "5 s");
    }
}
