//! `/metrics`: the metrics of this process and the job counts of the queues, in the Prometheus text format.
//!
//! Job counts are read from the database at each scrape instead of being kept as gauges: a deleted queue leaves no series behind,
//! and the number of tenants with their own series is limited.

mod depth;

use std::sync::OnceLock;
use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use tokio_util::sync::CancellationToken;
use windlass::Queue;
use windlass::admin::Reach;

use crate::auth::{Permission, Unauthenticated};
use crate::http::{App, Denial, Problem, ProblemKind};

pub use depth::METRICS;
use depth::depths;

/// Without this the exporter keeps every sample between two scrapes, and forever without scrapes.
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
                "another metrics recorder is installed; /metrics does not show the metrics of this process"
            );
        }
        for (name, meaning) in windlass::internals::METRICS {
            describe(name, meaning);
        }
        handle
    })
}

/// The kind of a metric follows from its name.
fn describe(name: &'static str, meaning: &'static str) {
    if name.ends_with("_total") {
        metrics::describe_counter!(name, meaning);
    } else if name.ends_with("_seconds") || name.ends_with("_size") {
        metrics::describe_histogram!(name, meaning);
    } else {
        metrics::describe_gauge!(name, meaning);
    }
}

/// Keeps the recorder small until stopped.
pub(crate) async fn upkeep(stop: CancellationToken) {
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(UPKEEP_EVERY) => recorder().run_upkeep(),
        }
    }
}

/// All metrics as text. `tenants` is the number of tenants with their own series.
pub(crate) async fn text(queue: &Queue, tenants: usize) -> windlass::Result<String> {
    let reading = queue.read(Reach::Everything).await?;
    let overview = reading.overview().await?;
    reading.end().await?;
    let mut text = recorder().render();
    text.push_str(&depths(&overview, tenants));
    Ok(text)
}

/// The handler of `/metrics`: for credentials with the permission. A request from localhost is not trusted, because a local proxy
/// forwards all requests. To serve metrics without a credential, use a separate address ([`routes`]).
pub(crate) async fn page(State(app): State<App>, request: Request) -> Result<Response, Problem> {
    let options = app.options();
    if !options.metrics {
        return Err(Problem::of(ProblemKind::NotFound, "metrics are disabled"));
    }
    let target = "GET /metrics";
    // Split, because the head can be shared between threads and the body cannot.
    let (head, _) = request.into_parts();
    match app.authenticator().authenticate(&head).await {
        Ok(known) if known.caller.may(Permission::ReadMetrics) => {}
        Ok(known) => {
            app.record_denial(Denial::of(&known.caller, target)).await;
            return Err(Problem::of(ProblemKind::Forbidden, Permission::ReadMetrics.required()));
        }
        Err(Unauthenticated { problem, person: Some(person) }) => {
            app.record_denial(Denial::of_person(person, &head.extensions, target)).await;
            return Err(problem);
        }
        Err(Unauthenticated { problem, person: None }) => {
            if problem.kind == ProblemKind::Unauthorized {
                app.record_denial(Denial::of_anonymous(&head.headers, &head.extensions, target)).await;
            }
            return Err(problem);
        }
    }
    let text = text(app.queue(), options.metrics_tenants).await?;
    Ok(([(header::CONTENT_TYPE, CONTENT_TYPE)], text).into_response())
}

/// Only `/metrics`, for a private address.
pub(crate) fn routes(queue: Queue, tenants: usize) -> axum::Router {
    let respond = move || async move {
        match text(&queue, tenants).await {
            Ok(text) => ([(header::CONTENT_TYPE, CONTENT_TYPE)], text).into_response(),
            Err(error) => {
                tracing::warn!(%error, "cannot read the metrics");
                axum::http::StatusCode::SERVICE_UNAVAILABLE.into_response()
            }
        }
    };
    axum::Router::new().route("/metrics", axum::routing::get(respond))
}
