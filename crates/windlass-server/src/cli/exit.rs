//! How a command ends. Scripts rely on these numbers; they are listed in the help and in docs/cli.md.

use std::fmt;

/// An exit code and what it means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// The command succeeded.
    Success,
    /// The result is negative: a job did not succeed, the doctor found a danger, a chain does not verify, two things differ.
    Negative,
    /// The command line, the configuration or the input is wrong.
    Usage,
    /// The server or the database cannot be reached or started, or the server accepts no more requests for the moment.
    Unreachable,
    /// The credential is missing, invalid, or lacks permission.
    Denied,
    /// The named object does not exist.
    Missing,
    /// The request conflicts with the current state: a duplicate, a job that has not ended, a concurrent edit.
    Conflict,
    /// An internal error of the server.
    Internal,
    /// Interrupted by ctrl-C before it finished.
    Interrupted,
}

impl Exit {
    /// Every exit code.
    pub const ALL: [Self; 9] = [
        Self::Success,
        Self::Negative,
        Self::Usage,
        Self::Unreachable,
        Self::Denied,
        Self::Missing,
        Self::Conflict,
        Self::Internal,
        Self::Interrupted,
    ];

    /// Returns the number.
    #[must_use]
    pub const fn code(self) -> u8 {
        match self {
            Self::Success => 0,
            Self::Negative => 1,
            Self::Usage => 2,
            Self::Unreachable => 3,
            Self::Denied => 4,
            Self::Missing => 5,
            Self::Conflict => 6,
            Self::Internal => 7,
            Self::Interrupted => 130,
        }
    }

    /// Returns the description in the help.
    #[must_use]
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Negative => "negative result: a failed job, a dangerous condition, or a failed check",
            Self::Usage => "invalid command line, configuration or input",
            Self::Unreachable => {
                "the server or the database cannot be reached or started, or the rate limit is reached"
            }
            Self::Denied => "access denied: the credential is missing, invalid, or lacks permission",
            Self::Missing => "not found",
            Self::Conflict => "conflict",
            Self::Internal => "internal error",
            Self::Interrupted => "interrupted by ctrl-C",
        }
    }
}

/// Why a command did not succeed: a message, and advice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) exit: Exit,
    pub(crate) message: String,
    pub(crate) advice: Option<String>,
}

impl Failure {
    pub(crate) fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self { exit, message: message.into(), advice: None }
    }

    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, message)
    }

    /// If the object was not found, the failure names it.
    #[must_use]
    pub(crate) fn about(self, what: &str) -> Self {
        match self.exit {
            Exit::Missing => Self { message: format!("{what} not found"), ..self },
            _ => self,
        }
    }

    #[must_use]
    pub(crate) fn advise(mut self, advice: impl Into<String>) -> Self {
        self.advice = Some(advice.into());
        self
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.message)?;
        if let Some(advice) = &self.advice {
            write!(f, "\n  try: {advice}")?;
        }
        Ok(())
    }
}

/// An error of the library, on a database given by its URL.
impl From<windlass::Error> for Failure {
    fn from(error: windlass::Error) -> Self {
        let exit = match &error {
            windlass::Error::Settings { .. }
            | windlass::Error::ServerVersion { .. }
            | windlass::Error::SchemaVersion { .. }
            | windlass::Error::UnknownDatabase { .. } => Exit::Usage,
            windlass::Error::MissingRole { .. }
            | windlass::Error::MigrationDenied { .. }
            | windlass::Error::LoginRejected { .. } => Exit::Denied,
            windlass::Error::UnknownJob { .. } => Exit::Missing,
            windlass::Error::NotFinished { .. }
            | windlass::Error::DeadlinePassed { .. }
            | windlass::Error::DedupeSlotTaken { .. }
            | windlass::Error::Locked { .. }
            | windlass::Error::Contended { .. }
            | windlass::Error::SchemaTaken { .. }
            | windlass::Error::ForeignObjects { .. } => Exit::Conflict,
            other if other.is_transient() => Exit::Unreachable,
            _ => Exit::Internal,
        };
        let failure = Self::new(exit, error.to_string());
        match &error {
            windlass::Error::SchemaVersion { .. } => {
                failure.advise("`windlass migrate`, or `windlass doctor` to see the state of the schema")
            }
            windlass::Error::LoginRejected { .. } => failure.advise(
                "check the user and the password in the URL of the database (--database-url, DATABASE_URL)",
            ),
            _ if exit == Exit::Unreachable => failure.advise(
                "check that the database server is running and that the URL is correct (--database-url, DATABASE_URL)",
            ),
            _ => failure,
        }
    }
}

impl From<windlass::setup::embedded::EmbeddedError> for Failure {
    fn from(error: windlass::setup::embedded::EmbeddedError) -> Self {
        Self::new(Exit::Unreachable, error.to_string())
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        // The reader of our output has closed it, such as `head`.
        let exit =
            if error.kind() == std::io::ErrorKind::BrokenPipe { Exit::Success } else { Exit::Internal };
        Self::new(exit, error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use windlass::Error;

    use super::{Exit, Failure};

    #[test]
    fn a_conflict_of_transactions_is_not_an_unreachable_database() {
        for code in ["40P01", "40001", "55P03"] {
            let failure = Failure::from(Error::Contended { code });
            assert_eq!(failure.exit, Exit::Conflict);
            assert!(failure.message.contains("nothing was changed; try again"), "{failure}");
        }
        let of = |error| Failure::from(error).exit;
        assert_eq!(of(Error::LoginRejected { message: String::new() }), Exit::Denied);
        assert_eq!(of(Error::UnknownDatabase { message: String::new() }), Exit::Usage);
    }

    #[test]
    fn exit_codes_are_unique() {
        let mut codes: Vec<u8> = Exit::ALL.iter().map(|exit| exit.code()).collect();
        codes.sort_unstable();
        codes.dedup();
        assert_eq!(codes.len(), Exit::ALL.len());
    }
}
