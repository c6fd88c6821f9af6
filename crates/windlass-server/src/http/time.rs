//! Instants in requests: RFC 3339, within the range of the database.

use jiff::Timestamp;
use serde::{Deserialize, Deserializer, de};
use utoipa::ToSchema;
use windlass::internals::instant;

use super::problem::Problem;

/// An instant between the years 1 and 9998.
#[derive(Debug, Clone, Copy, serde::Serialize, ToSchema)]
#[schema(value_type = String, format = DateTime, example = "2026-02-16T10:30:00Z")]
pub(crate) struct Time(pub Timestamp);

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        let at = instant::read(&text).ok_or_else(|| de::Error::custom(instant::EXPECTED))?;
        if instant::SECONDS.contains(&at.as_second()) {
            Ok(Self(at))
        } else {
            Err(de::Error::custom(instant::OUT_OF_RANGE))
        }
    }
}

/// Checks that a credential with this end can be used at all.
pub(crate) fn check_future(expires_at: Option<Timestamp>) -> Result<(), Problem> {
    if expires_at.is_some_and(|at| at <= Timestamp::now()) {
        return Err(Problem::invalid("/expires_at", "must be in the future"));
    }
    Ok(())
}
