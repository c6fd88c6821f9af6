//! A small line chart without axes: the history of a number that is shown next to it.

use crate::web::html::{Html, escape};

/// `words` describe the chart for screen readers.
pub(crate) fn spark(values: &[f64], words: &str) -> Html {
    if values.len() < 2 {
        return Html::default();
    }
    let label = escape(words);
    let about = format!("role=\"img\" aria-label=\"{label}\"><title>{label}</title");
    Html::drawn(draw(values, "spark", &about))
}

/// The same next to a number that is sufficient for screen readers. Empty if all values are zero.
pub(crate) fn trend(values: &[f64]) -> Html {
    if values.iter().all(|value| *value <= 0.0) {
        return Html::default();
    }
    Html::drawn(draw(values, "spark trend", "aria-hidden=\"true\""))
}

fn draw(values: &[f64], class: &str, about: &str) -> String {
    let top = values.iter().copied().fold(1.0, f64::max);
    let step = 96.0 / (values.len() - 1).max(1) as f64;
    let point = |(index, value): (usize, &f64)| {
        format!("{:.1} {:.1}", step * index as f64, 22.0 - 20.0 * value / top)
    };
    let points: Vec<String> = values.iter().enumerate().map(point).collect();
    let line = points.join("L");
    format!(
        "<svg class=\"{class}\" viewBox=\"0 0 96 24\" preserveAspectRatio=\"none\" {about}><path class=\"area\" d=\"M{line}L96 23L0 23z\"/><path class=\"line\" d=\"M{line}\"/></svg>"
    )
}

#[cfg(test)]
mod tests {
    use super::{spark, trend};

    #[test]
    fn a_trend_has_no_label_and_is_not_drawn_empty() {
        assert_eq!(trend(&[0.0, 0.0]).to_string(), "");
        let html = trend(&[0.0, 3.0]).to_string();
        assert!(html.contains("aria-hidden=\"true\"") && !html.contains("<title>"), "{html}");
    }

    #[test]
    fn a_line_needs_two_points_and_stays_inside() {
        assert_eq!(spark(&[1.0], "depth").to_string(), "");
        let html = spark(&[0.0, 10.0, 5.0], "depth, <b>").to_string();
        assert!(html.contains("M0.0 22.0L48.0 2.0L96.0 12.0"), "{html}");
        assert!(html.contains("depth, &lt;b&gt;"), "{html}");
    }
}
