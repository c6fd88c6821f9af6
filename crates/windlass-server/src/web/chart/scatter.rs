//! One mark per run: when it ended, and how long it took on a logarithmic scale. The outcome is a shape and a colour.

use jiff::{SignedDuration, Timestamp};

use super::{BOTTOM, Figure, HEIGHT, LEFT, RIGHT, TOP, WIDTH, blank};
use crate::web::html::{Html, escape};
use crate::web::relative_time::{seconds_between, span};

/// One run.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Dot {
    pub(crate) at: Timestamp,
    pub(crate) seconds: f64,
    /// The outcome: `succeeded`, `failed`, …
    pub(crate) outcome: String,
    pub(crate) name: String,
}

/// Rows of the table below; the drawing shows every dot.
const MAX_ROWS: usize = 30;

pub(crate) fn scatter(dots: &[Dot]) -> Figure {
    let count = |kind: DotKind| dots.iter().filter(|dot| kind_of(dot) == kind).count();
    let (failed, other) = (count(DotKind::Failed), count(DotKind::Other));
    let mut summary = format!("{} runs, {failed} failed", dots.len());
    let mut aside = "● succeeded  × failed".to_owned();
    if other > 0 {
        summary.push_str(&format!(", {other} canceled, snoozed, or released"));
        aside.push_str("  – canceled, snoozed, or released");
    }
    let row = |dot: &Dot| {
        vec![
            dot.at.strftime("%H:%M:%S").to_string(),
            dot.name.clone(),
            dot.outcome.clone(),
            span(dot.seconds),
        ]
    };
    Figure {
        title: "Runs by duration",
        aside,
        summary,
        drawing: Html::drawn(if dots.is_empty() { blank("No recent runs") } else { draw(dots) }),
        columns: &["finished (UTC)", "definition", "outcome", "duration"],
        rows: dots.iter().rev().take(MAX_ROWS).map(row).collect(),
    }
}

/// Each has its own shape.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DotKind {
    Succeeded,
    Failed,
    /// It ended without success or failure.
    Other,
}

fn kind_of(dot: &Dot) -> DotKind {
    match dot.outcome.as_str() {
        "succeeded" => DotKind::Succeeded,
        "failed" | "timeout" | "lost" => DotKind::Failed,
        _ => DotKind::Other,
    }
}

/// The label of a line: one unit, so that it fits between the edge and the chart.
fn tick(seconds: f64) -> String {
    match seconds {
        short if short < 60.0 => span(short).replace(".0", ""),
        short if short < 600.0 => format!("{short:.0} s"),
        long if long < 60_000.0 => format!("{:.0} min", long / 60.0),
        longer => format!("{:.0} h", longer / 3600.0),
    }
}

/// The minimum width of the time axis, in seconds.
const MIN_SPAN: i64 = 60;

fn draw(dots: &[Dot]) -> String {
    let floor = HEIGHT - BOTTOM;
    let (first, last) = dots
        .iter()
        .fold((Timestamp::MAX, Timestamp::MIN), |(low, high), dot| (low.min(dot.at), high.max(dot.at)));
    // At least a minute is drawn, so that a burst looks like one.
    let first = first.min(last - SignedDuration::from_secs(MIN_SPAN));
    let width = seconds_between(first, last);
    let level = |seconds: f64| seconds.max(0.001).log10();
    let low = dots.iter().map(|dot| level(dot.seconds)).fold(f64::MAX, f64::min).floor();
    let high = dots.iter().map(|dot| level(dot.seconds)).fold(f64::MIN, f64::max).ceil().max(low + 1.0);
    let y_of = |level: f64| floor - (floor - TOP) * (level - low) / (high - low);
    let mut out = String::new();
    let step = ((high - low) / 4.0).ceil().max(1.0);
    let mut line = low;
    while line <= high {
        let y = y_of(line);
        out.push_str(&format!(
            "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{:.0}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/><text x=\"{:.0}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            WIDTH - RIGHT, LEFT - 6.0, y + 4.0, tick(10_f64.powf(line))
        ));
        line += step;
    }
    for dot in dots {
        let x = LEFT + 5.0 + (WIDTH - LEFT - RIGHT - 10.0) * seconds_between(first, dot.at) / width;
        let y = y_of(level(dot.seconds));
        let end = match kind_of(dot) {
            DotKind::Succeeded => {
                out.push_str(&format!("<circle class=\"good\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\"><title>"));
                "</title></circle>"
            }
            DotKind::Failed => {
                out.push_str(&format!(
                "<path class=\"bad dot\" d=\"M{x:.1} {y:.1}m-4-2.6 1.4-1.4 2.6 2.6 2.6-2.6 1.4 1.4-2.6 2.6 2.6 2.6-1.4 1.4-2.6-2.6-2.6 2.6-1.4-1.4 2.6-2.6z\"><title>"
                ));
                "</title></path>"
            }
            DotKind::Other => {
                out.push_str(&format!("<path class=\"off dot\" d=\"M{x:.1} {y:.1}m-4-1h8v2h-8z\"><title>"));
                "</title></path>"
            }
        };
        let (lasted, at) = (span(dot.seconds), dot.at.strftime("%H:%M:%S"));
        out.push_str(&escape(&format!("{} {} after {lasted}, {at} UTC", dot.name, dot.outcome)));
        out.push_str(end);
    }
    let at = |at: Timestamp| at.strftime("%H:%M:%S").to_string();
    out.push_str(&format!("<text x=\"{LEFT}\" y=\"{:.0}\">{}</text>", HEIGHT - 5.0, at(first)));
    out.push_str(&format!(
        "<text x=\"{:.0}\" y=\"{:.0}\" text-anchor=\"end\">{} UTC</text>",
        WIDTH - RIGHT,
        HEIGHT - 5.0,
        at(last)
    ));
    out
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::{Dot, scatter, tick};

    #[test]
    fn a_hostile_name_is_escaped_in_a_mark() {
        let dot = Dot {
            at: Timestamp::UNIX_EPOCH,
            seconds: 0.4,
            outcome: "failed".to_owned(),
            name: "</title><script>".to_owned(),
        };
        let html = scatter(&[dot]).drawing.to_string();
        assert!(!html.contains("<script>"), "{html}");
        assert_eq!(html.matches("&lt;script&gt;").count(), 1, "{html}");
    }

    #[test]
    fn a_burst_does_not_start_and_end_at_the_same_second() {
        let dot = |nanos| Dot {
            at: Timestamp::new(3600, nanos).unwrap(),
            seconds: 0.002,
            outcome: "succeeded".to_owned(),
            name: "a".to_owned(),
        };
        let html = scatter(&[dot(1), dot(900_000)]).drawing.to_string();
        assert!(html.contains(">00:59:00</text>") && html.contains(">01:00:00 UTC</text>"), "{html}");
    }

    #[test]
    fn every_kind_of_mark_is_named() {
        let dot = |outcome: &str| Dot {
            at: Timestamp::UNIX_EPOCH,
            seconds: 1.0,
            outcome: outcome.to_owned(),
            name: "a".to_owned(),
        };
        let figure = scatter(&["succeeded", "failed", "timeout", "lost"].map(dot));
        assert_eq!(
            (figure.aside.as_str(), figure.summary.as_str()),
            ("● succeeded  × failed", "4 runs, 3 failed")
        );
        let figure = scatter(&["succeeded", "failed", "canceled"].map(dot));
        assert!(figure.aside.ends_with("– canceled, snoozed, or released"), "{}", figure.aside);
        assert_eq!(figure.summary, "3 runs, 1 failed, 1 canceled, snoozed, or released");
        assert_eq!(figure.drawing.to_string().matches("class=\"off dot\"").count(), 1);
    }

    #[test]
    fn the_label_of_a_line_has_one_unit() {
        let labels = [0.001, 0.1, 1.0, 10.0, 100.0, 1e3, 1e4, 1e5].map(tick);
        assert_eq!(labels, ["1 ms", "100 ms", "1 s", "10 s", "100 s", "17 min", "167 min", "28 h"]);
    }

    #[test]
    fn an_empty_chart_says_so() {
        assert!(scatter(&[]).drawing.to_string().contains("No recent runs"));
    }
}
