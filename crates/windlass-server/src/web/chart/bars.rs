//! Finished attempts over time: succeeded below, failed on top, one bar per span.

use jiff::Timestamp;

use super::{BOTTOM, Figure, HEIGHT, LEFT, RIGHT, TOP, WIDTH, blank, ceiling, short};
use crate::web::count::grouped;
use crate::web::html::Html;
use crate::web::relative_time::span;

/// The attempts that finished in one span of time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Bar {
    pub(crate) from: Timestamp,
    pub(crate) succeeded: f64,
    pub(crate) failed: f64,
}

/// `each`: the length of a span in seconds.
pub(crate) fn throughput(bars: &[Bar], each: f64) -> Figure {
    let total = |pick: fn(&Bar) -> f64| bars.iter().map(pick).sum::<f64>();
    let (succeeded, failed) = (total(|bar| bar.succeeded), total(|bar| bar.failed));
    let aside = if bars.is_empty() {
        String::new()
    } else {
        format!("last {}, per {}", span(each * bars.len() as f64), span(each))
    };
    let summary = format!("{} succeeded and {} failed", grouped(succeeded as i64), grouped(failed as i64));
    let is_empty = succeeded + failed <= 0.0;
    Figure {
        title: "Finished attempts",
        aside,
        summary,
        drawing: Html::drawn(if is_empty {
            blank("No attempts finished in this period")
        } else {
            draw(bars, succeeded, failed)
        }),
        columns: &["from (UTC)", "succeeded", "failed"],
        rows: if is_empty {
            Vec::new()
        } else {
            bars.iter().filter(|bar| bar.succeeded + bar.failed > 0.0).map(row).collect()
        },
    }
}

fn row(bar: &Bar) -> Vec<String> {
    vec![clock(bar.from), grouped(bar.succeeded as i64), grouped(bar.failed as i64)]
}

fn clock(at: Timestamp) -> String {
    at.strftime("%H:%M:%S").to_string()
}

fn draw(bars: &[Bar], succeeded: f64, failed: f64) -> String {
    let (floor, tall) = (HEIGHT - BOTTOM, HEIGHT - BOTTOM - TOP);
    let end = ceiling(bars.iter().map(|bar| bar.succeeded + bar.failed).fold(0.0, f64::max));
    let step = (WIDTH - LEFT - RIGHT) / bars.len().max(1) as f64;
    let thick = (step - if step > 5.0 { 2.0 } else { 0.5 }).max(0.5);
    let mut out = String::new();
    for (share, value) in [(1.0, end), (0.5, end / 2.0)] {
        let y = floor - tall * share;
        out.push_str(&format!(
            "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{:.0}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/><text x=\"{:.0}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            WIDTH - RIGHT, LEFT - 6.0, y + 4.0, tick(value)
        ));
    }
    for (index, bar) in bars.iter().enumerate() {
        let x = LEFT + step * index as f64;
        let height = |value: f64| if value > 0.0 { (tall * value / end).max(1.5) } else { 0.0 };
        let (good, bad) = (height(bar.succeeded), height(bar.failed));
        if good > 0.0 {
            out.push_str(&format!(
                "<rect class=\"good\" x=\"{x:.1}\" y=\"{:.1}\" width=\"{thick:.1}\" height=\"{good:.1}\"/>",
                floor - good
            ));
        }
        if bad > 0.0 {
            out.push_str(&format!(
                "<rect class=\"bad\" x=\"{x:.1}\" y=\"{:.1}\" width=\"{thick:.1}\" height=\"{bad:.1}\"/>",
                floor - good - bad
            ));
        }
        out.push_str(&format!(
            "<rect class=\"hit\" x=\"{x:.1}\" y=\"{TOP}\" width=\"{step:.1}\" height=\"{tall:.0}\"><title>{} UTC: {} succeeded, {} failed</title></rect>",
            clock(bar.from), grouped(bar.succeeded as i64), grouped(bar.failed as i64)
        ));
    }
    out.push_str(&format!(
        "<line class=\"axis\" x1=\"{LEFT}\" x2=\"{:.0}\" y1=\"{floor}\" y2=\"{floor}\"/>",
        WIDTH - RIGHT
    ));
    if let (Some(first), Some(last)) = (bars.first(), bars.last()) {
        let at = |at: Timestamp| at.strftime("%H:%M").to_string();
        out.push_str(&format!("<text x=\"{LEFT}\" y=\"{:.0}\">{}</text>", HEIGHT - 5.0, at(first.from)));
        out.push_str(&format!(
            "<text x=\"{:.0}\" y=\"{:.0}\" text-anchor=\"end\">{} UTC</text>",
            WIDTH - RIGHT,
            HEIGHT - 5.0,
            at(last.from)
        ));
    }
    out.push_str(&format!(
        "<text class=\"good\" x=\"{:.0}\" y=\"{:.0}\" text-anchor=\"end\">{} succeeded</text><text class=\"bad\" x=\"{:.0}\" y=\"{:.0}\">{} failed</text>",
        WIDTH / 2.0 - 6.0, HEIGHT - 5.0, grouped(succeeded as i64), WIDTH / 2.0 + 6.0, HEIGHT - 5.0, grouped(failed as i64)
    ));
    out
}

fn tick(value: f64) -> String {
    if value < 1.0 { String::new() } else { short(value) }
}

#[cfg(test)]
mod tests {
    use jiff::{SignedDuration, Timestamp};

    use super::{Bar, throughput};

    #[test]
    fn a_single_failure_among_thousands_is_visible() {
        let from = Timestamp::UNIX_EPOCH;
        let bar = |index: i64, failed| Bar {
            from: from + SignedDuration::from_mins(index),
            succeeded: 5000.0,
            failed,
        };
        let figure = throughput(&[bar(0, 0.0), bar(1, 1.0)], 60.0);
        let html = figure.drawing.to_string();
        assert_eq!(html.matches("class=\"bad\" x=").count(), 2, "one mark, one label: {html}");
        assert!(html.contains("00:01:00 UTC: 5\u{202f}000 succeeded, 1 failed"), "{html}");
        assert_eq!(figure.rows[1], ["00:01:00", "5\u{202f}000", "1"]);
    }

    #[test]
    fn no_finished_jobs_show_a_message() {
        assert!(throughput(&[], 60.0).drawing.to_string().contains("No attempts finished"));
    }
}
