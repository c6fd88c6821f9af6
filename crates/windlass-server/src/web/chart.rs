//! Charts as SVG, drawn from numbers only: no script and no inline style; classes adapt them to both themes. Each shows
//! its exact values on hover and as a table below, which screen readers read too. This is the only HTML that is written
//! in Rust.
//!
//! Style: one label per axis, bars start at zero, at most three series, labels next to the marks.

mod bars;
mod distribution;
mod scatter;
mod spark;

pub(crate) use bars::{Bar, throughput};
pub(crate) use distribution::{Unit, distribution, percentile};
pub(crate) use scatter::{Dot, scatter};
pub(crate) use spark::{spark, trend};

use super::count::grouped;
use super::html::{Html, escape};

/// The coordinate system of the drawing; the stylesheet scales it.
const WIDTH: f64 = 480.0;
const HEIGHT: f64 = 150.0;
const LEFT: f64 = 52.0;
const RIGHT: f64 = 8.0;
const TOP: f64 = 10.0;
const BOTTOM: f64 = 20.0;

/// A chart: its title with the unit, a summary in one sentence, the drawing, and the same numbers as a table. The macro
/// `chart` of the templates shows it.
pub(crate) struct Figure {
    pub(crate) title: &'static str,
    pub(crate) aside: String,
    pub(crate) summary: String,
    pub(crate) drawing: Html,
    pub(crate) columns: &'static [&'static str],
    pub(crate) rows: Vec<Vec<String>>,
}

/// The text that is shown instead of marks if there are none yet.
fn blank(words: &str) -> String {
    format!(
        "<line class=\"axis\" x1=\"{LEFT}\" x2=\"{}\" y1=\"{y}\" y2=\"{y}\"/>\
         <text class=\"blank\" x=\"{}\" y=\"75\" text-anchor=\"middle\">{}</text>",
        WIDTH - RIGHT,
        WIDTH / 2.0,
        escape(words),
        y = HEIGHT - BOTTOM,
    )
}

/// The smallest number that is not below the largest value and whose half is round: 1, 2, 4, 6 or 8 times a power of
/// ten.
fn ceiling(largest: f64) -> f64 {
    if largest <= 0.0 {
        return 1.0;
    }
    let power = 10_f64.powf(largest.log10().floor());
    let scaled = largest / power;
    let step = [1.0, 2.0, 4.0, 6.0, 8.0, 10.0].into_iter().find(|step| scaled <= *step).unwrap_or(10.0);
    step * power
}

/// A count in short form: `950`, `12.4k`, `3.1M`.
pub(crate) fn short(count: f64) -> String {
    let say = |value: f64, unit: &str| {
        let text = if value < 10.0 { format!("{value:.1}") } else { format!("{value:.0}") };
        format!("{}{unit}", text.trim_end_matches(".0"))
    };
    match count {
        small if small < 10_000.0 => grouped(small.round() as i64),
        thousands if thousands < 1_000_000.0 => say(thousands / 1000.0, "k"),
        millions => say(millions / 1_000_000.0, "M"),
    }
}

#[cfg(test)]
mod tests {
    use super::{ceiling, short};

    #[test]
    fn an_axis_ends_on_a_round_number() {
        for (largest, end) in
            [(0.0, 1.0), (1.0, 1.0), (3.0, 4.0), (11.0, 20.0), (630.0, 800.0), (4700.0, 6000.0), (0.03, 0.04)]
        {
            assert!((ceiling(largest) - end).abs() < 1e-9, "{largest}");
        }
    }

    #[test]
    fn counts_are_short() {
        let shown = [0.0, 950.0, 12_400.0, 999_999.0, 3_100_000.0].map(short);
        assert_eq!(shown, ["0", "950", "12k", "1000k", "3.1M"]);
    }
}
