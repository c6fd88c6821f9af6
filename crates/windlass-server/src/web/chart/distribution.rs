//! Durations: a histogram on a logarithmic scale of seconds, with the median and the 95th percentile.

use super::{BOTTOM, Figure, HEIGHT, LEFT, RIGHT, TOP, WIDTH, blank, ceiling, short};
use crate::web::html::Html;
use crate::web::relative_time::span;

/// The measured quantity, which determines the title and the class of the marks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    Latency,
    Duration,
}

/// Bins per factor of ten.
const PER_DECADE: f64 = 4.0;

/// Seconds below this share the first bin: half a millisecond.
const MIN: f64 = 0.0005;

pub(crate) fn distribution(unit: Unit, seconds: &[f64]) -> Figure {
    let (title, class, nothing) = match unit {
        Unit::Latency => ("Queue time", "wait", "No recent jobs"),
        Unit::Duration => ("Run time", "run", "No recent runs"),
    };
    let mut sorted: Vec<f64> =
        seconds.iter().copied().filter(|value| value.is_finite()).map(|value| value.max(0.0)).collect();
    sorted.sort_by(f64::total_cmp);
    let Some((median, p95)) = percentile(&sorted, 0.5).zip(percentile(&sorted, 0.95)) else {
        return Figure {
            title,
            aside: String::new(),
            summary: nothing.to_owned(),
            drawing: Html::drawn(blank(nothing)),
            columns: &[],
            rows: Vec::new(),
        };
    };
    let bins = bins(&sorted);
    let aside = format!("latest {} runs", short(sorted.len() as f64));
    let summary = format!("Median {}, 95th percentile {}", span(median), span(p95));
    let row = |bin: &Bin| vec![format!("{} to {}", span(bin.from), span(bin.to)), bin.count.to_string()];
    let mut rows: Vec<Vec<String>> = bins.iter().filter(|bin| bin.count > 0).map(row).collect();
    rows.insert(0, vec!["p95".to_owned(), span(p95)]);
    rows.insert(0, vec!["p50".to_owned(), span(median)]);
    Figure {
        title,
        aside,
        summary,
        drawing: Html::drawn(draw(&bins, class, median, p95)),
        columns: &["time", "runs"],
        rows,
    }
}

/// The value below which this share of the sorted values lies.
pub(crate) fn percentile(sorted: &[f64], share: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    sorted.get((last as f64 * share).round() as usize).copied()
}

struct Bin {
    from: f64,
    to: f64,
    count: usize,
}

fn place(seconds: f64) -> f64 {
    (seconds.max(MIN) / MIN).log10() * PER_DECADE
}

fn bins(sorted: &[f64]) -> Vec<Bin> {
    let bounds =
        sorted.first().zip(sorted.last()).map(|(first, last)| (place(*first).floor(), place(*last).floor()));
    let Some((low, high)) = bounds else { return Vec::new() };
    // A narrow distribution still gets a few bins, so that one bar does not fill the drawing.
    let (low, high) = if high - low < 5.0 { ((low - 2.0).max(0.0), high + 3.0) } else { (low, high) };
    let edge = |index: f64| MIN * 10_f64.powf(index / PER_DECADE);
    let mut bins: Vec<Bin> = (low as i64..=high as i64)
        .map(|index| Bin {
            from: if index == 0 { 0.0 } else { edge(index as f64) },
            to: edge(index as f64 + 1.0),
            count: 0,
        })
        .collect();
    for value in sorted {
        if let Some(bin) = bins.get_mut((place(*value).floor() - low) as usize) {
            bin.count += 1;
        }
    }
    bins
}

fn draw(bins: &[Bin], class: &str, median: f64, p95: f64) -> String {
    // The labels of the percentiles are above the bars.
    let (floor, tall) = (HEIGHT - BOTTOM, HEIGHT - BOTTOM - TOP - 20.0);
    let end = ceiling(bins.iter().map(|bin| bin.count).max().unwrap_or(0) as f64);
    let step = (WIDTH - LEFT - RIGHT) / bins.len().max(1) as f64;
    let mut out = format!(
        "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{:.0}\" y1=\"{:.1}\" y2=\"{:.1}\"/><text x=\"{:.0}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
        WIDTH - RIGHT,
        floor - tall,
        floor - tall,
        LEFT - 6.0,
        floor - tall + 4.0,
        short(end)
    );
    let every = (bins.len() as f64 / 6.0).ceil().max(1.0) as usize;
    for (index, bin) in bins.iter().enumerate() {
        let x = LEFT + step * index as f64;
        if bin.count > 0 {
            let height = (tall * bin.count as f64 / end).max(1.5);
            out.push_str(&format!(
                "<rect class=\"{class}\" x=\"{x:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{height:.1}\"/>",
                floor - height,
                (step - 1.5).max(1.0)
            ));
        }
        out.push_str(&format!(
            "<rect class=\"hit\" x=\"{x:.1}\" y=\"{TOP}\" width=\"{step:.1}\" height=\"{:.0}\"><title>{} to {}: {}</title></rect>",
            floor - TOP, span(bin.from), span(bin.to), bin.count
        ));
        if index % every == 0 && index + 1 < bins.len() {
            out.push_str(&format!("<text x=\"{x:.1}\" y=\"{:.0}\">{}</text>", HEIGHT - 5.0, span(bin.from)));
        }
    }
    out.push_str(&format!(
        "<line class=\"axis\" x1=\"{LEFT}\" x2=\"{:.0}\" y1=\"{floor}\" y2=\"{floor}\"/>",
        WIDTH - RIGHT
    ));
    let low = bins.first().map_or(0.0, |bin| place(bin.from.max(MIN)));
    for (name, value, y) in [("p50", median, TOP - 1.0), ("p95", p95, TOP + 11.0)] {
        let x = (LEFT + step * (place(value) - low)).clamp(LEFT, WIDTH - RIGHT);
        let (anchor, shift) = if x > WIDTH * 0.7 { ("end", -4.0) } else { ("start", 4.0) };
        out.push_str(&format!(
            "<line class=\"p\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{:.0}\" y2=\"{floor}\"/><text x=\"{:.1}\" y=\"{:.0}\" text-anchor=\"{anchor}\">{name} {}</text>",
            y - 8.0, x + shift, y, span(value)
        ));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::{Unit, distribution, percentile};

    #[test]
    fn percentiles_are_values_that_were_measured() {
        let sorted: Vec<f64> = (1..=100).map(f64::from).collect();
        assert_eq!(percentile(&sorted, 0.5), Some(51.0));
        assert_eq!(percentile(&sorted, 0.95), Some(95.0));
        assert_eq!(percentile(&[], 0.5), None);
    }

    #[test]
    fn every_run_is_counted_once_from_no_time_to_days() {
        let seconds = [0.0, 0.0001, 0.02, 0.5, 0.5, 3.0, 86_400.0 * 3.0];
        let html = distribution(Unit::Duration, &seconds).drawing.to_string();
        let counted: usize = html
            .split("<title>")
            .skip(1)
            .filter_map(|part| part.split("</title>").next()?.rsplit(": ").next()?.parse::<usize>().ok())
            .sum();
        assert_eq!(counted, seconds.len(), "{html}");
    }

    #[test]
    fn no_samples_show_a_message() {
        assert!(distribution(Unit::Latency, &[]).drawing.to_string().contains("No recent jobs"));
    }
}
