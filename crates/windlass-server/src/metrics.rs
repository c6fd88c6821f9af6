//! `/metrics`: what this process counted, and how deep the queues are, in Prometheus' text format.
//!
//! Depths are read from the database's counters at the moment of the scrape and written out here instead of being kept as
//! gauges: a queue that is gone leaves no series behind, and the number of tenants with series of their own is held to a cap
//! however many there are.

mod depth;

use std::sync::OnceLock;
use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use tokio_util::sync::CancellationToken;
use windlass::{Queue, Reach};

use crate::auth::Permission;
use crate::http::{App, Problem, ProblemKind, Refusal};

pub use depth::{METRICS, depths};

/// Without this the exporter keeps every sample between two scrapes, and for ever if nobody scrapes.
const UPKEEP_EVERY: Duration = Duration::from_secs(5);

const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

const SECONDS: &[f64] = &[
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0,
    7200.0,
];
const SIZES: &[f64] = &[1.0, 2.0, 5.0, 10.0, 25.0, 50.0, 100.0, 250.0, 500.0, 1000.0];

/// The recorder of this process, installed at the first call.
pub fn recorder() -> &'static PrometheusHandle {
    static RECORDER: OnceLock<PrometheusHandle> = OnceLock::new();
    RECORDER.get_or_init(|| {
        let builder = PrometheusBuilder::new()
            .set_buckets_for_metric(Matcher::Suffix("_seconds".to_owned()), SECONDS)
            .and_then(|builder| builder.set_buckets_for_metric(Matcher::Suffix("_size".to_owned()), SIZES));
        let recorder = builder.unwrap_or_else(|_| PrometheusBuilder::new()).build_recorder();
        let handle = recorder.handle();
        if metrics::set_global_recorder(recorder).is_err() {
            tracing::warn!(
                "another metrics recorder is installed; /metrics will not show what this process counts"
            );
        }
        for (name, meaning) in windlass::METRICS {
            describe(name, meaning);
        }
        handle
    })
}

/// The facade asks for the kind; a name says it.
fn describe(name: &'static str, meaning: &'static str) {
    if name.ends_with("_total") {
        metrics::describe_counter!(name, meaning);
    } else if name.ends_with("_seconds") || name.ends_with("_size") {
        metrics::describe_histogram!(name, meaning);
    } else {
        metrics::describe_gauge!(name, meaning);
    }
}

/// Keeps the recorder small until told to stop.
pub async fn upkeep(stop: CancellationToken) {
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(UPKEEP_EVERY) => recorder().run_upkeep(),
        }
    }
}

/// Everything, as text. `tenants` is how many of them have depth series of their own.
pub async fn text(queue: &Queue, tenants: usize) -> windlass::Result<String> {
    let looking = queue.look(Reach::Everything).await?;
    let overview = looking.overview().await?;
    looking.end().await?;
    let mut text = recorder().render();
    text.push_str(&depths(&overview, tenants));
    Ok(text)
}

/// The handler of `/metrics`: for credentials that may read metrics. That a request comes from this machine proves nothing: so does
/// everything that a proxy on it passes on. Who wants none needs an address of its own for it ([`routes`]).
pub async fn page(State(app): State<App>, request: Request) -> Result<Response, Problem> {
    let options = app.options();
    if !options.metrics {
        return Err(Problem::of(ProblemKind::NotFound, "metrics are switched off here"));
    }
    let target = "GET /metrics";
    // Apart, because a body cannot be looked at from two threads and a head can.
    let (head, _) = request.into_parts();
    match app.authenticator().authenticate(&head).await {
        Ok(known) if known.caller.may(Permission::ReadMetrics) => {}
        Ok(known) => {
            app.refused(Refusal::of(&known.caller, target)).await;
            return Err(Problem::of(ProblemKind::Forbidden, "it needs the permission metrics:read"));
        }
        Err(problem) => {
            if problem.kind == ProblemKind::Unauthorized {
                app.refused(Refusal::of_nobody(&head.headers, &head.extensions, target)).await;
            }
            return Err(problem);
        }
    }
    let text = text(app.queue(), options.metrics_tenants).await?;
    Ok(([(header::CONTENT_TYPE, CONTENT_TYPE)], text).into_response())
}

/// `/metrics` alone, for an address that only those who may see it can reach.
pub fn routes(queue: Queue, tenants: usize) -> axum::Router {
    let answer = move || async move {
        match text(&queue, tenants).await {
            Ok(text) => ([(header::CONTENT_TYPE, CONTENT_TYPE)], text).into_response(),
            Err(error) => {
                tracing::warn!(%error, "metrics could not be read");
                axum::http::StatusCode::SERVICE_UNAVAILABLE.into_response()
            }
        }
    };
    axum::Router::new().route("/metrics", axum::routing::get(answer))
}
