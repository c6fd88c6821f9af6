//! Charts as SVG, made from numbers alone: no script, no inline style, both themes through classes. Each says its exact
//! values on hover and as a table below, which is also what a screen reader reads.
//!
//! Thin and plain: the axis labelled once, zero-based bars, at most three series, labels beside the marks.

mod bars;
mod distribution;
mod scatter;
mod spark;

pub(crate) use bars::{Bar, throughput};
pub(crate) use distribution::{Unit, distribution, percentile};
pub(crate) use scatter::{Dot, scatter};
pub(crate) use spark::{spark, trend};

use super::html::{Html, escape_into};

/// The drawing's own coordinates; the stylesheet scales it to its place.
const WIDTH: f64 = 480.0;
const HEIGHT: f64 = 150.0;
const LEFT: f64 = 44.0;
const RIGHT: f64 = 8.0;
const TOP: f64 = 10.0;
const BOTTOM: f64 = 20.0;

/// A figure: its title with the unit, what it shows in one sentence, the drawing and the same as a table.
struct Figure<'a> {
    title: &'a str,
    aside: &'a str,
    summary: &'a str,
    drawing: String,
    columns: &'a [&'a str],
    rows: Vec<Vec<String>>,
}

impl Figure<'_> {
    fn html(self) -> Html {
        let mut out = String::with_capacity(self.drawing.len() + 1024);
        out.push_str("<figure class=\"chart\"><figcaption>");
        escape_into(&mut out, self.title);
        out.push_str(" <span class=\"muted\">");
        escape_into(&mut out, self.aside);
        out.push_str(
            "</span></figcaption><svg class=\"plot\" role=\"img\" viewBox=\"0 0 480 150\" aria-label=\"",
        );
        escape_into(&mut out, &format!("{}. {}", self.title, self.summary));
        out.push_str("\">");
        out.push_str(&self.drawing);
        out.push_str("</svg>");
        if !self.rows.is_empty() {
            out.push_str("<details class=\"charttable\"><summary>Values</summary><table><thead><tr>");
            for column in self.columns {
                out.push_str("<th scope=\"col\">");
                escape_into(&mut out, column);
                out.push_str("</th>");
            }
            out.push_str("</tr></thead><tbody>");
            for row in &self.rows {
                out.push_str("<tr>");
                for cell in row {
                    out.push_str("<td class=\"mono\">");
                    escape_into(&mut out, cell);
                    out.push_str("</td>");
                }
                out.push_str("</tr>");
            }
            out.push_str("</tbody></table></details>");
        }
        out.push_str("</figure>");
        Html(out)
    }
}

/// What stands in place of marks that are not there yet.
fn blank(words: &str) -> String {
    let mut out = format!(
        "<line class=\"axis\" x1=\"{LEFT}\" x2=\"{}\" y1=\"{}\" y2=\"{}\"/>",
        WIDTH - RIGHT,
        HEIGHT - BOTTOM,
        HEIGHT - BOTTOM
    );
    out.push_str(&format!("<text class=\"blank\" x=\"{}\" y=\"75\" text-anchor=\"middle\">", WIDTH / 2.0));
    escape_into(&mut out, words);
    out.push_str("</text>");
    out
}

/// The smallest number that holds the largest value and whose half is round: 1, 2, 4, 6 or 8 times a power of ten.
fn ceiling(largest: f64) -> f64 {
    if largest <= 0.0 {
        return 1.0;
    }
    let power = 10_f64.powf(largest.log10().floor());
    let scaled = largest / power;
    let step = [1.0, 2.0, 4.0, 6.0, 8.0, 10.0].into_iter().find(|step| scaled <= *step).unwrap_or(10.0);
    step * power
}

/// A count as short as it can be read: `950`, `12.4k`, `3.1M`.
pub(crate) fn short(count: f64) -> String {
    let say = |value: f64, unit: &str| {
        let text = if value < 10.0 { format!("{value:.1}") } else { format!("{value:.0}") };
        format!("{}{unit}", text.trim_end_matches(".0"))
    };
    match count {
        small if small < 10_000.0 => say(small.round(), ""),
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
        let said = [0.0, 950.0, 12_400.0, 999_999.0, 3_100_000.0].map(short);
        assert_eq!(said, ["0", "950", "12k", "1000k", "3.1M"]);
    }
}
