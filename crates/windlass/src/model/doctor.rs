//! The findings of the doctor.

pub(crate) mod catalog;
pub(crate) mod facts;
mod judge;

use serde::Serialize;

pub(crate) use judge::judge;

/// The severity of a finding.
///
/// ```
/// use windlass::setup::Severity;
///
/// assert!(Severity::Danger > Severity::Warning);
/// assert_eq!(Severity::Fine.as_str(), "fine");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Severity {
    /// No problem.
    Fine,
    /// Needs attention soon.
    Warning,
    /// Jobs are or can be lost, or do not progress.
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

/// The result of one check.
///
/// ```no_run
/// # async fn example(settings: &windlass::Settings) -> windlass::Result<()> {
/// for finding in windlass::setup::examine(settings).await? {
///     println!("{} {}: {}", finding.severity.as_str(), finding.check, finding.found);
///     if let Some(advice) = &finding.advice {
///         println!("  {advice}");
///     }
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Finding {
    /// The name of the check.
    pub check: &'static str,
    /// How serious it is.
    pub severity: Severity,
    /// What was found.
    pub found: String,
    /// What to do, if anything.
    pub advice: Option<String>,
}
