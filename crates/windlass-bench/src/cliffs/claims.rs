//! The durations of the claims of this process, from the metric of the library.

use std::sync::Arc;

use metrics::{Counter, Gauge, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder, SharedString, Unit};
use parking_lot::Mutex;

use crate::Result;
use crate::percentile::percentile;

/// Installed once per process.
#[derive(Debug, Clone, Default)]
pub(super) struct Claims(Arc<Seconds>);

#[derive(Debug, Default)]
struct Seconds(Mutex<Vec<f64>>);

impl Claims {
    pub(super) fn install() -> Result<Self> {
        let claims = Self::default();
        metrics::set_global_recorder(claims.clone())
            .map_err(|_| "another recorder of metrics is installed")?;
        Ok(claims)
    }

    pub(super) fn forget(&self) {
        self.0.0.lock().clear();
    }

    /// In milliseconds.
    pub(super) fn p99(&self) -> Option<f64> {
        let seconds = self.0.0.lock();
        percentile(&seconds, 0.99).map(|seconds| seconds * 1000.0)
    }
}

impl HistogramFn for Seconds {
    fn record(&self, value: f64) {
        self.0.lock().push(value);
    }
}

impl Recorder for Claims {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, _: &Key, _: &Metadata<'_>) -> Counter {
        Counter::noop()
    }

    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::noop()
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        let is_claim = key.name() == "windlass_database_seconds"
            && key.labels().any(|label| label.key() == "call" && label.value() == "claim");
        if is_claim { Histogram::from_arc(self.0.clone()) } else { Histogram::noop() }
    }
}
