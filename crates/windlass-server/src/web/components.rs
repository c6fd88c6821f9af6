//! Every component on one page, with difficult values: long, empty, right to left, hostile. For developers of the UI;
//! served if the setting `http.component_page` is true.

use askama::Template;
use axum::extract::State as FromState;
use jiff::SignedDuration;
use serde_json::json;
use windlass::job::State;

use super::chart::{Bar, Dot, Figure, Unit, distribution, scatter, spark, throughput};
use super::frame::{Frame, Section};
use super::html::Html;
use super::json_view::JsonView;
use super::page::{Page, page};
use super::relative_time::RelativeTime;
use super::status_mark::StatusMark;
use super::viewer::Viewer;
use crate::http::{App, Problem, ProblemKind};

#[derive(Template)]
#[template(path = "components.html")]
pub(crate) struct Components {
    pub(crate) frame: Frame,
    states: Vec<(StatusMark, State)>,
    outcomes: Vec<StatusMark>,
    times: Vec<RelativeTime>,
    /// `scheduled` is shown differently before the first start and before a retry.
    retrying: StatusMark,
    json: JsonView,
    throughput: Figure,
    latency: Figure,
    duration: Figure,
    scatter: Figure,
    spark: Html,
    empty_chart: Figure,
    long: String,
}

/// `GET /ui/components`
pub(crate) async fn show(FromState(app): FromState<App>, viewer: Viewer) -> Page {
    if !app.options().component_page {
        return Err(Problem::of(ProblemKind::NotFound, "page not found").into());
    }
    page(&Components::new(viewer.bare_frame(Section::Other)))
}

impl Components {
    pub(crate) fn new(frame: Frame) -> Self {
        let now = frame.now;
        let before = |seconds: i64| now - SignedDuration::from_secs(seconds);
        // A wave that looks like a working day. It is not random, so that the page is always the same.
        let wave = |index: u32| (f64::from(index) * 0.37).sin() * 0.5 + 0.5;
        let bars: Vec<Bar> = (0..60)
            .map(|index| Bar {
                from: before(i64::from(60 - index) * 60),
                succeeded: (wave(index) * 420.0).round() + 60.0,
                failed: if index % 7 == 0 { (wave(index * 3) * 60.0).round() } else { 0.0 },
            })
            .collect();
        let seconds = |scale: f64| {
            (0..400).map(move |index| scale * (wave(index) * 4.0 - 1.0).exp()).collect::<Vec<_>>()
        };
        let dots: Vec<Dot> = (0..140)
            .map(|index| Dot {
                at: before(i64::from(140 - index) * 9),
                seconds: 0.2 * (wave(index * 5) * 5.0).exp(),
                outcome: if index % 11 == 0 { "failed" } else { "succeeded" }.to_owned(),
                name: "sync-dropbox".to_owned(),
            })
            .collect();
        let depth: Vec<f64> = (0..40).map(|index| wave(index) * 90.0).collect();
        Self {
            states: State::ALL.into_iter().map(|state| (StatusMark::of(state, false), state)).collect(),
            outcomes: ["succeeded", "failed", "timeout", "canceled", "lost", "snoozed", "released"]
                .map(StatusMark::of_attempt)
                .to_vec(),
            times: [1, 42, 252, 11_100, 1_036_800, -45]
                .map(|seconds| RelativeTime::new(before(seconds), now))
                .to_vec(),
            retrying: StatusMark::of(State::Scheduled, true),
            json: JsonView::new(&json!({
                "provider_id": "6f46a1d8-6e2b-4ecf-8b46-9ec2e6a37f09",
                "paths": ["/photos", "/scans/<2026> & \"more\""],
                "options": {"deep": true, "limit": 250, "since": null, "nested": {"folded": "until opened"}},
                "title": "عنوان من اليمين إلى اليسار",
            })),
            throughput: throughput(&bars, 60.0),
            latency: distribution(Unit::Latency, &seconds(0.05)),
            duration: distribution(Unit::Duration, &seconds(2.0)),
            scatter: scatter(&dots),
            spark: spark(&depth, "Queued jobs over the last ten minutes, 12 now"),
            empty_chart: throughput(&[], 60.0),
            long: "a-very-long-value-without-any-break-".repeat(12),
            frame,
        }
    }
}

#[cfg(test)]
mod tests {
    use askama::Template as _;

    use super::Components;
    use crate::web::frame::Frame;

    #[test]
    fn the_component_page_renders_within_its_weight() {
        let html = Components::new(Frame::for_tests()).render().unwrap();
        assert!(html.contains("Dead letter"));
        assert!(html.contains("/scans/&#60;2026&#62; &#38; &#34;more&#34;"), "escaped");
        assert!(html.len() < 110_000, "{}", html.len());
    }
}
