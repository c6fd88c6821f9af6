//! How a command ends. Scripts rely on these numbers; they are listed in the help and in docs/cli.md.

use std::fmt;

/// An exit code and what it means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    Success,
    /// The answer is no: a job did not succeed, the doctor found a danger, a chain does not verify, two things differ.
    Negative,
    /// The command line, the configuration or the input is wrong.
    Usage,
    /// The server or the database cannot be reached or started.
    Unreachable,
    /// The credential is missing, unknown, or may not do this.
    Denied,
    /// What was named is not there.
    Missing,
    /// It clashes with what is there: a duplicate, a job that has not ended, an edit by somebody else.
    Conflict,
    /// The server failed to do it.
    Internal,
    /// Stopped by ctrl-C before it was done.
    Interrupted,
}

impl Exit {
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

    #[must_use]
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::Success => "done",
            Self::Negative => {
                "the answer is no: a job did not succeed, the doctor found a danger, two things differ"
            }
            Self::Usage => "the command line, the configuration or the input is wrong",
            Self::Unreachable => "the server or the database cannot be reached or started",
            Self::Denied => "the credential is missing, unknown, or may not do this",
            Self::Missing => "what was named is not there",
            Self::Conflict => "it clashes with what is there",
            Self::Internal => "the server failed to do it",
            Self::Interrupted => "stopped by ctrl-C before it was done",
        }
    }
}

/// Why a command did not succeed, for a person: what happened, and what to try.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    pub exit: Exit,
    pub message: String,
    pub advice: Option<String>,
}

impl Failure {
    pub fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self { exit, message: message.into(), advice: None }
    }

    pub fn usage(message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, message)
    }

    #[must_use]
    pub fn advise(mut self, advice: impl Into<String>) -> Self {
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

/// An error of the library, met on a database that was named directly.
impl From<windlass::Error> for Failure {
    fn from(error: windlass::Error) -> Self {
        let exit = match &error {
            windlass::Error::Settings { .. } => Exit::Usage,
            windlass::Error::MissingRole { .. } => Exit::Denied,
            windlass::Error::UnknownJob { .. } => Exit::Missing,
            windlass::Error::NotFinished { .. } | windlass::Error::DedupeSlotTaken { .. } => Exit::Conflict,
            other if other.is_transient() => Exit::Unreachable,
            _ => Exit::Internal,
        };
        let failure = Self::new(exit, error.to_string());
        match &error {
            windlass::Error::SchemaVersion { .. } => {
                failure.advise("`windlass migrate`, or `windlass doctor` to see what is there")
            }
            windlass::Error::MissingRole { roles, .. } if roles == "windlass_migrator" => failure.advise(
                "or, where windlass was never installed, a login with CREATEROLE that may create a schema in the database",
            ),
            _ if exit == Exit::Unreachable => failure.advise(
                "check that the server runs and that the URL names it (--database-url, DATABASE_URL)",
            ),
            _ => failure,
        }
    }
}

impl From<windlass::embedded::EmbeddedError> for Failure {
    fn from(error: windlass::embedded::EmbeddedError) -> Self {
        Self::new(Exit::Unreachable, error.to_string())
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        // Whoever read our output has read enough.
        let exit =
            if error.kind() == std::io::ErrorKind::BrokenPipe { Exit::Success } else { Exit::Internal };
        Self::new(exit, error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::Exit;

    #[test]
    fn no_two_ends_share_a_code() {
        let mut codes: Vec<u8> = Exit::ALL.iter().map(|exit| exit.code()).collect();
        codes.dedup();
        assert_eq!(codes.len(), Exit::ALL.len());
    }
}
