//! A line without axes, as tall as a word: how a number came here. The number itself stands beside it.

use crate::web::html::Html;

/// `words` say what it shows, for those who do not see it.
pub(crate) fn spark(values: &[f64], words: &str) -> Html {
    if values.len() < 2 {
        return Html(String::new());
    }
    let top = values.iter().copied().fold(1.0, f64::max);
    let step = 96.0 / (values.len() - 1) as f64;
    let point = |(index, value): (usize, &f64)| {
        format!("{:.1} {:.1}", step * index as f64, 22.0 - 20.0 * value / top)
    };
    let points: Vec<String> = values.iter().enumerate().map(point).collect();
    let line = points.join("L");
    let mut label = String::new();
    super::escape_into(&mut label, words);
    Html(format!(
        "<svg class=\"spark\" viewBox=\"0 0 96 24\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\"{label}\"><title>{label}</title><path class=\"area\" d=\"M{line}L96 23L0 23z\"/><path class=\"line\" d=\"M{line}\"/></svg>"
    ))
}

#[cfg(test)]
mod tests {
    use super::spark;

    #[test]
    fn a_line_needs_two_points_and_stays_inside() {
        assert_eq!(spark(&[1.0], "depth").0, "");
        let html = spark(&[0.0, 10.0, 5.0], "depth, <b>").0;
        assert!(html.contains("M0.0 22.0L48.0 2.0L96.0 12.0"), "{html}");
        assert!(html.contains("depth, &lt;b&gt;"), "{html}");
    }
}
