//! How long the dedupe key of a job prevents another job with the same key.
//!
//! A key belongs to a tenant: those of two tenants are independent. Uniqueness decides what happens to a *different*
//! request for the same work; the idempotency key handles repetitions of the same request.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// How long a dedupe key is held.
///
/// ```
/// use std::time::Duration;
/// use windlass::NewJob;
/// use windlass::job::Unique;
///
/// let once_an_hour = NewJob::new("report").dedupe_key("report 7").unique(Unique::Window(Duration::from_secs(3600)));
/// # let _ = once_an_hour;
/// ```
///
/// Written `"active"`, `{"window_seconds": 60}` or `"forever"`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Unique {
    /// While a job with the key has not ended: at most one waits or runs. The default.
    #[default]
    Active,
    /// For this time after a job with the key was accepted, regardless of the outcome of that job. For bursts of
    /// identical events; a schedule does not use it, because its runs are unique by their due instants.
    #[serde(rename = "window_seconds", with = "window_seconds")]
    Window(Duration),
    /// Forever, even after the job is deleted by retention. An operator's retry or a purge of the subject releases it.
    Forever,
}

mod window_seconds {
    use std::time::Duration;

    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    use crate::model::new_job::NewJob;

    pub(super) fn serialize<S: Serializer>(window: &Duration, to: S) -> Result<S::Ok, S::Error> {
        if window.subsec_nanos() == 0 {
            to.serialize_u64(window.as_secs())
        } else {
            to.serialize_f64(window.as_secs_f64())
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
        let seconds = f64::deserialize(from)?;
        Duration::try_from_secs_f64(seconds)
            .ok()
            // A longer window is practically `forever`, and its sum with a timestamp could overflow.
            .filter(|window| !window.is_zero() && *window <= NewJob::MAX_DELAY)
            .ok_or_else(|| {
                D::Error::custom("window_seconds must be greater than 0 and at most 315360000 (ten years)")
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_policy_reads_and_writes_its_own_form() {
        let forms = [
            (r#""active""#, Unique::Active),
            (r#"{"window_seconds":60}"#, Unique::Window(Duration::from_secs(60))),
            (r#"{"window_seconds":0.5}"#, Unique::Window(Duration::from_millis(500))),
            (r#""forever""#, Unique::Forever),
        ];
        for (json, unique) in forms {
            assert_eq!(serde_json::from_str::<Unique>(json).unwrap(), unique);
            assert_eq!(serde_json::to_string(&unique).unwrap(), json);
        }
        assert_eq!(Unique::default(), Unique::Active);
    }

    #[test]
    fn an_invalid_window_is_rejected_by_name() {
        for seconds in ["0", "-1", "1e12", "1e300", "1e-12"] {
            let json = format!(r#"{{"window_seconds":{seconds}}}"#);
            let error = serde_json::from_str::<Unique>(&json).unwrap_err();
            assert!(error.to_string().contains("window_seconds"), "{error}");
        }
        assert!(serde_json::from_str::<Unique>(r#""window""#).is_err());
        assert!(serde_json::from_str::<Unique>(r#"{"window_seconds":"60"}"#).is_err());
    }
}
