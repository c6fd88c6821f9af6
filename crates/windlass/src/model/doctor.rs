//! What the doctor found, and what it means.

pub(crate) mod facts;
mod judge;

use serde::Serialize;

pub(crate) use judge::judge;

/// How much a finding matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Severity {
    /// As it should be.
    Fine,
    /// Someone should look soon.
    Warning,
    /// Work is being lost, or can be, or stands still.
    Danger,
}

impl Severity {
    /// Returns the name used in SQL, JSON and logs.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Fine => "fine",
            Self::Warning => "warning",
            Self::Danger => "danger",
        }
    }
}

/// One thing the doctor looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Finding {
    /// The name of the check.
    pub check: &'static str,
    /// How serious it is.
    pub severity: Severity,
    /// What was found.
    pub found: String,
    /// What to do, where something is to be done.
    pub advice: Option<String>,
}
